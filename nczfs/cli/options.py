"""The table of options, for the command line, ``-o``, the environment and configuration files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum

from nczfs.cli import values
from nczfs.cli.codecs import codecs, lengths
from nczfs.plaindata import frozen


class Scope(Enum):
    """The subject of an option. A command takes the options of some scopes."""

    STORE = "the store"
    MOUNT = "the mount"
    SPOOL = "the spool"
    SHOWN = "what is shown"
    READING = "reading"
    MEMORY = "memory"
    SERVICE = "the service"
    LOG = "the log"


@frozen
class Option:
    """A setting that users can change.

    Attributes
    ----------
    name : as after ``--``; ``-o`` and files may write it with underscores.
    parse : from text to value; an option with `values.flag` needs no value.
    default : the value of an option that is not set.
    metavar : what stands for the value in the help.
    short : the letter after a single dash.
    is_word : in ``-o`` the name may stand alone, which means the empty value.
    fallbacks : environment variables that other programs read for the same purpose, each with a
        function from its text to the value here (None: it says nothing).
    """

    name: str
    scope: Scope
    parse: Callable[[str], object]
    default: object
    help: str
    metavar: str | None = None
    short: str | None = None
    fallbacks: tuple[tuple[str, Callable[[str], object]], ...] = ()
    is_word: bool = False

    @property
    def is_flag(self) -> bool:
        return self.parse is values.flag

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return "NCZFS_" + self.name.upper().replace("-", "_")


def _path(text: str) -> str:
    # Made absolute at once, because a daemon changes its working directory.
    return os.path.abspath(os.path.expanduser(text))


def _import_chunks(text: str) -> str:
    """Check lengths of chunks by name. In ``-o``, colons may stand for commas."""
    lengths(text.replace(":", ","))
    return text.replace(":", ",")


def _import_codecs(text: str) -> str:
    codecs(text)
    return text


def _endpoint(text: str) -> str:
    """Return the URL of GDAL's AWS_S3_ENDPOINT: a host, with AWS_HTTPS=NO for plain HTTP."""
    if "://" in text:
        return values.endpoint(text)
    secure = os.environ.get("AWS_HTTPS", "YES").upper() not in ("NO", "FALSE", "OFF", "0")
    return values.endpoint(f"{'https' if secure else 'http'}://{text}")


_S, _M, _V, _N, _L = Scope.STORE, Scope.MOUNT, Scope.SHOWN, Scope.SERVICE, Scope.LOG
_R = Scope.READING

