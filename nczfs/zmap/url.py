"""URLs of stores: netcdf-c's grammar, plain paths, and detection of what they omit.

::

    path                                    a directory, a zip archive, a document of references
    file:///abs/path  file://relative       the same; two slashes are relative, as in netcdf-c
    [mode=zarr,file]file:///abs/path        the fragment in front, in brackets
    s3://BUCKET/KEY                         an S3 store; KEY may name a zip archive
    gs3://BUCKET/KEY                        Google storage through its S3 API
    http(s)://HOST/BUCKET/KEY#mode=s3       an S3 server at HOST
    https://BUCKET.s3.REGION.amazonaws.com/KEY    and the other forms of Amazon's host names
    http(s)://HOST/PATH                     a web server; PATH may name an archive or references
    memory://NAME                           a store in the memory of this process

The fragment is ``key=value&key=value``: ``mode``, ``aws.profile`` (or ``awsprofile``),
``aws.region`` (or ``awsregion``), ``log``, ``show``, or a bare word of ``mode``.

docs/urls.md has each form with what it means, and is tested against this module.

Deviations from netcdf-c: an endpoint that is given as ``http://`` stays ``http://`` (netcdf-c
makes it https); every word of ``mode`` may stand alone, also ``nczarr``; buckets may have dots.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import field, replace
from importlib.metadata import entry_points
from urllib.parse import SplitResult, unquote, urlsplit

from nczfs.errors import BadKey, BadUrl, UsageError
from nczfs.plaindata import frozen
from nczfs.zmap.keys import ROOT, Prefix, parse_prefix

ENTRY_POINTS = "nczfs.zmap"
"""The entry point group of other packages' stores: a scheme, and a callable that opens it."""

SCHEMES = ("file", "s3", "gs3", "http", "https", "memory")
GOOGLE = "storage.googleapis.com"
REFERENCE_DIRECTORIES = (".parq", ".parquet")
ARCHIVE_SUFFIXES = (".zip", ".ozx")
NETCDF_MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF\r\n\x1a\n")
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")  # a member, an empty archive, a part

_STORES = frozenset({"file", "zip", "s3", "gs3", "reference", "kerchunk"})
_FORMATS = frozenset({"nczarr", "zarr", "xarray", "noxarray", "consolidated"})
_FOREIGN = frozenset(
    {"bytes", "dap2", "dap4", "dods", "zoh", "netcdf-3", "classic", "netcdf-4", "enhanced"}
)
_FOREIGN_SCHEMES = {
    "zoh": "netcdf-c's own protocol of Zarr over HTTP; files on a web server are http(s)://",
    "dods": "OPeNDAP, which nczfs does not speak",
    "dap4": "OPeNDAP, which nczfs does not speak",
}
_WORDS = ", ".join(sorted(_FORMATS | _STORES))
_KEYS = {
    "mode": "mode",
    "aws.profile": "profile",
    "awsprofile": "profile",  # netcdf-c documents these, but no release reads them
    "aws.region": "region",
    "awsregion": "region",
    "log": "log",
    "show": "show",
}
# What a word implies in netcdf-c 4.9.1 and later. A macro (a bare word) implies more.
_IMPLIED = {
    "zarr": ("nczarr",),
    "xarray": ("zarr",),
    "noxarray": ("zarr",),
    "gs3": ("s3",),
    "kerchunk": ("reference",),
}
_MACROS = {"s3": ("nczarr",), "gs3": ("nczarr",)}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ONE_SLASH = re.compile(rf"({'|'.join(SCHEMES)}):/(?!/)", re.IGNORECASE)
_BRACKETS = re.compile(r"((?:\[[^\]]*\])+)(?=[A-Za-z][A-Za-z0-9+.-]*://)")
# BUCKET.s3.REGION, s3.REGION, also the older s3-REGION and s3.dualstack.REGION.
_AMAZON = re.compile(
    r"(?:(?P<bucket>.+)\.)?(?P<service>s3(?:\.dualstack)?)(?:[.-](?P<region>[a-z]+-[a-z0-9-]+))?"
    r"\.(?P<domain>amazonaws\.com(?:\.cn)?)"
)
_VIRTUAL_HOST = re.compile(r"(?P<bucket>[^.]+)\.(?P<host>s3\.(?P<region>[^.]+)\.[^.]+\..+)")


