"""What this user may do with a store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong, wrong_by
from nczfs.errors import AccessDenied, NamesUnknown, NoSuchObject, StoreError
from nczfs.messages import shown, size_text
from nczfs.plaindata import frozen
from nczfs.zmap.base import Entry, ZMap
from nczfs.zmap.destination import Bucket
from nczfs.zmap.keys import OWN_FILES, ROOT, Key, Prefix, join

NAMES_MAX = 1000  # one page of a listing
NAMES_ASKED_MAX = 8  # where each name costs a request
LEVELS_MAX = 4
BRANCHES_MAX = 2
BODY = b"nczfs doctor tries to write, and removes this again\n"


@frozen
class Sample:
    """An object that was found in the store.

    Attributes
    ----------
    size : in bytes.
    """

    key: Key
    size: int


def credentials(bucket: Bucket) -> CheckResult:
    """Check that there are credentials, and say where they come from."""
    try:
        source = bucket.credentials_from()
    except AccessDenied as error:
        return wrong_by(error)
    return well(f"from {source}" if source else "none: requests are not signed")


def region(bucket: Bucket) -> CheckResult:
    """Check that the bucket is in the region that settings name."""
    try:
        home = bucket.home_region()
    except StoreError as error:
        return wrong_by(error)
    if home == bucket.signing_region:
        return well(home)
    return doubtful(
        f"the bucket is in {home}, but settings say {bucket.signing_region}, so the first request"
        " of each command is in vain",
        f"--region {home}",
    )


def listing(zmap: ZMap) -> tuple[CheckResult, Sample | None]:
    """Check that names can be listed. Returns the largest object of those seen, too."""
    try:
        entries = _names(zmap, ROOT)
    except AccessDenied as error:
        return (
            doubtful(
                f"denied ({error}): only datasets with consolidated metadata can be read, by their"
                " own URLs",
                "give s3:ListBucket to these credentials, or --forbidden-is-absent yes",
            ),
            None,
        )
    except NamesUnknown as error:
        return (
            doubtful(
                f"impossible ({error})",
                "open datasets by their own URLs, with consolidated metadata",
            ),
            None,
        )
    except StoreError as error:
        return wrong_by(error), None
    if not entries:
        return wrong(f"{zmap.name}: nothing is there", "check the name, or create a dataset"), None
    more = "at least " if len(entries) == NAMES_MAX else ""
    count = f"{more}{len(entries)} name{'s' if len(entries) > 1 else ''} at this place"
    return well(f"permitted: {count}"), _largest(zmap, entries)


def reading(zmap: ZMap, sample: Sample) -> CheckResult:
    """Check that an object can be read."""
    try:
        zmap.read(sample.key, 0, 1)
    except (AccessDenied, NoSuchObject) as error:
        return wrong(f"denied ({error})", "give s3:GetObject to these credentials")
    except StoreError as error:
        return wrong_by(error)
    return well(f"permitted: {shown(sample.key)} of {size_text(sample.size)}")


def writing(zmap: ZMap) -> CheckResult:
    """Write one object with a name that nobody has, read it, and remove it."""
    if not zmap.features.writable:
        return wrong(f"{zmap.name} can only be read", "copy it to a store that can be written")
    if zmap.features.gathers_writes:
        return well("not tried, as an archive would keep the place of what was written")
    key = Key(f"{OWN_FILES}probe-{secrets.token_hex(8)}")
    try:
        zmap.write(key, BODY)
    except StoreError as error:
        return _refused("writing", error, "give s3:PutObject to these credentials")
    unread = None
    try:
        zmap.read(key)
    except StoreError as error:
        unread = wrong(f"what was written cannot be read ({error})")
    refused = _removal(zmap, key)
    return unread or refused or well("one object was written, read and removed")


def conditions(zmap: ZMap) -> CheckResult:
    """Find out whether writers of one object respect each other."""
    try:
        features = zmap.prepare_writing()
    except StoreError as error:
        return wrong_by(error)
    if features.conditional_writes:
        return well("conditional writes work: several writers lose nothing")
    return doubtful(
        "the store has no conditional writes, so one program at a time writes to a dataset, by a"
        " lease",
        "a server that honours If-Match and If-None-Match needs none",
    )


def _removal(zmap: ZMap, key: Key) -> CheckResult | None:
    try:
        zmap.delete(key)
    except StoreError as error:
        return _refused(
            f"removing {key}, which stays,", error, "give s3:DeleteObject to these credentials"
        )
    with suppress(NoSuchObject, AccessDenied):
        zmap.stat(key)
        return wrong(f"{key} is still there after its removal", "remove it in another way")
    return None


def _refused(what: str, error: StoreError, remedy: str) -> CheckResult:
    return wrong(f"{what} is refused ({error})", remedy if isinstance(error, AccessDenied) else "")


def _names(zmap: ZMap, prefix: Prefix) -> list[Entry]:
    most = NAMES_MAX if zmap.features.lists_sizes else NAMES_ASKED_MAX
    return list(islice(zmap.search(prefix), most))


def _largest(zmap: ZMap, entries: list[Entry]) -> Sample | None:
    """Return the largest object at a place and a few places below; None: there is none."""
    found = list(_samples(zmap, ROOT, entries, LEVELS_MAX))
    return max(found, key=lambda sample: sample.size, default=None)


def _samples(zmap: ZMap, prefix: Prefix, entries: list[Entry], levels: int) -> Iterator[Sample]:
    for entry in entries:
        if entry.stat is not None:
            yield Sample(entry.stat.key, entry.stat.size)
    below = [join(prefix, entry.name) for entry in entries if entry.is_prefix]
    for path in below[: BRANCHES_MAX if levels > 0 else 0]:
        with suppress(StoreError, os.error):
            yield from _samples(zmap, Prefix(path), _names(zmap, Prefix(path)), levels - 1)
