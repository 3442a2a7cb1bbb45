"""``nczfs mount``: shows a store as a directory."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from nczfs.cli import logs
from nczfs.cli.codecs import codecs, lengths
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.cli.sources import Settings
from nczfs.cli.spelling import hint
from nczfs.cli.store import place, server_options, store_options
from nczfs.errors import NoContent, StoreError, UsageError
from nczfs.fuse import mounting
from nczfs.fuse.background import BackgroundOptions, run_in_background
from nczfs.version import VERSION
from nczfs.vfs.ending import EndNote
from nczfs.zmap.url import parse_url

_log = logging.getLogger(__name__)

FLAT_VIEWS = {"nc": None, "classic.nc": None}.keys()
"""The words of `--views` that the layout ``flat`` can show; the first one without it."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="of the store: a path, s3://bucket/prefix, https://..."
    )
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a directory, or /dev/fd/N")
    parser.add_argument(
        "-o",
        dest="words",
        metavar="OPTION,...",
        action="append",
        help="options without their dashes, as in fstab: allow_other,memory_limit=4G",
    )


def run(request: CommandLine) -> int:
    """Mount. Returns when the mount answers, or with ``--foreground`` when it has ended.

    Then 1 is returned if something could not be stored.
    """
    arguments, settings = request.arguments, request.settings
    for line in request.words.hints:
        print(f"nczfs: {line}", file=sys.stderr)
    os.environ.update(request.words.environment)
    url = place(arguments.url, settings)
    mountpoint = prepare(arguments.mountpoint, settings)
    check(settings)
    if settings.flag("foreground"):
        log = logs.configure_foreground(settings)

        def announce() -> None:
            source, by = parse_url(url).text, f", or `nczfs umount {mountpoint}`,"
            if mounting.is_descriptor(mountpoint):
                by = ""  # the program that mounted knows where
            print(
                f"nczfs: {source} is mounted on {mountpoint}; Ctrl-C{by} ends it", file=sys.stderr
            )

        note = EndNote()
        mount(url, mountpoint, request, log, note, announce)
        ending = note.read()
        return 0 if ending is not None and ending.is_whole else 1
    start(url, mountpoint, request, EndNote())
    return 0


def prepare(mountpoint: str, settings: Settings) -> str:
    """Check a mount point as the options ask; see `mounting.prepare`."""
    return mounting.prepare(
        mountpoint,
        allow_other=settings.flag("allow-other") or settings.flag("allow-root"),
        allow_non_empty=settings.flag("allow-non-empty"),
    )


def start(
    url: str,
    mountpoint: str,
    request: CommandLine,
    note: EndNote,
    begin: Callable[[], None] = lambda: None,
) -> int:
    """Mount in the background. Returns the daemon's process id when the mount answers.

    Parameters
    ----------
    note : gets what could not be stored in the end.
    begin : called first of all in the daemon.
    """
    target = logs.configure_background(request.settings, mountpoint)
    options = BackgroundOptions(
        mountpoint=mountpoint,
        timeout_s=request.settings.seconds("mount-timeout"),
        log_descriptor=target.descriptor,
        log_name=str(target.path),
    )

    def work(ready: Callable[[], None]) -> None:
        begin()
        with ExitStack() as stack:
            stack.enter_context(logs.warnings_on_stderr())

            def on_ready() -> None:
                stack.close()
                ready()

            mount(url, mountpoint, request, target.path, note, on_ready)

    return run_in_background(work, options)