@frozen
class StoreUrl:
    """The parsed URL of a store; made by `parse_url`.

    Attributes
    ----------
    kind : "file" (a directory), "zip", "reference", "s3", "http", "memory", or the scheme of a
        store from an installed package. A "zip" with a bucket is an archive in an S3 store,
        one with neither path nor bucket is on a web server; a "reference" likewise.
    text : the URL for messages, without user names, passwords, query and fragment.
    path : the local path, absolute; "" for everything else.
    bucket : of S3; the name of a store in memory.
    prefix : the key below the bucket, without slashes at its ends; "" is the whole bucket.
    endpoint_url : of the S3 server; None if the URL does not name it.
    region, profile : from the fragment or the host name; None if the URL does not say.
    anonymous : whether requests are unsigned (the profile ``no``).
    modes : the words of ``mode`` with everything that they imply.
    source : the URL as typed without its fragment, for stores that need all of it. It may contain
        secrets and is not part of the repr.
    """

    kind: str
    text: str
    path: str = ""
    bucket: str = ""
    prefix: Prefix = ROOT
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    anonymous: bool = False
    modes: frozenset[str] = frozenset()
    source: str = field(default="", repr=False)

    @property
    def last_word(self) -> str:
        """The last component of the path, or the bucket: the name of a dataset at the root."""
        for words in (self.path, self.prefix, self.bucket, self.text.partition("://")[2]):
            if word := words.rstrip("/").rpartition("/")[2]:
                return word
        return self.kind


@frozen
class _Fragment:
    modes: frozenset[str] = frozenset()
    region: str | None = None
    profile: str | None = None
    anonymous: bool = False


def parse_url(text: str) -> StoreUrl:
    """Parse a URL or a path, and detect what it omits.

    A local path is examined (directory, archive, name); there are no requests to stores.

    Raises
    ------
    BadUrl : it names no store that nczfs knows. The message lists the known forms, and never shows
        user names, passwords or queries.
    """
    if "\0" in text:
        raise BadUrl("a text with NUL names no store: give a path or a URL")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadUrl("a text with a lone surrogate names no store") from error
    brackets = _BRACKETS.match(text)
    front = brackets.group(1)[1:-1].replace("][", "&") if brackets else ""
    rest = text[brackets.end() :] if brackets else text
    scheme = _SCHEME.match(rest)
    if scheme is None:
        return _parse_path(rest)
    source, _, behind = rest.partition("#")
    fragment = _parse_fragment("&".join(filter(None, (front, behind))))
    match scheme.group(1).lower():
        case "file":
            return _local(_file_path(source[scheme.end() :]), fragment)
        case "s3" | "gs3" | "http" | "https" as word:
            return _remote(word, source, fragment)
        case "memory":
            return _in_memory(source[scheme.end() :], fragment)
        case other:
            return _third_party(other, source, fragment)


# Parts of URLs that stand alone


def check_endpoint(text: str) -> None:
    """Check that a text is the URL of an S3 server.

    Raises
    ------
    UsageError : it is not. The message quotes no secret from it.
    """
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError("the endpoint has a malformed host or port") from None
    if "@" in text or parts.query or parts.fragment:
        raise UsageError(
            "an endpoint has no user name, password or query; give credentials by --profile or "
            "the variables of AWS"
        )
    if not is_one:
        raise UsageError(f"{text[:200]!r}: an endpoint is http(s)://HOST[:PORT]")


# Local paths


def check_path(text: str) -> None:
    """Raise BadUrl for a text without ``://`` that is not a path either.

    The message does not quote it: a URL with a missing slash may contain a password.
    """
    if not text:
        raise BadUrl("an empty text names no store: give a path or a URL, . for the directory here")
    found = _ONE_SLASH.match(text)
    if found is not None and not os.path.lexists(text):
        raise BadUrl(f"{found[1]}:/ has one slash; a URL begins with {found[1]}://, a path with ./")


def _parse_path(text: str) -> StoreUrl:
    """Parse a plain path; after a "#" comes a fragment, unless a file has that name."""
    path, mark, behind = text.rpartition("#")
    if not mark or os.path.lexists(text):
        check_path(text)
        return _local(text, _Fragment())
    check_path(path)
    return _local(path, _parse_fragment(behind))


def _file_path(text: str) -> str:
    """Return the path of a file URL; netcdf-c takes ``%41`` literally, other programs as ``A``."""
    return text if os.path.lexists(text) else unquote(text, errors="surrogateescape")


def _local(text: str, fragment: _Fragment) -> StoreUrl:
    if not text:
        raise BadUrl("the URL names no path: file:///absolute/path or file://relative/path")
    path = os.path.abspath(text)
    if "s3" in fragment.modes:
        raise BadUrl(
            f"{path}: mode=s3 does not fit a local path; known there: file, zip, reference"
        )
    return StoreUrl(_local_kind(path, fragment.modes), path, path=path, modes=fragment.modes)