OPTIONS: tuple[Option, ...] = (
    Option(
        "endpoint-url",
        _S,
        values.endpoint,
        None,
        "the S3 server, if it is not Amazon's",
        "URL",
        fallbacks=(("AWS_S3_ENDPOINT", _endpoint),),
    ),
    Option("region", _S, str, None, "region of the bucket; usually found automatically", "NAME"),
    Option("profile", _S, str, None, "profile of ~/.aws with the credentials", "NAME"),
    Option(
        "no-sign-request",
        _S,
        values.flag,
        False,
        "do not sign requests, for public buckets",
        fallbacks=(("AWS_NO_SIGN_REQUEST", values.flag),),
    ),
    Option(
        "force-path-style",
        _S,
        values.flag,
        None,
        "address buckets as HOST/BUCKET, not BUCKET.HOST",
        fallbacks=(("AWS_VIRTUAL_HOSTING", lambda text: not values.flag(text)),),
    ),
    Option(
        "requester-pays",
        _S,
        values.flag,
        False,
        "agree to pay for the requests",
        fallbacks=(("AWS_REQUEST_PAYER", lambda text: text == "requester"),),
    ),
    Option("expected-bucket-owner", _S, str, None, "refuse buckets of other accounts", "ID"),
    Option("ca-bundle", _S, _path, None, "certificate authorities to trust (PEM)", "FILE"),
    Option(
        "sse",
        _S,
        values.choice("AES256", "aws:kms", "aws:kms:dsse"),
        None,
        "encryption by the server (default: as the bucket is configured)",
        "AES256|aws:kms|aws:kms:dsse",
    ),
    Option("sse-kms-key-id", _S, str, None, "KMS key for the encryption", "ID"),
    Option(
        "part-size",
        _S,
        values.size,
        16 << 20,
        "part size of uploads; larger objects than four parts are sent in parts",
        "SIZE",
    ),
    Option(
        "check-etag",
        _S,
        values.choice("auto", "yes", "no"),
        "auto",
        "check objects against their ETag (auto: up to 256KiB)",
        "auto|yes|no",
    ),
    Option(
        "allow-references",
        _S,
        values.prefixes,
        None,
        "URLs and paths that reference documents may point to",
        "PREFIX,...",
    ),
    Option(
        "allow-redirects",
        _S,
        values.prefixes,
        None,
        "where a web server may redirect to, besides itself",
        "PREFIX,...",
    ),
    Option("prefix", _S, str, None, "use only this prefix of the store", "PREFIX"),
    Option(
        "forbidden-is-absent",
        _S,
        values.choice("auto", "yes", "no"),
        "auto",
        "treat 403 as a missing key (auto: if known keys can still be read)",
        "auto|yes|no",
    ),
    Option(
        "request-timeout",
        _S,
        values.deadline,
        15.0,
        "give up a request after this time, unless data keep arriving",
        "TIME",
    ),
    Option(
        "single-writer",
        _S,
        values.choice("auto", "trust"),
        "auto",
        "trust: no other program writes, so take no lease",
        "auto|trust",
    ),
    Option(
        "durable", _S, values.flag, False, "wait until the disk has what is written to a directory"
    ),
    Option(
        "zip-commit",
        _S,
        values.choice("append", "copy"),
        "append",
        "how to change a zip archive; copy: readers never see a half-written one",
        "append|copy",
    ),
    Option(
        "zip-form",
        _S,
        values.choice("top", "root"),
        "top",
        "layout of a new zip archive: top as netcdf-c, root as zarr-python",
        "top|root",
    ),
    Option(
        "zip-write-once",
        _S,
        values.flag,
        False,
        "never replace members of a zip archive, like netcdf-c",
    ),
    Option(
        "max-chunk-size",
        _S,
        values.size,
        2 << 30,
        "refuse variables with larger decoded chunks",
        "SIZE",
    ),
    Option(
        "max-document-size",
        _S,
        values.size,
        16 << 20,
        "refuse larger metadata documents (consolidated ones: eight times as much)",
        "SIZE",
    ),
    Option(
        "memory-limit",
        Scope.MEMORY,
        values.size,
        None,
        "memory for all caches (default: a quarter of the memory, at most 2GiB)",
        "SIZE",
    ),
    Option(
        "cache-dir",
        _R,
        _path,
        None,
        "directory for decoded chunks that memory cannot hold (default: $TMPDIR or /var/tmp)",
        "DIR",
    ),
    Option(
        "max-cache-size",
        _R,
        values.size,
        None,
        "size of that cache; 0 for none (default: 10GiB, at most a tenth of the free space)",
        "SIZE",
    ),
    Option(
        "spool-dir",
        Scope.SPOOL,
        _path,
        None,
        "directory for unsaved writes (default: ~/.local/state/nczfs/spool)",
        "DIR",
    ),
    Option(
        "max-spool-size",
        Scope.SPOOL,
        values.size,
        None,
        "size of the spool (default: as much as the disk holds)",
        "SIZE",
    ),
    Option(
        "journal",
        _M,
        values.flag_or("fsync"),
        "no",
        "keep unsaved writes if the daemon is killed; fsync: after a power failure too",
        "yes|no|fsync",
        is_word=True,
    ),
    Option(
        "flush-age",
        _M,
        values.duration,
        5.0,
        "store written values after this time at the latest",
        "TIME",
    ),
    Option(
        "flush-timeout",
        _M,
        values.duration,
        60.0,
        "how long unmounting waits for the store; the rest goes to the spool",
        "TIME",
    ),
    Option(
        "metadata-ttl",
        _R,
        values.duration,
        60.0,
        "how long listings and metadata are cached",
        "TIME",
    ),
    Option(
        "negative-metadata-ttl",
        _V,
        values.duration,
        5.0,
        "how long missing names are cached",
        "TIME",
    ),
    Option(
        "missing-chunks",
        _R,
        values.choice("fill", "error"),
        "fill",
        "what to read for chunks that were never written",
        "fill|error",
    ),
    Option(
        "layout",
        _V,
        values.choice("tree", "flat"),
        "tree",
        "flat: show each dataset as one netCDF file, and nothing else",
        "tree|flat",
    ),
    Option("views-only", _V, values.flag, False, "show datasets/ only"),
    Option("previews", _V, values.flag, False, "list preview.png in each directory, too"),
    Option("objects-only", _V, values.flag, False, "show objects/ only"),
    Option(
        "views",
        _V,
        values.names,
        None,
        "show only these virtual files, e.g. values.raw; or copy",
        "LIST",
    ),
    Option(
        "record-dim",
        _R,
        values.names,
        None,
        "dimensions that are unlimited in netCDF files",
        "NAME,...",
    ),
    Option(
        "import-chunks",
        _M,
        _import_chunks,
        None,
        "lengths of chunks of netCDF files that are copied into groups",
        "NAME=N,...",
    ),
    Option(
        "import-codecs",
        _M,
        _import_codecs,
        None,
        "codecs of such files, as for `nczfs import`",
        "CODECS",
    ),
    Option(
        "create-format",
        _M,
        str,
        None,
        "format of datasets that are made in the mount, as for `nczfs create`",
        "FORMAT",
    ),
    Option("uid", _V, values.user, None, "owner of all files", "USER"),
    Option("gid", _V, values.group, None, "group of all files", "GROUP"),
    Option("umask", _V, values.octal, None, "permission bits to take away", "BITS"),
    Option("file-mode", _V, values.octal, None, "permission bits of files", "BITS"),
    Option("dir-mode", _V, values.octal, None, "permission bits of directories", "BITS"),
    Option("read-only", _M, values.flag, False, "refuse all writes"),
    Option("allow-delete", _M, values.flag, False, "allow rm in datasets/"),
    Option(
        "allow-replace",
        _M,
        values.flag,
        False,
        "let a file that is copied onto a group's netCDF file replace the group",
    ),
    Option("write-dependents", _M, values.flag, False, "allow writing to dependent arrays"),
    Option("keep-times", _M, values.flag, False, "store modification times with the objects"),
    Option(
        "directory-markers",
        _M,
        values.flag,
        False,
        "store empty directories of objects/",
    ),
    Option("allow-other", _M, values.flag, False, "give other users access"),
    Option("allow-root", _M, values.flag, False, "give root access"),
    Option(
        "allow-non-empty",
        _M,
        values.flag,
        False,
        "mount on a directory that is not empty; its files are hidden meanwhile",
    ),
    Option("auto-unmount", _M, values.flag, False, "unmount if the daemon crashes"),
    Option(
        "foreground", _M, values.flag, False, "stay in the foreground and log to stderr", short="f"
    ),
    Option(
        "mount-timeout",
        _M,
        values.deadline,
        30.0,
        "fail if the mount is not ready after this time",
        "TIME",
    ),
    Option(
        "listen",
        _N,
        values.address,
        ("127.0.0.1", 8080),
        "where clients connect; port 0: any free one",
        "[HOST:]PORT",
    ),
    Option(
        "allow-host",
        _N,
        values.hosts,
        None,
        "names by which clients may call (default: on this machine its own, elsewhere any)",
        "NAME,...",
    ),
    Option("max-clients", _N, values.count, 64, "answers at a time; others are refused", "N"),
    Option("client-timeout", _N, values.deadline, 60.0, "cut off who takes nothing", "TIME"),
    Option("stop-timeout", _N, values.deadline, 30.0, "for running answers at the end", "TIME"),
    Option("log-file", _L, _path, None, "log file (default: syslog; stderr with -f)", "FILE"),
    Option(
        "log-level",
        _L,
        values.choice("debug", "info", "warning", "error"),
        None,
        "least severe messages to log (default: info for mounts, else warning)",
        "debug|info|warning|error",
    ),
    Option(
        "log-format", _L, values.choice("text", "json"), "text", "format of the log", "text|json"
    ),
    Option("verbose", _L, values.flag, False, "the same as --log-level info", short="v"),
    Option("debug", _L, values.flag, False, "the same as --log-level debug", short="d"),
)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}

