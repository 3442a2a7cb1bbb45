"""The registry of stores by kind of URL, and the options that all of them share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from os.path import basename, dirname
from typing import Literal, TypeAlias, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from nczfs.errors import AccessDenied, UsageError
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.documents import NONE, KnownDocuments
from nczfs.zmap.inblocks import InBlocks
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import ENTRY_POINTS, StoreUrl, parse_url
from nczfs.zmap.wrappers import Metered, Prefixed, ReadOnly
from nczfs.zmap.zip import ZipZMap
from nczfs.zmap.zip.creating import ArchiveForm, create_archive
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.indexcache import IndexCache, default_directory
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
from nczfs.zmap.zip.ozx import SUFFIX as OZX_SUFFIX
from nczfs.zmap.zip.store import KeptArchives


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of reaching a store; the URL itself takes precedence.

    Attributes
    ----------
    endpoint_url : of an S3 server; None: from the environment, otherwise Amazon's.
    region, profile : None: as botocore finds them (environment, files, instance).
    no_sign_request : do not sign, for public buckets.
    force_path_style : ``HOST/BUCKET`` (True) or ``BUCKET.HOST`` (False); None: the former at
        endpoints that are not Amazon's.
    requester_pays : agree in each request to pay for it.
    expected_bucket_owner : refuse a bucket of another account; None: of any account.
    ca_bundle : a file of certificate authorities; None: from the environment, otherwise botocore's.
    sse, sse_kms_key_id : how the server is to encrypt what is written, and with which key of KMS;
        None: as the bucket is configured.
    part_bytes : of an upload in parts, for objects larger than four parts; parts are larger if
        there would be over 10,000. At least 5 MiB.
    check_etag : compare objects that are read whole with their ETag, which is usually their MD5;
        "auto": those of up to 256 KiB.
    request_timeout_s : a request ends within this time, which stands still while at least 8 KiB a
        second of an object move.
    attempt_timeout_s : an attempt that gets no byte for this long is given up and repeated.
    connections : the most requests at once, and the most open connections; at most a quarter of the
        descriptors that the process may have.
    forbidden_is_absent : whether 403 for a key means that there is no object, as S3 answers to
        clients that may not list; "auto": while objects that were read before can be read, and a
        key that cannot exist is forbidden.
    read_only : refuse to write.
    durable : a write to a directory returns when the object would survive a power failure.
    zip_commit : how writes get into a zip archive: "append", or "copy", which shows other programs
        the old or the new archive at any moment, and costs a copy of it.
    zip_form : of a new archive: "top", everything in one directory as in netcdf-c, or "root", as in
        zarr-python.
    zip_write_once : refuse to replace or delete what is in an archive, as netcdf-c does.
    zip_index_dir : for the indexes of large archives; None: below ``~/.cache``, "": they are not
        stored.
    allow_references : prefixes of URLs and paths that documents of references may name, besides
        the directory, bucket or host that they are in.
    allow_redirects : prefixes of URLs that a web server may redirect to, besides itself.
    redirects_within_origin : whether a web server may redirect to itself.
    memory_bytes : the limit of a document of references with all that it expands to.
    documents : what stores know of the documents of formats, see `engine.stores`.
    """

    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    no_sign_request: bool = False
    force_path_style: bool | None = None
    requester_pays: bool = False
    expected_bucket_owner: str | None = None
    ca_bundle: str | None = None
    sse: str | None = None
    sse_kms_key_id: str | None = None
    part_bytes: int = 16 << 20
    check_etag: Literal["auto", "yes", "no"] = "auto"
    request_timeout_s: float = 15.0
    attempt_timeout_s: float = 4.0
    connections: int = 288
    forbidden_is_absent: Literal["auto", "yes", "no"] = "auto"
    read_only: bool = False
    durable: bool = False
    zip_commit: Literal["append", "copy"] = "append"
    zip_form: ArchiveForm = "top"
    zip_write_once: bool = False
    zip_index_dir: str | None = None
    allow_references: tuple[str, ...] = ()
    allow_redirects: tuple[str, ...] = ()
    redirects_within_origin: bool = True
    memory_bytes: int = 512 << 20
    documents: KnownDocuments = NONE

    def __post_init__(self) -> None:
        """Refuse a text for several: its characters would count, and "/" allows all paths.

        Raises UsageError.
        """
        for name in ("allow_references", "allow_redirects"):
            prefixes = getattr(self, name)
            if isinstance(prefixes, str):
                raise UsageError(f"{name}: {prefixes!r} is a text, not a sequence of prefixes")


Opener: TypeAlias = Callable[[StoreUrl, StoreOptions], ZMap]
"""Opens the map rooted at a URL; entry points of the group ``nczfs.zmap`` name such functions."""

DEFAULTS = StoreOptions()

_memory_lock = threading.Lock()  # guards _memory, the stores of memory:// by name
_memory: dict[str, MemoryZMap] = {}