def _local_kind(path: str, modes: frozenset[str]) -> str:
    for word in ("zip", "reference", "file"):
        if word in modes:
            return word
    lower = path.lower()
    if os.path.isdir(path):
        return "reference" if lower.endswith(REFERENCE_DIRECTORIES) else "file"
    start = _first_bytes(path)
    if lower.endswith(ARCHIVE_SUFFIXES) or start[:4] in ZIP_MAGIC:
        return "zip"
    if start.lstrip().startswith(b"{"):
        return "reference"
    if start.startswith(NETCDF_MAGIC):
        raise BadUrl(f"{path} is a netCDF file, not a store; `nczfs import` makes a dataset of it")
    if os.path.isfile(path):
        raise BadUrl(f"{path} is neither a directory nor a zip archive nor a reference document")
    return "file"


def _first_bytes(path: str) -> bytes:
    """Return the first bytes of a file; none of anything else, or if it cannot be read."""
    if not os.path.isfile(path):  # opening a fifo would wait for a writer
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(64)
    except OSError:
        return b""


def _remote_kind(url: StoreUrl, path: str, plain: str) -> str:
    """Return the kind of a path on a server, by its mode or its name."""
    for word in ("zip", "reference"):
        if word in url.modes:
            if not path.strip("/"):
                raise BadUrl(f"{url.text}: mode={word} needs the key of an archive or document")
            return word
    lower = path.lower()
    if lower.endswith(ARCHIVE_SUFFIXES):
        return "zip"
    if lower.endswith(".json") or lower.rstrip("/").endswith(REFERENCE_DIRECTORIES):
        return "reference"
    return plain


# Stores behind a host name


def _remote(scheme: str, source: str, fragment: _Fragment) -> StoreUrl:
    parts = _split(source)
    modes = fragment.modes | ({scheme, "s3"} if scheme in {"s3", "gs3"} else frozenset())
    if "file" in modes:
        raise BadUrl(
            f"{_shown(parts)}: mode=file does not fit {scheme}://; known there: s3, zip, reference"
        )
    host = (parts.hostname or "").rstrip(".")
    amazon = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    if not (amazon or host == GOOGLE or "s3" in modes):
        return _on_the_web(parts, modes, source)
    if "@" in parts.netloc or parts.query:
        raise BadUrl(
            f"{_shown(parts)}: user names, passwords and queries have no place in the URL of an "
            "S3 store; use a profile (#aws.profile=NAME) or the variables of AWS"
        )
    url = StoreUrl(
        "s3",
        _shown(parts),
        region=fragment.region,
        profile=fragment.profile,
        anonymous=fragment.anonymous,
        modes=modes | {"s3"},
        source=source,
    )
    if amazon:
        return _at_amazon(url, parts, host)
    if scheme in {"s3", "gs3"}:
        endpoint = f"https://{GOOGLE}" if "gs3" in modes else None
        return _at_bucket(url, parts, endpoint)
    return _at_endpoint(url, parts, host)


def _on_the_web(parts: SplitResult, modes: frozenset[str], source: str) -> StoreUrl:
    url = StoreUrl("http", _shown(parts), modes=modes, source=source)
    if not parts.hostname:
        raise BadUrl(f"{url.text}: no host; write {parts.scheme}://HOST/PATH")
    return replace(url, kind=_remote_kind(url, parts.path, "http"))


def _at_amazon(url: StoreUrl, parts: SplitResult, host: str) -> StoreUrl:
    match = _AMAZON.fullmatch(host)
    if match is None:
        raise BadUrl(
            f"{url.text}: not a host of S3; known: s3.amazonaws.com, s3.REGION.amazonaws.com, "
            "BUCKET.s3.amazonaws.com, BUCKET.s3.REGION.amazonaws.com"
        )
    region = match["region"]
    endpoint = ".".join(filter(None, (match["service"], region, match["domain"])))
    key = unquote(parts.path)
    if match["bucket"] is None:
        bucket, key = _first_segment(url, key)
    else:
        bucket = match["bucket"]
    return _placed(
        replace(
            url, bucket=bucket, endpoint_url=f"https://{endpoint}", region=region or url.region
        ),
        key,
    )


def _at_bucket(url: StoreUrl, parts: SplitResult, endpoint: str | None) -> StoreUrl:
    if not parts.netloc:
        raise BadUrl(f"{url.text}: no bucket; write {parts.scheme}://BUCKET/KEY")
    if ":" in parts.netloc:
        raise BadUrl(
            f"{url.text}: a bucket has no port; an S3 server is named as "
            f"http://{parts.netloc}/BUCKET/KEY#mode=s3 or https://…, or by --endpoint-url"
        )
    # As in the AWS command line, a key after s3:// is not percent-encoded.
    return _placed(replace(url, bucket=parts.netloc, endpoint_url=endpoint), parts.path)


