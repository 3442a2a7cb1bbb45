"""Which store opens which URL, and the options that all of them share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from os.path import basename, dirname
from typing import Literal, TypeAlias, cast

from nczfs.errors import AccessDenied, UsageError
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import ENTRY_POINTS, StoreUrl, parse_url
from nczfs.zmap.wrappers import Metered, Prefixed, ReadOnly
from nczfs.zmap.zip import ZipZMap


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to reach a store; what a URL says itself goes before it.

    Attributes
    ----------
    endpoint_url : of an S3 server; None: of the environment, else Amazon's.
    region, profile : None: as botocore finds them (environment, files, instance).
    no_sign_request : do not sign, for public buckets.
    force_path_style : ``HOST/BUCKET`` (True) or ``BUCKET.HOST`` (False); None: the former at
        endpoints that are not Amazon's.
    requester_pays : say in each request that we pay for it.
    expected_bucket_owner : refuse a bucket of another account; None: whoever owns it.
    ca_bundle : a file of certificate authorities; None: of the environment, else botocore's.
    request_timeout_s : a request has its answer, or its error, within this time.
    attempt_timeout_s : an attempt that gets no byte for this long is given up and repeated.
    connections : kept open, and so the most requests at once that need no new one.
    forbidden_is_absent : whether 403 for a key means that there is none, as S3 answers to those
        who must not list; "auto" asks for a key that cannot exist.
    read_only : refuse to write.
    """

    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    no_sign_request: bool = False
    force_path_style: bool | None = None
    requester_pays: bool = False
    expected_bucket_owner: str | None = None
    ca_bundle: str | None = None
    request_timeout_s: float = 15.0
    attempt_timeout_s: float = 4.0
    connections: int = 32
    forbidden_is_absent: Literal["auto", "yes", "no"] = "auto"
    read_only: bool = False


Opener: TypeAlias = Callable[[StoreUrl, StoreOptions], ZMap]
"""Opens the map rooted at a URL; what the entry points of the group ``nczfs.zmap`` name."""

DEFAULTS = StoreOptions()

_memory_lock = threading.Lock()  # guards _memory, the stores of memory:// by name
_memory: dict[str, MemoryZMap] = {}


def open_store(url: StoreUrl | str, options: StoreOptions = DEFAULTS) -> ZMap:
    """Open the store that a URL names: the map rooted at the URL.

    Nothing is asked of a remote store yet.

    Parameters
    ----------
    url : as `parse_url` takes it, or made by it.
    options : for what the URL leaves out.

    Raises
    ------
    BadUrl : it names no store.
    UsageError : no store opens this kind of URL.
    NoContent : a local path does not exist.
    """
    place = parse_url(url) if isinstance(url, str) else url
    zmap = _opener(place.kind)(place, options)
    return Metered(ReadOnly(zmap) if options.read_only else zmap, place.kind)


def create_store(url: StoreUrl, options: StoreOptions = DEFAULTS) -> ZMap:
    """As `open_store`, for what shall be made there: a directory that is missing is made."""
    if url.kind == "file" and not os.path.exists(url.path):
        try:
            os.makedirs(url.path)
        except OSError as error:
            raise AccessDenied(f"{url.path}: cannot be made: {error.strerror}") from error
    return open_store(url, options)


def open_directory(url: StoreUrl, options: StoreOptions) -> ZMap:
    """A directory."""
    return DirectoryZMap(url.path, read_only=options.read_only)


def open_archive(url: StoreUrl, options: StoreOptions) -> ZMap:
    """A zip archive: an object of the store around it, a directory or a prefix of a bucket."""
    if url.path:
        name = basename(url.path)
        outer = replace(url, kind="file", path=dirname(url.path), text=dirname(url.path))
    else:
        name = basename(url.prefix)
        outer = replace(url, kind="s3", prefix=Prefix(dirname(url.prefix)), text=dirname(url.text))
    return ZipZMap(open_store(outer, options), parse_key(name))


def open_memory(url: StoreUrl, options: StoreOptions) -> ZMap:
    """The store of that name in the memory of this process, the same one at each call."""
    with _memory_lock:
        zmap = _memory.setdefault(url.bucket, MemoryZMap(f"memory://{url.bucket}"))
    return rooted(zmap, url.prefix)


def refuse_http(url: StoreUrl, options: StoreOptions) -> ZMap:
    """There is no store behind plain HTTP yet."""
    raise UsageError(
        f"{url.text}: plain HTTP stores are not supported; if this is an S3 server, add #mode=s3"
    )


def rooted(zmap: ZMap, prefix: Prefix) -> ZMap:
    """The map below a prefix, which is the map itself where the prefix is empty."""
    return Prefixed(zmap, prefix) if prefix else zmap


def _open_s3(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Amazon's libraries take a third of a second to import: only for whoever needs them."""
    return cast(Opener, import_module("nczfs.zmap.s3").open_s3)(url, options)


_OPENERS: Mapping[str, Opener] = {
    "file": open_directory,
    "zip": open_archive,
    "memory": open_memory,
    "s3": _open_s3,
    "http": refuse_http,
}


def _opener(kind: str) -> Opener:
    if kind in _OPENERS:
        return _OPENERS[kind]
    for found in entry_points(group=ENTRY_POINTS, name=kind):
        return cast(Opener, found.load())
    raise UsageError(f"no store opens {kind}:// URLs")
