"""Writing objects: by one PUT, by an upload in parts, or by a copy on the server."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, NoSuchObject, ObjectExists, ObjectTooLarge, StoreError
from nczfs.zmap.base import ABSENT, ByteRange, Part, Stat, Version, part_bytes, part_size
from nczfs.zmap.keys import Key
from nczfs.zmap.s3 import answers, multipart
from nczfs.zmap.s3.conditions import REFUSED, Conditions, SourceCheck
from nczfs.zmap.s3.messages import Call, S3Answer, S3Request
from nczfs.zmap.s3.multipart import Upload
from nczfs.zmap.s3.pieces import SentPart, UploadPart, cut
from nczfs.zmap.s3.probe import ConditionalWriteProbe, copy_fault
from nczfs.zmap.s3.times import headers_of
from nczfs.zmap.s3.transport import S3Transport
from nczfs.zmap.s3.uploads import UploadNotes
from nczfs.zmap.web.headers import etag_in

PUT_BYTES_MAX = 5 << 30  # limit for copies as well
OBJECT_BYTES_MAX = 5 << 40
PARTS_LEAST = 4  # an object of no more parts than this is one PUT
COPIED_BYTES_S = 20 << 20  # the slowest accepted copying of a server
COPY_S = 60.0  # for an object of unknown size: one of a chunk of 1.2 GB

_WRITER = "x-amz-meta-nczfs-write"
_CARRIED = frozenset(
    {"cache-control", "content-disposition", "content-encoding", "content-language", "content-type"}
)
_USER = "x-amz-meta-"
_UNKNOWN_CONDITION = frozenset({400, 501})


class S3Writer:
    """A writer of objects, with or without conditions.

    Parameters
    ----------
    encryption : headers of every request that makes an object.
    part_bytes : the size of a sent part, unless an upload would have too many.
    head : returns the answer to a HEAD; raises if it is a refusal.
    read : returns the bytes of a range.
    """

    def __init__(
        self,
        transport: S3Transport,
        probe: ConditionalWriteProbe,
        notes: UploadNotes,
        *,
        encryption: Mapping[str, str],
        part_bytes: int,
        head: Callable[[Key], S3Answer],
        read: Callable[[ByteRange], Buffer],
    ) -> None:
        self._transport = transport
        self._probe = probe
        self._notes = notes
        self._encryption = encryption
        self._part_bytes = part_bytes
        self._head = head
        self._read = read

    def put(
        self,
        key: Key,
        data: Buffer,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        """Write bytes."""
        size = part_size(data)
        if size > PUT_BYTES_MAX or (replaces is None and size > PARTS_LEAST * self._part_bytes):
            condition = self._condition(key, replaces, self._probe.completions)
            if condition is None:
                raise self._too_large(key)
            return self._upload(key, [data], replaces, condition, mtime_ns)
        condition = {}
        if replaces is not None:
            known = self._probe.puts()
            condition = known.headers(replaces)
            if not condition:
                self._compare(key, replaces)
        writer = secrets.token_hex(16)
        headers = {**self._encryption, **headers_of(mtime_ns), **_marked(condition, writer)}
        request = S3Request("PUT", key, headers, body=data)
        answer = self._transport.send(request, answers.etag_fault)
        if answer.status == 200:
            return Version(etag_in(answer.headers["etag"]))
        if ours := self._in_spite(answer, condition, writer, key):
            return ours
        raise self._refused(answer, key, replaces if condition else None)

    def copy(
        self,
        source: Stat,
        goal: Key,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version | None:
        """Let the server copy an object with one request. Returns None if it cannot."""
        if source.size > PUT_BYTES_MAX or source.key == goal:
            return None
        check = self._probe.sources().headers(source.version)
        condition = self._condition(goal, replaces, self._probe.copies) if check else None
        if condition is None:
            return None
        writer = secrets.token_hex(16)
        headers = {**self._encryption, **check}
        time = {} if mtime_ns == source.kept_mtime_ns else headers_of(mtime_ns)
        if condition or time:
            # A marker or a time replaces all metadata, so those of the source are sent again.
            headers |= {**self._replaced(source), **time, **_marked(condition, writer)}
        return self._made_copy(source, goal, headers, condition, writer, replaces)

    def copy_of(self, source: Mapping[str, str], goal: Key) -> Version | None:
        """Let the server copy an object of another bucket. Returns None if it does not.

        Parameters
        ----------
        source : bucket and key, as `Access.copy_source` returns them.
        """
        call = Call("copy_object", goal, {"CopySource": source}, self._encryption, work_s=COPY_S)
        answer = self._transport.call(call, copy_fault)
        return answers.made_version(answer, "CopyObjectResult") if answer.status == 200 else None

    def set_mtime(self, source: Stat, mtime_ns: int) -> Version:
        """Change the time of an object by one copy onto itself."""
        key = source.key
        if source.size > PUT_BYTES_MAX:
            raise self._too_large(key)
        checks = dict(self._probe.sources().headers(source.version))
        if self._probe.puts().hold:
            checks |= self._probe.copies().headers(source.version)
        writer = secrets.token_hex(16)
        headers = {
            **self._encryption,
            **self._replaced(source),
            **headers_of(mtime_ns),
            **_marked(checks, writer),
        }
        return self._made_copy(source, key, headers, checks, writer, source.version)

    def _made_copy(
        self,
        source: Stat,
        goal: Key,
        headers: Mapping[str, str],
        condition: Mapping[str, str],
        writer: str,
        replaces: Version | None,
    ) -> Version:
        """Send a request that copies, and judge the answer; `condition` is in the headers."""
        call = Call(
            "copy_object",
            goal,
            self._transport.copy_source(source.key),
            headers,
            work_s=source.size / COPIED_BYTES_S,
        )
        answer = self._transport.call(call, copy_fault)
        if answer.status == 200:
            version = answers.made_version(answer, "CopyObjectResult")
            if version is not None:
                return version
        if ours := self._in_spite(answer, condition, writer, goal):
            return ours
        if answer.status in REFUSED:
            self._current(source)
        raise self._refused(answer, goal, replaces if condition else None)

    def assemble(
        self,
        key: Key,
        parts: Sequence[Part],
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version | None:
        """Assemble an object in an upload. Returns None if that is impossible or not worth it."""
        size = sum(map(part_size, parts))
        copied = sum(piece.size for piece in _copied(cut(parts, self._part_bytes)))
        if copied < self._part_bytes and size <= PARTS_LEAST * self._part_bytes:
            return None
        condition = self._condition(key, replaces, self._probe.completions)
        if condition is None:
            if size > PUT_BYTES_MAX:
                raise self._too_large(key)
            return None
        return self._upload(key, parts, replaces, condition, mtime_ns)

    def delete(self, key: Key, version: Version | None) -> S3Answer:
        """Delete an object. Returns the answer.

        Parameters
        ----------
        version : the only one to delete; None: any. It is compared just before, and by the server
            if it knows conditions: many ignore them in a DELETE, some refuse them there.

        Raises
        ------
        NoSuchObject, Conflict : of that version.
        """
        condition = {}
        if version is not None:
            self._current(Stat(key, 0, version))
            condition = self._probe.puts().headers(version)
        answer = self._transport.send(S3Request("DELETE", key, condition))
        if condition and answer.status == 412:
            raise self._conflict(key, version or ABSENT)
        if condition and answer.status in _UNKNOWN_CONDITION:
            answer = self._transport.send(S3Request("DELETE", key))
        return answer

    # Parts

    def _upload(
        self,
        key: Key,
        parts: Sequence[Part],
        replaces: Version | None,
        condition: Mapping[str, str],
        mtime_ns: int | None,
    ) -> Version:
        if sum(map(part_size, parts)) > OBJECT_BYTES_MAX:
            raise ObjectTooLarge(f"{self._transport.name}/{key}: an object of S3 has at most 5TiB")
        pieces = cut(parts, self._part_bytes)
        writer = secrets.token_hex(16)
        headers = {**self._encryption, **headers_of(mtime_ns), _WRITER: writer}
        upload = multipart.begin(self._transport, key, headers)
        with self._notes.kept(upload):
            etags = self._make_parts(upload, pieces)
            is_source = any(piece.stat.key == key for piece in _copied(pieces))  # just compared
            if replaces is not None and not condition and not is_source:
                self._compare(key, replaces)
            answer = upload.complete(etags, condition)
            version = answers.made_version(answer) if answer.status == 200 else None
            if version is None and (answer.status == 200 or answer.repeated):
                version = self._written_by(writer, key)
            if version is None and answer.status != 200:
                raise self._refused(answer, key, replaces if condition else None)
        # It was replaced at once: return a version that no object has any more.
        return version or Version(f'"{writer}"')

    def _make_parts(self, upload: Upload, pieces: Sequence[UploadPart]) -> list[str]:
        sources = {(piece.stat.key, piece.stat.version): piece.stat for piece in _copied(pieces)}
        check = self._probe.sources() if sources else SourceCheck()

        def send(piece: SentPart, upload: Upload, number: int) -> str:
            data = [found for part in piece.parts for found in part_bytes(part, self._read)]
            return upload.send_part(number, data[0] if len(data) == 1 else b"".join(data))

        def copy(piece: ByteRange, upload: Upload, number: int) -> str:
            source = {
                **self._transport.copy_source(piece.stat.key),
                "CopySourceRange": f"bytes={piece.start}-{piece.stop - 1}",
            }
            headers = check.headers(piece.stat.version)
            return upload.copy_part(number, source, headers, piece.size / COPIED_BYTES_S)

        makes = [
            partial(copy, piece) if isinstance(piece, ByteRange) else partial(send, piece)
            for piece in pieces
        ]
        try:
            etags = upload.make_parts(makes)
        except StoreError as error:
            if not error.transient:
                self._check_sources(sources.values())
            raise
        # Not all servers check the condition, so the copy is checked before it is shown.
        self._check_sources(sources.values())
        return etags

    def _check_sources(self, sources: Iterable[Stat]) -> None:
        for source in sources:
            self._current(source)

    # Conditions

    def _condition(
        self, key: Key, replaces: Version | None, tried: Callable[[], Conditions]
    ) -> Mapping[str, str] | None:
        """Return the header for a request other than a PUT; None: only a PUT keeps the condition.

        If the server keeps none at all, the object is compared now, and there is no header.
        """
        if replaces is None:
            return {}
        if self._probe.puts().hold:
            known = tried()
            return known.headers(replaces) if known.hold else None
        self._compare(key, replaces)
        return {}

    def _compare(self, key: Key, replaces: Version) -> None:
        """Raise unless the object has the given version, or is missing if that is `ABSENT`."""
        try:
            current = answers.stat_of(key, self._head(key)).version
        except NoSuchObject:
            current = ABSENT
        if replaces != current:
            raise self._conflict(key, replaces)

    def _current(self, source: Stat) -> S3Answer:
        """Return the answer to a HEAD of the source; raises if its version has changed."""
        answer = self._head(source.key)
        if answers.stat_of(source.key, answer).version != source.version:
            raise Conflict(f"{self._transport.name}/{source.key}: replaced since it was opened")
        return answer

    def _replaced(self, source: Stat) -> dict[str, str]:
        """Return the headers that give a copy the present metadata of its source."""
        carried = _metadata(self._current(source).headers)
        return {**carried, "x-amz-metadata-directive": "REPLACE"}

    def _in_spite(
        self, answer: S3Answer, condition: Mapping[str, str], writer: str, key: Key
    ) -> Version | None:
        """Return the version of an attempt whose answer was lost, so that the next was refused."""
        if condition and answer.repeated and answer.status in REFUSED:
            return self._written_by(writer, key)
        return None

    def _written_by(self, writer: str, key: Key) -> Version | None:
        """Return the version of the object if this write made it."""
        try:
            answer = self._head(key)
        except NoSuchObject:
            return None
        ours = answer.headers.get(_WRITER) == writer
        return answers.stat_of(key, answer).version if ours else None

    # Errors

    def _refused(self, answer: S3Answer, key: Key, replaces: Version | None) -> StoreError:
        """Return the error for a refused write; `replaces` is given if the server checked it."""
        if replaces is None or answer.status not in REFUSED or answer.code == "NoSuchBucket":
            where = self._transport.where(key)
            return answers.failure(answer, where, anonymous=self._transport.anonymous)
        return self._conflict(key, replaces)

    def _conflict(self, key: Key, replaces: Version) -> StoreError:
        where = self._transport.where(key)
        if replaces == ABSENT:
            return ObjectExists(f"{where}: exists already")
        return Conflict(f"{where}: replaced by another client")

    def _too_large(self, key: Key) -> StoreError:
        where = self._transport.where(key)
        return ObjectTooLarge(f"{where}: this server has no conditional writes over 5GiB")


def _copied(pieces: Sequence[UploadPart]) -> Iterator[ByteRange]:
    return (piece for piece in pieces if isinstance(piece, ByteRange))


def _marked(condition: Mapping[str, str], writer: str) -> dict[str, str]:
    """Return a condition together with a mark that identifies this write.

    If the answer is lost, the condition fails at the next attempt, because of this write's object.
    """
    return {**condition, _WRITER: writer} if condition else {}


def _metadata(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that give a copy the metadata of an object."""
    return {
        name: value
        for name, value in ((name.lower(), value) for name, value in headers.items())
        if name in _CARRIED or (name.startswith(_USER) and name != _WRITER)
    }
