"""``nczfs import``: a netCDF file, or CDL, as a new dataset."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import logs
from nczfs.cli.codecs import codecs, lengths, positive
from nczfs.cli.command import STORE_SCOPES, Command, Request
from nczfs.cli.options import Scope, default_memory_limit
from nczfs.cli.parser import typed
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, store_options
from nczfs.errors import AccessDenied, NoContent, ObjectExists

if TYPE_CHECKING:
    from nczfs.engine.transfer.choices import Choices
    from nczfs.engine.transfer.copying import Source
    from nczfs.engine.transfer.dataset_target import NewDataset

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1", "zarr2", "nczarr", "zarr")
TRANSFER_SCOPES = STORE_SCOPES | {Scope.MEMORY}

_CDL = re.compile(r"(?:\s|//[^\n]*\n)*netcdf\s")
_CDL_HEAD_BYTES = 4096


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be asked of a dataset that is made."""
    parser.add_argument("url", metavar="URL", help="of the dataset that is made")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"{', '.join(FORMATS[:5])}; nczarr and zarr are the newest ones (default: what the "
        "mode of the URL says, else nczarr-L3)",
    )
    parser.add_argument(
        "--consolidated", action="store_true", help="write the consolidated metadata too"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="delete the dataset that is there, if one is"
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="netCDF-3, netCDF-4 or CDL")
    add_target_arguments(parser)
    parser.add_argument(
        "--chunks",
        type=typed(lengths),
        default={},
        metavar="NAME=N,...",
        help="lengths of chunks along dimensions (default: as in FILE)",
    )
    parser.add_argument(
        "--codecs",
        type=typed(codecs),
        metavar="CODECS",
        help="none, zlib:LEVEL, zstd:LEVEL, blosc:NAME:LEVEL, ...; 'shuffle,' in front; or a JSON "
        "list (default: the filters of FILE, else zlib behind a shuffle)",
    )
    parser.add_argument(
        "--string-bytes",
        type=typed(positive),
        metavar="N",
        help="bytes of an element of strings (default: those of the longest one)",
    )
    parser.add_argument("--fixed", action="store_true", help="make unlimited dimensions fixed ones")
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out what a dataset cannot have"
    )


def run(request: Request) -> int:
    """Import a file."""
    arguments = request.arguments
    logs.configure_command(request.settings)
    from nczfs.engine.transfer.choices import Choices  # NumPy comes with it

    choices = Choices(arguments.chunks, arguments.codecs, arguments.fixed, arguments.string_bytes)
    limit = memory_limit(request.settings)
    with (
        terminable(),
        source_of(arguments.file, limit, skip_unsupported=arguments.skip_unsupported) as source,
    ):
        write(source, target(request), choices)
    return 0


def target(request: Request) -> NewDataset:
    """The dataset that the arguments of a target ask for."""
    from nczfs.engine.transfer.dataset_target import NewDataset

    arguments, settings = request.arguments, request.settings
    new = NewDataset(
        place(arguments.url, settings),
        arguments.format,
        arguments.consolidated,
        arguments.overwrite,
        memory_limit(settings),
        store_options(settings),
        engine_options(settings),
    )
    _ = new.metadata_format  # tells now when the URL is none
    return new


def write(source: Source, new: NewDataset, choices: Choices) -> None:
    """Make a dataset of a source; with a bar on a terminal."""
    from tqdm import tqdm

    from nczfs.engine.transfer.choices import chosen
    from nczfs.engine.transfer.dataset_target import write_dataset

    chosen_source = chosen(source, choices)
    with tqdm(
        total=source.element_count, unit=" values", unit_scale=True, disable=None, leave=False
    ) as bar:
        try:
            write_dataset(chosen_source, new, tell, bar.update)
        except ObjectExists as error:
            raise ObjectExists(f"{error}; --overwrite deletes a dataset that is there") from error


@contextmanager
def source_of(file: str, memory_limit_bytes: int, *, skip_unsupported: bool) -> Iterator[Source]:
    """A netCDF file or a CDL text, by what it begins with."""
    path = Path(file).expanduser()
    if _is_cdl(path):
        yield cdl_source_of(path)
        return
    from nczfs.engine.transfer.netcdf_source import netcdf_source

    with netcdf_source(path, tell, memory_limit_bytes, skip_unsupported=skip_unsupported) as source:
        yield source


def cdl_source_of(path: Path) -> Source:
    """A CDL text."""
    from nczfs.engine.transfer.cdl_source import cdl_source

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NoContent(f"{path}: no such file") from None
    except OSError as error:
        raise AccessDenied(f"{path}: {error.strerror}") from None
    return cdl_source(data.decode("utf-8", "surrogateescape"), str(path))


def _is_cdl(path: Path) -> bool:
    if path.suffix == ".cdl":
        return True
    try:
        with path.open("rb") as file:
            head = file.read(_CDL_HEAD_BYTES)
    except OSError:
        return False  # whoever opens it tells why
    return _CDL.match(head.decode("utf-8", "replace")) is not None


def memory_limit(settings: Settings) -> int:
    """The budget of what is on its way."""
    return settings.maybe_number("memory-limit") or default_memory_limit()


def tell(line: str) -> None:
    """A line for the user, beside the bar."""
    from tqdm import tqdm

    tqdm.write(f"nczfs: {line}", file=sys.stderr)


@contextmanager
def terminable() -> Iterator[None]:
    """Within it SIGTERM is Ctrl-C, so that what is half made is removed."""
    from nczfs.engine.memory import share_one_heap

    share_one_heap()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


COMMAND = Command(
    "import",
    "make a dataset of a netCDF file or of CDL",
    _arguments,
    run,
    scopes=TRANSFER_SCOPES,
)