def _at_endpoint(url: StoreUrl, parts: SplitResult, host: str) -> StoreUrl:
    if match := _VIRTUAL_HOST.fullmatch(host):
        port = f":{parts.port}" if parts.port else ""
        endpoint = f"{parts.scheme}://{match['host']}{port}"
        return _placed(
            replace(url, bucket=match["bucket"], endpoint_url=endpoint, region=match["region"]),
            unquote(parts.path),
        )
    bucket, key = _first_segment(url, unquote(parts.path))
    endpoint = f"{parts.scheme}://{_host(parts)}"
    return _placed(replace(url, bucket=bucket, endpoint_url=endpoint), key)


def _first_segment(url: StoreUrl, path: str) -> tuple[str, str]:
    bucket, _, key = path.removeprefix("/").partition("/")
    if not bucket:
        raise BadUrl(f"{url.text}: no bucket; the path is /BUCKET/KEY")
    return bucket, key


def _placed(url: StoreUrl, key: str) -> StoreUrl:
    """Return the URL with its key, whose kind follows from the mode or the name."""
    return replace(url, kind=_remote_kind(url, key, "s3"), prefix=_prefix(url, key))


def _prefix(url: StoreUrl, key: str) -> Prefix:
    try:
        return parse_prefix(key.removeprefix("/").rstrip("/"))
    except BadKey as error:
        raise BadUrl(f"{url.text}: {error}") from error


def _in_memory(text: str, fragment: _Fragment) -> StoreUrl:
    name, _, key = text.partition("/")
    url = StoreUrl("memory", f"memory://{text}".rstrip("/"), bucket=name, modes=fragment.modes)
    if stores := fragment.modes & _STORES:
        raise BadUrl(f"{url.text}: mode={min(stores)} does not fit a store in memory")
    return replace(url, prefix=_prefix(url, key))


def _third_party(scheme: str, source: str, fragment: _Fragment) -> StoreUrl:
    installed = sorted(found.name for found in entry_points(group=ENTRY_POINTS))
    if scheme not in installed and scheme in _FOREIGN_SCHEMES:
        raise BadUrl(f"{scheme}:// is {_FOREIGN_SCHEMES[scheme]}")
    if scheme not in installed:
        known = ", ".join(f"{word}://" for word in (*SCHEMES, *installed))
        raise BadUrl(f"{scheme}:// is not a scheme that nczfs knows; known: a plain path, {known}")
    parts = _split(source)
    return StoreUrl(
        scheme,
        _shown(parts),
        region=fragment.region,
        profile=fragment.profile,
        anonymous=fragment.anonymous,
        modes=fragment.modes,
        source=source,
    )


def _split(source: str) -> SplitResult:
    """Split a URL without its fragment, without quoting the URL in errors."""
    try:
        parts = urlsplit(source)
        _ = parts.port, parts.hostname
    except ValueError:
        raise BadUrl("the URL has a malformed host or port") from None
    return parts


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://" + f"{_host(parts)}{parts.path}".rstrip("/")


# Fragments


def _parse_fragment(text: str) -> _Fragment:
    words: list[str] = []
    values: dict[str, str] = {}
    for item in filter(None, text.split("&")):
        name, equals, value = item.partition("=")
        key = name.strip().lower()
        if not equals:
            words += (key, *_MACROS.get(key, ()))
        elif key not in _KEYS:
            raise BadUrl(
                f"{_quoted(key, text)} is not a key of a fragment; known: {', '.join(_KEYS)}, "
                f"or a bare word of {_WORDS}"
            )
        elif _KEYS[key] == "mode":
            words += (word.strip().lower() for word in value.split(",") if word.strip())
        else:
            values[_KEYS[key]] = unquote(value)
    profile = values.get("profile") or None
    return _Fragment(
        modes=_closure((word for word in words if word not in _KEYS), text),
        region=values.get("region") or None,
        profile=None if profile == "no" else profile,
        anonymous=profile == "no",  # netcdf-c's name for no profile at all
    )


def _quoted(word: str, fragment: str) -> str:
    """Return a word for a message, unless the fragment may be the end of a password with a "#"."""
    if "@" in fragment:
        return "the text after # (in a user name or password, write %23 for it)"
    return repr(word[:40])


def _closure(words: Iterator[str], fragment: str) -> frozenset[str]:
    modes: set[str] = set()
    waiting = list(words)
    while waiting:
        word = waiting.pop()
        if word in _FOREIGN or re.fullmatch(r"udf\d", word):
            raise BadUrl(f"mode={word} asks for a format that nczfs does not read; known: {_WORDS}")
        if word not in _FORMATS | _STORES:
            raise BadUrl(f"{_quoted(word, fragment)} is not a mode; known: {_WORDS}")
        if word not in modes:
            modes.add(word)
            waiting += _IMPLIED.get(word, ())
    if len(both := sorted(modes & {"file", "zip", "reference"})) > 1:
        raise BadUrl(f"mode={both[0]} and mode={both[1]} contradict each other: name one of them")
    return frozenset(modes - {"xarray"} if "noxarray" in modes else modes)
