"""A parser of pages of ListObjectsV2.

XML parsers take 4 to 6 ms for a thousand objects, half of what a near server takes to list them.
But servers write the needed fields of an object first, in one order. So a regular expression cuts
these out of a page, and only the rest is parsed: what surrounds the objects, and their other
fields, once for all equal ones. Any other page is parsed as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus

from nczfs.errors import StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.s3.documents import check_document, read_document
from nczfs.zmap.web.headers import SIZE_END, number, version_of

_START = re.compile(
    rb"""(?:<\?xml version=['"]1\.0['"] encoding=['"](?i:utf-8)['"]\?>\s*)?<ListBucketResult[ >]"""
)
_OBJECT = re.compile(
    "<Contents><Key>([^<]+)</Key><LastModified>([^<]+)</LastModified><ETag>([^<]*)</ETag>"
    r"(?:<Checksum\w+>[^<&]*</Checksum\w+>)*<Size>([^<]+)</Size>"
)
_END = "</Contents>"
_ETAGS = re.compile(r'(?>(?:"[!#-~]*"\n)+)')
_SURE_DIGITS = 18  # digits of a number below 2^63
_NAMES = ("Key", "LastModified", "ETag", "Size")
_ROOT = "ListBucketResult"
_ENDS_MAX = 32  # different rests of objects in a page
# Most names have this form, and are keys: the full check takes three times as long.
_USUAL = re.compile(r"(?>(?:(?>(?:(?!\.nczfs-)\.?[\w-][\w.-]*(?:/(?!\n)|(?=\n)))+)\n)*)", re.ASCII)
_USUAL_LENGTH_MAX = 1000


@frozen
class ListingPage:
    """A page of a listing.

    Attributes
    ----------
    objects : their names are as the server gives them, and may not be keys.
    next_token : "" on the last page.
    keys_are_usual : whether all names are keys.
    left_out : how many objects are missing, because the server describes them impossibly.
    """

    objects: Sequence[Stat]
    prefixes: Sequence[str]
    next_token: str
    keys_are_usual: bool = False
    left_out: int = 0


def parse_page(body: bytes, where: str) -> ListingPage:
    """Parse a listing.

    Raises
    ------
    StoreError : it is not a listing of S3.
    """
    try:
        columns, rest = _cut_out(body)
        parts = _Parts(rest)
        if parts.root != _ROOT:
            raise ValueError(f"a document of type {parts.root[:60]}")
        if columns is None or not parts.objects:
            columns = _Parts(body).columns()
        is_quoted = parts.texts.get("EncodingType") == "url"
        keys = _unquoted(columns.keys) if is_quoted else columns.keys
        objects = _objects(columns._replace(keys=keys))
        if columns.keys and not objects:
            raise ValueError("no object with a name, a size and a time")
        prefixes = _unquoted(parts.prefixes) if is_quoted else parts.prefixes
    except (TypeError, ValueError) as error:
        raise StoreError(f"{where}: the answer is not a listing of S3 ({error})") from error
    truncated = parts.texts.get("IsTruncated") == "true"
    token = parts.texts.get("NextContinuationToken", "") if truncated else ""
    if truncated and not token:
        raise StoreError(f"{where}: the listing ends early and cannot be continued")
    left_out = len(columns.keys) - len(objects)
    return ListingPage(objects, prefixes, token, _are_usual(keys), left_out)


class _Columns(NamedTuple):
    """The fields of all objects of a page."""

    keys: Sequence[str]
    times: Sequence[str]
    etags: Sequence[str]
    sizes: Sequence[str]


def _objects(columns: _Columns) -> Sequence[Stat]:
    """Return the objects, without those of an impossible size."""
    keys, times, etags, sizes = columns
    digits = "".join(sizes)
    if (
        digits.isascii()
        and digits.isdigit()
        and max(map(len, sizes)) <= _SURE_DIGITS
        and min(map(len, sizes)) > 0
        and _ETAGS.fullmatch("\n".join([*etags, ""]))
    ):
        moments = [_time_ns(time[:19]) for time in times]
        return list(map(Stat, map(Key, keys), map(int, sizes), map(Version, etags), moments))
    found = map(_object, keys, times, etags, sizes)
    return [stat for stat in found if stat is not None]


def _object(key: str, time: str, etag: str, size: str) -> Stat | None:
    bytes_ = number(size.strip())
    if bytes_ is None:
        return None
    mtime_ns = _time_ns(time[:19])
    return Stat(Key(key), bytes_, version_of(etag, mtime_ns, bytes_), mtime_ns)


class _Parts:
    """What a page says, from the XML parser.

    Attributes
    ----------
    root : the name of its root.
    objects : the fields of each object.
    texts : the first text of each other element right below the root.
    """

    def __init__(self, document: bytes) -> None:
        self.root = ""
        self.objects: list[dict[str, str]] = []
        self.prefixes: list[str] = []
        self.texts: dict[str, str] = {}
        self._object: dict[str, str] = {}
        read_document(document, self._take)

    def columns(self) -> _Columns:
        """Return the fields of all objects; "" where one is missing."""
        return _Columns(*([found.get(name, "") for found in self.objects] for name in _NAMES))

    def _take(self, path: tuple[str, ...], text: str) -> None:
        match path[1:]:
            case ("Contents", name) if name in _NAMES:
                self._object.setdefault(name, text)
            case ("Contents",):
                self.objects.append(self._object)
                self._object = {}
            case ("CommonPrefixes", "Prefix"):
                self.prefixes.append(text)
            case (name,):
                self.texts.setdefault(name, text)
            case ():
                (self.root,) = path


def _cut_out(body: bytes) -> tuple[_Columns | None, bytes]:
    """Cut out objects in the usual form. Returns them and the page with one empty object."""
    if _START.match(body) is None:
        return None, body
    head, *parts = _OBJECT.split(body.decode())
    if not parts:
        return None, body
    keys, times, etags, sizes, ends = (parts[column::5] for column in range(5))
    last, _, tail = ends.pop().partition(_END)
    if "<Contents" in head + tail or not _are_ends({*ends, last + _END}):
        return None, body
    etags = [etag.replace("&quot;", '"') for etag in etags]
    if any("&" in "".join(column) for column in (keys, etags)):
        return None, body
    return _Columns(keys, times, etags, sizes), f"{head}<Contents/>{tail}".encode()


def _are_ends(texts: Collection[str]) -> bool:
    """Return whether each text is the rest of one object."""
    if len(texts) > _ENDS_MAX:
        return False
    for text in texts:
        try:
            check_document(f"<Contents>{text}".encode())
        except ValueError:
            return False
    return True


def _unquoted(texts: Sequence[str]) -> Sequence[str]:
    """Decode keys of a listing with ``encoding-type=url``, which writes a blank as "+"."""
    # Most keys only have quoted slashes: replacing all at once takes a tenth of the time.
    plain = "\n".join(texts).replace("%2F", "/")
    if "%" not in plain and "+" not in plain and texts:
        unquoted = plain.split("\n")
        if len(unquoted) == len(texts):
            return unquoted
    return [unquote_plus(text, errors="surrogateescape") for text in texts]


def _are_usual(keys: Sequence[str]) -> bool:
    if max(map(len, keys), default=0) > _USUAL_LENGTH_MAX:
        return False
    # All at once, which takes half the time. A key of several usual lines is a key.
    return _USUAL.fullmatch("\n".join([*keys, ""])) is not None


@lru_cache(maxsize=1024)  # objects are written in bursts
def _time_ns(text: str) -> int | None:
    """Parse an ISO time in UTC without fractions: the second that a HEAD of the object gives."""
    try:
        found = int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1_000_000_000
    except ValueError:
        return None
    return found if 0 <= found < SIZE_END else None