def open_store(url: StoreUrl | str, options: StoreOptions = DEFAULTS) -> ZMap:
    """Open the store that a URL names: the map rooted at the URL.

    This makes no request to a remote store yet.

    Parameters
    ----------
    url : as `parse_url` takes it, or made by it.
    options : for what the URL omits.

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
    """Open a store as `open_store` does, and make a missing directory or archive."""
    if url.kind == "zip" and url.path:
        is_ozx = url.path.lower().endswith(OZX_SUFFIX)
        create_archive(url.path, "root" if is_ozx else options.zip_form)
    if url.kind == "file" and not os.path.exists(url.path):
        try:
            os.makedirs(url.path)
        except OSError as error:
            raise AccessDenied(f"{url.path}: cannot be created: {error.strerror}") from error
    return open_store(url, options)


def missing_paths(url: StoreUrl) -> list[str]:
    """Return the local paths that `create_store` would make for a URL, the outermost first."""
    if url.kind not in ("file", "zip") or not url.path:
        return []
    paths, path = [url.path], os.path.dirname(url.path)
    while url.kind == "file" and path and not os.path.lexists(path):
        paths.append(path)
        path = os.path.dirname(path)
    return [path for path in reversed(paths) if not os.path.lexists(path)]


def remove_made(paths: list[str]) -> None:
    """Remove directories and archives that were made for nothing; a directory in use stays."""
    for path in reversed(paths):
        with suppress(OSError):
            if os.path.isdir(path):
                os.rmdir(path)
            else:
                os.unlink(path)


def remove_emptied(directory: str) -> None:
    """Remove a directory and those below it that hold no files; killed writers leave such ones."""
    for path, _, _ in os.walk(directory, topdown=False):
        with suppress(OSError):
            os.rmdir(path)


def open_directory(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Open a directory."""
    return DirectoryZMap(url.path, read_only=options.read_only, durable=options.durable)


def open_archive(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Open a zip archive: a file, or an object of a store, which may be an archive, too."""
    cache = _index_cache(options)
    if url.path and not _file_above(url.path):
        how = LocalZipOptions(Commit(options.zip_commit), options.zip_write_once, cache)
        return LocalZipZMap(url.path, how, read_only=options.read_only)
    outer, name = around(url)
    source = open_store(outer, options)
    try:
        return archive_in(source, name, owns_source=True, index_cache=cache)
    except BaseException:
        source.close()
        raise


def archive_in(
    source: ZMap,
    key: Key,
    *,
    owns_source: bool = False,
    index_cache: IndexCache | None = None,
    kept: KeptArchives | None = None,
) -> ZMap:
    """Open a zip archive that is an object of a store, in larger pieces if the store is far."""
    near = source if source.features.near else InBlocks(source, owns_source=owns_source)
    owns_near = owns_source or near is not source
    return ZipZMap(near, key, owns_source=owns_near, index_cache=index_cache, kept=kept)


def _index_cache(options: StoreOptions) -> IndexCache | None:
    place = default_directory() if options.zip_index_dir is None else options.zip_index_dir
    return IndexCache(place) if place else None


def around(url: StoreUrl) -> tuple[StoreUrl, Key]:
    """Open the store around the object that a URL names, usually a directory, and its key there.

    Raises
    ------
    BadUrl : it names the root of a store.
    """
    if url.path:
        archive = _file_above(url.path)
        above = archive or dirname(url.path)
        kind = "zip" if archive else "file"
        name = url.path[len(above) :].lstrip("/")
        return replace(url, kind=kind, path=above, text=above), parse_key(name)
    above, name = dirname(url.text), basename(url.text)
    if url.bucket:
        prefix = Prefix(dirname(url.prefix))
        outer = replace(url, kind=plain_kind(url), prefix=prefix, text=above)
        return outer, parse_key(basename(url.prefix))
    parts = urlsplit(url.source)
    source = urlunsplit(parts._replace(path=dirname(parts.path.rstrip("/"))))
    name = unquote(basename(parts.path.rstrip("/")), errors="surrogateescape")
    return replace(url, kind=plain_kind(url), source=source, text=above), parse_key(name)


def _file_above(path: str) -> str:
    """Return the file that a path continues below, as if it were a directory; "": none."""
    above = dirname(path)
    while not os.path.lexists(above):
        above = dirname(above)
    return above if os.path.isfile(above) else ""


def plain_kind(url: StoreUrl) -> str:
    """Return the kind of the store around an archive or a document of references."""
    if url.path:
        return "file"
    return "s3" if url.bucket else "http"


def open_memory(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Return the store of that name in the memory of this process, the same one at each call."""
    with _memory_lock:
        zmap = _memory.setdefault(url.bucket, MemoryZMap(f"memory://{url.bucket}"))
    return rooted(zmap, url.prefix)


def rooted(zmap: ZMap, prefix: Prefix) -> ZMap:
    """Return the map below a prefix, or the map itself if the prefix is empty."""
    return Prefixed(zmap, prefix) if prefix else zmap


def _open_http(url: StoreUrl, options: StoreOptions) -> ZMap:
    return cast(Opener, import_module("nczfs.zmap.http").open_http)(url, options)


def _open_reference(url: StoreUrl, options: StoreOptions) -> ZMap:
    return cast(Opener, import_module("nczfs.zmap.reference").open_reference)(url, options)


def _open_s3(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Open S3. Amazon's libraries take a third of a second to import, so only on demand."""
    return cast(Opener, import_module("nczfs.zmap.s3").open_s3)(url, options)


_OPENERS: Mapping[str, Opener] = {
    "file": open_directory,
    "zip": open_archive,
    "memory": open_memory,
    "s3": _open_s3,
    "http": _open_http,
    "reference": _open_reference,
}


def _opener(kind: str) -> Opener:
    if kind in _OPENERS:
        return _OPENERS[kind]
    for found in entry_points(group=ENTRY_POINTS, name=kind):
        return cast(Opener, found.load())
    raise UsageError(f"no store opens {kind}:// URLs")