OTHERS_WORDS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "url": ("endpoint-url", str),
    "use_path_request_style": ("force-path-style", str),
    "public_bucket": ("no-sign-request", str),
    "cache": ("cache-dir", str),
    "use_cache": ("cache-dir", str),
    "nonempty": ("allow-non-empty", str),
    "ro": ("read-only", lambda _: "yes"),
    "rw": ("read-only", lambda _: "no"),
}
"""Words of ``-o`` that s3fs and mount(8) use for options of nczfs."""

S3FS_WORDS = frozenset({"url", "use_path_request_style", "public_bucket", "use_cache", "nonempty"})

KERNEL_WORDS = frozenset(
    {"nosuid", "suid", "nodev", "dev", "noexec", "exec", "noatime", "sync", "dirsync"}
)
"""Words of ``-o`` that are for the kernel."""

IGNORED_WORDS = frozenset(
    {"_netdev", "nofail", "auto", "noauto", "user", "users", "nouser", "owner", "group", "defaults"}
    | {"async", "atime", "relatime", "nostrictatime", "diratime", "nolazytime", "symfollow"}
    | {"nomand", "noiversion", "silent", "loud", "default_permissions"}
)
"""Words of fstab that are for its other readers, or that say what is so without them."""

_NO_ACCESS_TIMES = "reading changes no access time"
WORDS_WITHOUT_EFFECT: Mapping[str, str] = {
    "nosymfollow": "a mount shows no symbolic links",
    "norelatime": _NO_ACCESS_TIMES,
    "strictatime": _NO_ACCESS_TIMES,
    "nodiratime": _NO_ACCESS_TIMES,
    "lazytime": "times are not kept in memory",
    "iversion": "files have no version numbers",
    "mand": "no lock is mandatory",
}
"""Words of fstab that libfuse does not take, and why nothing is missing without them."""
