"""A bucket as a store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, NoSuchObject, StoreError, UsageError
from nczfs.zmap.base import (
    Blob,
    Entry,
    Features,
    Glance,
    Part,
    Stat,
    Version,
    WriteOptions,
    ZMap,
    read_range,
)
from nczfs.zmap.forbidden import Forbidden
from nczfs.zmap.keys import ROOT, Key, Prefix, checked_text
from nczfs.zmap.registry import DEFAULTS, StoreOptions, rooted
from nczfs.zmap.run import ListedRange
from nczfs.zmap.s3 import answers, listing
from nczfs.zmap.s3.access import S3Access
from nczfs.zmap.s3.batch import BatchDeletion
from nczfs.zmap.s3.conditions import Memory
from nczfs.zmap.s3.markers import Markers
from nczfs.zmap.s3.messages import ANSWER_BYTES_MAX, S3Answer, S3Request
from nczfs.zmap.s3.page import ListingPage
from nczfs.zmap.s3.pieces import PART_BYTES_MIN
from nczfs.zmap.s3.probe import ConditionalWriteProbe
from nczfs.zmap.s3.remembered import Remembered
from nczfs.zmap.s3.transport import S3Transport
from nczfs.zmap.s3.uploads import UploadNotes
from nczfs.zmap.s3.writing import OBJECT_BYTES_MAX, S3Writer
from nczfs.zmap.url import StoreUrl
from nczfs.zmap.web.headers import is_etag, is_strong, range_header

MD5_BYTES_MAX = {"auto": 1 << 18, "yes": OBJECT_BYTES_MAX, "no": -1}
"""MD5 takes 1.8 ms of a processor for a MiB, twice as much as the rest of reading an object."""

_FEATURES = Features(
    conditional_writes=False,
    near=False,
    server_copies=True,
    keeps_times=True,
    markers=True,
    text_keys=True,
)
_conditions = Memory(Remembered())


class S3ZMap(ZMap):
    """A whole bucket.

    The version of an object is its ETag. An object is replaced atomically, by one PUT or, when it
    is large and no condition is given, by completing an upload in parts. Whether conditions hold
    against racing writers is probed (`conditions`); where they do not, a write compares first, and
    another one may come in between.

    Parameters
    ----------
    bucket : its name.
    options : how to reach it.
    home : the used prefix, below which temporary objects lie: those of the probe, and notes of
        uploads.
    endpoint_from : the setting that names the server, if the options do; for messages.

    Notes
    -----
    `_not_copied_from` has the names of buckets from which the server would not copy. It only grows.
    """

    def __init__(
        self,
        bucket: str,
        options: StoreOptions = DEFAULTS,
        *,
        home: Prefix = ROOT,
        endpoint_from: str = "--endpoint-url",
    ) -> None:
        if options.part_bytes < PART_BYTES_MIN:
            raise UsageError("--part-size: the parts of an upload have at least 5MiB")
        self._options = options
        self._access = S3Access(bucket, options, endpoint_from=endpoint_from)
        site = self._access.site
        self._bucket = (site.endpoint_url, bucket)
        self._name = f"s3://{bucket}" if site.is_amazon else f"{site.endpoint_url}/{bucket}"
        self._transport = S3Transport(self._access, self._name, options)
        encryption = self._access.encryption
        self._notes = UploadNotes(self._transport, home, encryption)
        self._probe = ConditionalWriteProbe(
            self._transport, self._bucket, home, encryption, _conditions
        )
        self._writer = S3Writer(
            self._transport,
            self._probe,
            self._notes,
            encryption=encryption,
            part_bytes=options.part_bytes,
            head=self._head,
            read=partial(read_range, self),
        )
        self._markers = Markers(self._transport, encryption, self._head)
        self._deletion = BatchDeletion(self._transport)
        self._not_copied_from: set[str] = set()
        self._forbidden = Forbidden(
            options.forbidden_is_absent, self._name, self._gives, self._hides
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        known = _conditions.get(self._bucket).puts
        return replace(
            _FEATURES,
            conditional_writes=known is not None and known.hold,
            forbidden_is_absent=self._forbidden.is_absent,
        )

    @property
    def silent_s(self) -> float:
        return self._transport.silent_s

    def prepare_writing(self) -> Features:
        self._notes.abort_forgotten()
        self._probe.puts()
        return self.features

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        if stop is not None and stop <= start:
            return self._nothing(key, version)
        # Always a range, because its answer gives the size of the object, which reveals a body that
        # was cut on the way together with its Content-Length.
        headers = {"range": range_header(start, stop)}
        if version is not None and is_strong(version):
            headers["if-match"] = version
        md5_bytes_max = MD5_BYTES_MAX[self._options.check_etag]
        answer = self._transport.send(
            S3Request("GET", key, headers, start=start, stop=stop),
            answers.range_fault(start, stop, md5_bytes_max),
        )
        if answer.status == 416:
            return self._nothing(key, version) if start >= 0 else self._end(key, -start, version)
        if answer.status not in {200, 206}:
            raise self._refusal(answer, key)
        self._forbidden.note_read(key)
        stat = answers.stat_of(key, answer)
        self._check_version(stat, version)
        return Blob(answer.body, stat.version, stat.size, stat.mtime_ns)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        return self._writer.put(checked_text(key), data, **options)

    def copy(self, source: Stat, goal: Key, **options: Unpack[WriteOptions]) -> Version:
        version = self._writer.copy(source, checked_text(goal), **options)
        if version is None:
            return super().copy(source, goal, **options)
        return version

    def copy_from(self, origin: ZMap, key: Key, goal: Key) -> Version:
        inner, inner_key = origin.located(key)
        if not isinstance(inner, S3ZMap) or inner.name in self._not_copied_from:
            return super().copy_from(origin, key, goal)
        if not self._access.may_copy_from(inner._access):
            return super().copy_from(origin, key, goal)
        source = inner._access.copy_source(inner_key)
        version = self._writer.copy_of(source, checked_text(goal))
        if version is None:
            # The object is gone, or this user may not read that bucket, or the server cannot.
            version = super().copy_from(origin, key, goal)
            self._not_copied_from.add(inner.name)
        return version

    def write_parts(
        self, key: Key, parts: Sequence[Part], **options: Unpack[WriteOptions]
    ) -> Version:
        version = self._writer.assemble(checked_text(key), parts, **options)
        if version is None:
            return super().write_parts(key, parts, **options)
        return version

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        return self._writer.set_mtime(stat, mtime_ns)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        answer = self._writer.delete(key, version)
        if answer.status in {200, 204} or (answer.status == 404 and answer.repeated):
            return
        if answer.status == 404 and answer.code != "NoSuchBucket":
            raise NoSuchObject(f"{self._name}/{key}: no such object")
        raise self._failure(answer, self._transport.where(key))

    def delete_many(self, keys: Iterable[Key]) -> None:
        super().delete_many(self._deletion.delete(keys))

    def stat(self, key: Key) -> Stat:
        return answers.stat_of(key, self._head(key))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return listing.entries(self._pages(prefix, one_level=True), prefix)

    def glance(self, prefix: Prefix) -> Glance:
        return listing.glance(partial(self._pages, prefix, one_level=True), prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return listing.stats(self._pages(prefix, one_level=False), prefix)

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        return listing.run_from(self._transport, f"{prefix}/" if prefix else "", first)

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        return listing.is_there(self._pages(prefix, one_level=True), prefix, marked=marked)

    def mark(self, prefix: Prefix) -> None:
        self._markers.make(prefix)

    def unmark(self, prefix: Prefix) -> None:
        self._markers.remove(prefix)

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        return listing.markers(self._pages(prefix, one_level=False), self._name)

    def close(self) -> None:
        self._transport.close()

    # Requests

    def _head(self, key: Key) -> S3Answer:
        answer = self._transport.send(S3Request("HEAD", key), answers.header_fault)
        if answer.status in {400, 403}:
            # The answer to a HEAD has no body with the reason.
            answer = self._first_byte(key, answers.header_fault)
        if answer.status not in {200, 206}:
            raise self._refusal(answer, key)
        self._forbidden.note_read(key)
        return answer

    def _pages(self, prefix: Prefix, token: str = "", *, one_level: bool) -> Iterator[ListingPage]:
        start = f"{prefix}/" if prefix else ""
        return listing.pages(self._transport, start, token, one_level=one_level)

    def _end(self, key: Key, size: int, version: Version | None) -> Blob:
        """Read the last bytes of an object from a server that does not count from the end."""
        stat = self.stat(key)
        return self.read(key, max(0, stat.size - size), stat.size, version=version or stat.version)

    def _nothing(self, key: Key, version: Version | None) -> Blob:
        """Answer a range without bytes, for which S3 has no answer."""
        stat = self.stat(key)
        self._check_version(stat, version)
        return Blob(b"", stat.version, stat.size, stat.mtime_ns)

    def _check_version(self, stat: Stat, version: Version | None) -> None:
        if version is None or version == stat.version:
            return
        if is_etag(version) and not is_etag(stat.version):
            # A server that sends no ETag with an object may list it with one.
            page = next(listing.pages(self._transport, stat.key, one_level=True))
            listed = next((found for found in page.objects if found.key == stat.key), None)
            if listed == stat._replace(version=version, kept_mtime_ns=None):
                return
        raise Conflict(f"{self._name}/{stat.key}: replaced since it was opened")

    # Refusals

    def _refusal(self, answer: S3Answer, key: Key) -> StoreError:
        where = self._transport.where(key)
        if answer.status == 404 and answer.code not in {"NoSuchBucket", "NoSuchUpload"}:
            return NoSuchObject(f"{where}: no such object")
        if not _is_refused(answer):
            return self._failure(answer, where)
        if self._forbidden.means_absent(key):
            return NoSuchObject(
                f"{where}: no such object, or access denied: the answer is 403 in both cases"
            )
        return self._failure(answer, where, self._forbidden.hint)

    def _failure(self, answer: S3Answer, where: str, hint: str = "") -> StoreError:
        return answers.failure(answer, where, anonymous=self._access.anonymous, hint=hint)

    def _gives(self, key: Key) -> bool:
        return self._first_byte(key).status in {200, 206, 416}  # the last one: no first byte

    def _hides(self, key: Key) -> bool:
        """Test an impossible key and a listing: S3 answers 404 only to those who may list."""
        folder = key.rpartition("/")[0]
        before = f"{folder}/" if folder else ""
        query = listing.question(before, "", one_level=True) | {"max-keys": "1"}
        return (
            _is_refused(self._first_byte(f"{before}{secrets.token_hex(16)}"))
            and self._transport.send(
                S3Request("GET", "", query=query, limit=ANSWER_BYTES_MAX)
            ).status
            == 403
        )

    def _first_byte(
        self, key: str, fault: Callable[[S3Answer], str] = lambda answer: ""
    ) -> S3Answer:
        return self._transport.send(S3Request("GET", key, {"range": "bytes=0-0"}, stop=1), fault)


def _is_refused(answer: S3Answer) -> bool:
    return answer.status == 403 and answer.code in answers.REFUSALS


def open_s3(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Return the map rooted at an ``s3`` URL, which takes precedence over the options."""
    zmap = S3ZMap(
        url.bucket,
        options_of(url, options),
        home=url.prefix,
        endpoint_from=endpoint_setting(url),
    )
    return rooted(zmap, url.prefix)


def options_of(url: StoreUrl, options: StoreOptions) -> StoreOptions:
    """Return the options for an ``s3`` URL, with what the URL itself says."""
    return replace(
        options,
        endpoint_url=url.endpoint_url or options.endpoint_url,
        region=url.region or options.region,
        profile=url.profile or options.profile,
        no_sign_request=url.anonymous or options.no_sign_request,
    )


def endpoint_setting(url: StoreUrl) -> str:
    """Return the setting that names the server of a URL, if the options for it do."""
    return "--endpoint-url" if url.endpoint_url is None else "host and port of the URL"