def mount(
    url: str,
    mountpoint: str,
    request: CommandLine,
    log: Path | None,
    note: EndNote,
    on_ready: Callable[[], None],
) -> None:
    """Open the store and serve it until it is unmounted."""
    # Imported after the fork, because NumPy starts threads when it is imported; and other commands
    # need nothing of it. What importing makes stays: looking for garbage in it, again and again,
    # would take a tenth of the time until the mount answers.
    gc.disable()
    from nczfs.cli.memory import share_one_heap
    from nczfs.engine.spool.space import Survives
    from nczfs.fuse.daemon import MountOptions, serve
    from nczfs.fuse.invalidator import Invalidator
    from nczfs.vfs.control import LogFile
    from nczfs.vfs.datasets.choice import view_words
    from nczfs.vfs.datasets.importing import ImportOptions
    from nczfs.vfs.laterparts import load_soon
    from nczfs.vfs.objects import StoredOptions
    from nczfs.vfs.tree import VfsOptions, mount_tree

    gc.freeze()
    gc.enable()
    share_one_heap()

    def ready() -> None:
        on_ready()
        load_soon()

    settings = request.settings
    source = parse_url(url).text
    config = settings.effective() | {"url": source, "mountpoint": mountpoint}
    shown_log = None if log is None else LogFile.from_here(log)
    _log.info("nczfs %s, process %d: mounts %s on %s", VERSION, os.getpid(), source, mountpoint)
    _check_views(settings, view_words())
    spool_dir = settings.maybe_text("spool-dir")
    chunks, chain = settings.maybe_text("import-chunks"), settings.maybe_text("import-codecs")
    options = VfsOptions(
        engine=replace(
            server_options(settings),
            create_format=_create_format(settings),
            flush_age_s=settings.seconds("flush-age"),
            writes_dependents=settings.flag("write-dependents"),
        ),
        views=settings.words("views"),
        lists_previews=_lists_previews(settings),
        record_dimensions=settings.words("record-dim") or frozenset(),
        imports=ImportOptions(
            {} if chunks is None else lengths(chunks),
            None if chain is None else codecs(chain),
            replaces=settings.flag("allow-replace"),
        ),
        show=_shown(settings),
        flat=_flat(settings),
        uid=_or(settings.maybe_number("uid"), os.getuid()),
        gid=_or(settings.maybe_number("gid"), os.getgid()),
        read_only=settings.flag("read-only"),
        allow_delete=settings.flag("allow-delete"),
        spool_dir=Path(spool_dir) if spool_dir else None,
        spool_bytes_max=settings.maybe_number("max-spool-size"),
        survives=Survives(settings.text("journal")),
        file_mode=settings.maybe_number("file-mode"),
        dir_mode=settings.maybe_number("dir-mode"),
        umask=settings.maybe_number("umask") or 0,
        stored=StoredOptions(
            keep_times=settings.flag("keep-times"),
            directory_markers=settings.flag("directory-markers"),
        ),
        log=shown_log,
        end_note=note,
        config=config,
    )
    invalidator = Invalidator()
    others = [] if options.read_only else mounting.mounts_of(source)
    try:
        fs = mount_tree(url, store_options(settings), options, invalidator)
    except StoreError as error:
        raise _with_remedy(error, url) from error
    for other in others:
        _log.info(
            "%s is mounted on %s too; a mount sees what the other has stored after its"
            " --metadata-ttl at the latest",
            other.source,
            other.mountpoint,
        )
    # The kernel's own `ro` is never set, because it would refuse writing to .nczfs/refresh, too.
    # The file system itself refuses all other writes to a read-only mount.
    serve(
        fs,
        mountpoint,
        MountOptions(
            source=source,
            allow_other=settings.flag("allow-other"),
            allow_root=settings.flag("allow-root"),
            auto_unmount=settings.flag("auto-unmount"),
            request_timeout_s=settings.seconds("request-timeout"),
            flush_timeout_s=settings.seconds("flush-timeout"),
            negative_ttl_s=settings.seconds("negative-metadata-ttl"),
            extra=frozenset(request.words.kernel),
        ),
        invalidator=invalidator,
        on_ready=ready,
        on_end=note.write,
    )


def _with_remedy(error: StoreError, url: str) -> StoreError:
    place = parse_url(url)
    if place.kind in ("file", "zip") and place.path and not os.path.lexists(place.path):
        path = shlex.quote(place.path)
        return NoContent(f"{error}; `nczfs create {path}` makes a new dataset there")
    return error


def check(settings: Settings) -> None:
    """Check options that depend on each other. Raises UsageError."""
    if settings.flag("views-only") and settings.flag("objects-only"):
        raise UsageError("--views-only and --objects-only leave nothing to show; use one of them")
    if settings.text("layout") == "flat":
        for name in ("views-only", "objects-only"):
            if settings.flag(name):
                raise UsageError(f"--{name} and --layout flat exclude each other; use one of them")
        if len(words := settings.words("views") or ()) > 1 or not set(words) <= FLAT_VIEWS:
            raise UsageError(
                f"--layout flat shows one file of each dataset: --views {' or '.join(FLAT_VIEWS)}"
            )
    if settings.flag("allow-other") and settings.flag("allow-root"):
        raise UsageError("--allow-other includes --allow-root; use one of them")
    directory = settings.maybe_text("cache-dir")
    if directory and not (os.path.isdir(directory) and os.access(directory, os.W_OK | os.X_OK)):
        raise UsageError(
            f"--cache-dir {directory}: not a writable directory; create it or name another one"
        )


def _lists_previews(settings: Settings) -> bool:
    from nczfs.pictures.picture import require

    if settings.flag("previews"):
        require()
    return settings.flag("previews")


def _check_views(settings: Settings, known: Sequence[str]) -> None:
    for word in sorted(settings.words("views") or ()):
        if word not in known:
            raise UsageError(
                f"--views {word}: no view has that name; there are: {', '.join(known)}"
                f"{hint(word, known)}"
            )


def _create_format(settings: Settings) -> str | None:
    from nczfs.formats.base import FormatOptions  # imports NumPy
    from nczfs.formats.registry import new_format

    name = settings.maybe_text("create-format")
    return name if name is None else new_format(name, FormatOptions()).name


def _shown(settings: Settings) -> str:
    if settings.flag("views-only"):
        return "views"
    return "objects" if settings.flag("objects-only") else "both"


def _flat(settings: Settings) -> str | None:
    """Return the end of the names of the views that the layout ``flat`` shows; None: the trees."""
    if settings.text("layout") != "flat":
        return None
    return "." + next(iter(settings.words("views") or FLAT_VIEWS))


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


COMMAND = Command(
    "mount",
    "mount a store as a directory",
    _arguments,
    run,
    (
        "nczfs mount s3://bucket/era5.zarr /mnt/era5 --read-only",
        "nczfs mount data.zip ~/data -o allow_delete,memory_limit=4G",
    ),
    scopes=frozenset(Scope) - {Scope.SERVICE},
    owns_signals=True,
)
