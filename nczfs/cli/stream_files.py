"""ncstreams as arguments of commands: files, and the standard input and output."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from nczfs.cli import interrupts
from nczfs.cli.command import CommandLine
from nczfs.cli.progress import progress_bar, tell
from nczfs.cli.sources import Settings
from nczfs.errors import (
    BadKey,
    BadMetadata,
    CodecError,
    NoContent,
    NoSuchObject,
    ObjectExists,
    Unsupported,
    UsageError,
)
from nczfs.zmap.oserrors import kind_of
from nczfs.zmap.url import parse_url

if TYPE_CHECKING:
    from nczfs.engine.dataset import Dataset
    from nczfs.library.api import Group
    from nczfs.library.variable import Variable
    from nczfs.model import hierarchy as model
    from nczfs.tools.transfer.choices import Choices
    from nczfs.tools.transfer.ncstream_import import Stream
    from nczfs.tools.transfer.target import NewNode
    from nczfs.views.netcdf.content import FileContent
    from nczfs.zmap.objectfile import ObjectReader

STREAM = "ncstream"
PIPE = "-"
SUFFIX = ".ncs"


def is_stream(file: str, kind: str | None) -> bool:
    """Return whether the new file is an ncstream, by its kind or else by its name."""
    return kind == STREAM or (kind is None and (file == PIPE or file.endswith(SUFFIX)))


def is_stream_file(file: str) -> bool:
    """Return whether only a stream can be at a place, or a local file begins as streams do."""
    from nczfs.ncstream.framing import HEADER, MAGIC_BYTES, START  # its package imports NumPy

    if file == PIPE or "://" in file:
        return True
    try:
        with open(os.path.expanduser(file), "rb") as opened:
            return opened.read(MAGIC_BYTES) in (START, HEADER)
    except OSError:
        return False  # opening it in another form gives the reason


def import_stream(request: CommandLine, choices: Choices, new: NewNode) -> None:
    """Make a dataset from a stream."""
    from nczfs.cli.memory import share_one_heap
    from nczfs.tools.transfer.ncstream_import import write_stream

    arguments = request.arguments
    share_one_heap()
    with (
        _opened_stream(arguments.file, arguments.skip_unsupported, request.settings) as stream,
        progress_bar(stream.size, "B") as progress,
    ):

        def tell_of_the_rest() -> None:
            tell(f"{new.name}: stopped; --overwrite removes what was written")

        with interrupts.deferred(tell_of_the_rest):
            try:
                write_stream(stream, new, choices, tell, progress)
            except ObjectExists as error:
                raise ObjectExists(f"{error}; --overwrite replaces the dataset") from error


@contextmanager
def _opened_stream(place: str, skips: bool, settings: Settings) -> Iterator[Stream]:
    """Open a stream for reading: the standard input, a local file, or an object of a store."""
    from nczfs.tools.transfer.ncstream_import import Stream

    if place == PIPE:
        yield Stream(sys.stdin.buffer, "the standard input", None, skips)
        return
    if "://" in place:
        with _opened_object(place, settings) as found:
            yield Stream(found, found.name, found.size, skips)
        return
    try:
        opened = open(os.path.expanduser(place), "rb")  # noqa: SIM115
    except OSError as error:
        raise kind_of(error)(f"{place}: {error.strerror}") from error
    with opened:
        status = os.fstat(opened.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        yield Stream(opened, place, size, skips)


@contextmanager
def _opened_object(url: str, settings: Settings) -> Iterator[ObjectReader]:
    """Open an object of a store that begins as streams do."""
    from nczfs.cli.store import store_options
    from nczfs.ncstream.framing import HEADER, MAGIC_BYTES, START
    from nczfs.zmap.objectfile import opened_object

    others = "only ncstreams are imported from URLs; `nczfs cp` copies datasets"
    with ExitStack() as stack:
        try:
            options = replace(store_options(settings), read_only=True)
            found = stack.enter_context(opened_object(parse_url(url), options))
            magic = found.read(MAGIC_BYTES)
        except (NoSuchObject, BadKey) as error:
            raise NoContent(f"{error} ({others})") from error
        if magic not in (START, HEADER):
            raise UsageError(f"{found.name}: is no ncstream; {others}")
        found.seek(0)
        yield found


def check_options(request: CommandLine) -> None:
    """Raise UsageError if options of one kind of file are given for another."""
    arguments = request.arguments
    if is_stream(arguments.file, arguments.kind):
        if arguments.chunks or arguments.codecs is not None:
            raise UsageError("--chunks and --codecs are for netCDF files, not for ncstreams")
        if arguments.netcdf_java and arguments.deflate is not None:
            raise UsageError("--netcdf-java writes whole variables, which are not deflated")
        return
    for option in ("deflate", "netcdf_java"):
        if getattr(arguments, option) not in (None, False):
            raise UsageError(f"--{option.replace('_', '-')} is for ncstreams")
    if arguments.file == PIPE:
        raise UsageError("only an ncstream can be written to the standard output")


def export_stream(node: Group | Variable, request: CommandLine) -> None:
    """Write a group or a variable as an ncstream."""
    from nczfs.views.ncstream.sending import sent_layout, sent_stream, values_bytes
    from nczfs.views.netcdf.fitting import file_content
    from nczfs.views.netcdf.kinds import JAVA_NCSTREAM, SENT_NCSTREAM
    from nczfs.views.netcdf.texts import texts_of

    arguments, dataset = request.arguments, node.engine_dataset
    kind = JAVA_NCSTREAM if arguments.netcdf_java else SENT_NCSTREAM
    tree = _tree(node, skips=arguments.skip_unsupported)
    stem = os.path.basename(arguments.file).removesuffix(SUFFIX)
    content = file_content(tree, kind, lambda v: texts_of(dataset, v), title=stem)
    _check_omitted(content, skips=arguments.skip_unsupported)
    with (
        progress_bar(values_bytes(content), "B") as progress,
        _opened(arguments.file, overwrite=arguments.overwrite) as out,
    ):
        if arguments.netcdf_java:
            pieces = sent_layout(content, dataset, progress)
        else:
            pieces = sent_stream(content, dataset, deflate=arguments.deflate, progress=progress)
        for piece in pieces:
            out.write(piece)


def _tree(node: Group | Variable, *, skips: bool) -> model.Group:
    from nczfs.formats.declarations import groups_of
    from nczfs.library.variable import Variable
    from nczfs.model import hierarchy as model

    if isinstance(node, Variable):
        header = model.GroupHeader(node.path.rpartition("/")[0].strip("/"), node.description.format)
        return model.Group(header, (), (node.description,))
    tree = node.tree()
    for each in groups_of(tree):
        for member, why in each.broken:
            if not skips:
                raise BadMetadata(f"{member}: {why}; --skip-unsupported leaves it out")
            tell(f"{member}: {why}: left out")
    return _decodable(tree, node.engine_dataset, skips=skips)


def _decodable(group: model.Group, dataset: Dataset, *, skips: bool) -> model.Group:
    """Return a group without variables whose values could never be decoded."""
    variables: list[model.Variable] = []
    for variable in group.variables:
        try:
            dataset.array(variable).require_codecs()
        except CodecError as error:
            if not skips:
                raise
            tell(f"{variable.path}: {error}: left out")
        else:
            variables.append(variable)
    groups = tuple(_decodable(child, dataset, skips=skips) for child in group.groups)
    return replace(group, variables=tuple(variables), groups=groups)


def _check_omitted(content: FileContent, *, skips: bool) -> None:
    if content.omitted and not skips:
        more = f", and {len(content.omitted) - 1} more" if len(content.omitted) > 1 else ""
        raise Unsupported(
            f"{content.omitted[0]}, which the ncstream cannot hold{more}; --skip-unsupported "
            "leaves such things out"
        )
    for line in content.omitted:
        tell(f"{line}: left out")


@contextmanager
def _opened(file: str, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a new file, which appears when it is complete, or the standard output."""
    if file == PIPE:
        out = sys.stdout.buffer
        yield out
        out.flush()
        return
    path = os.path.expanduser(file)
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")

    def check_free() -> None:
        if os.path.lexists(path) and not overwrite:
            raise ObjectExists(f"{file}: exists already; --overwrite replaces it")

    def remove() -> None:
        with suppress(FileNotFoundError):
            os.unlink(temporary)

    check_free()
    if not os.path.isdir(folder):
        raise NoContent(f"{folder}: no such directory")
    try:
        with interrupts.deferred(remove):
            with open(temporary, "wb") as out:
                yield out
            check_free()
            os.replace(temporary, path)
    except OSError as error:
        raise kind_of(error)(f"{file}: {error.strerror}") from error
    finally:
        remove()
