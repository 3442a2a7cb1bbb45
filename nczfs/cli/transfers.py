"""Shared parts of the commands that convert values from one form to another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from nczfs.cli import interrupts
from nczfs.cli.codecs import codecs, lengths
from nczfs.cli.command import STORE_SCOPES, CommandLine
from nczfs.cli.memory_limit import default_memory_limit
from nczfs.cli.options import Scope
from nczfs.cli.parser import typed
from nczfs.cli.progress import progress_bar, tell
from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, store_options
from nczfs.errors import AccessDenied, NoContent, ObjectExists

if TYPE_CHECKING:
    from nczfs.tools.transfer.choices import Choices
    from nczfs.tools.transfer.source import Source
    from nczfs.tools.transfer.target import NewNode

TRANSFER_SCOPES = STORE_SCOPES | {Scope.MEMORY}

READ_WRONGLY = (
    "netcdf-c 4.9.0 (ncdump, nccopy and cdo of Debian 12) reads compressed values as wrong numbers"
    " without an error; `nczfs import --codecs none` makes datasets that it reads"
)
"""What is said of compressed datasets in directories, the only stores that netcdf-c 4.9.0 reads."""


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for a new dataset."""
    parser.add_argument("url", metavar="URL", help="the new dataset")
    from nczfs.formats.registry import DEFAULT_NAME  # imports NumPy

    add_format_arguments(parser, default=DEFAULT_NAME, there="dataset")


def add_format_arguments(parser: argparse.ArgumentParser, *, default: str, there: str) -> None:
    """Add the options for the metadata of a new dataset.

    Parameters
    ----------
    default : the format if neither the option nor the URL names one.
    there : what is replaced, in words.
    """
    from nczfs.formats.registry import FORMATS  # imports NumPy

    parser.add_argument(
        "--format",
        choices=(*FORMATS.names, *FORMATS.aliases),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS.names)}; "
        f"{', '.join(f'{alias} is {name}' for alias, name in FORMATS.aliases.items())} "
        f"(default: from the mode of the URL, else {default})",
    )
    parser.add_argument(
        "--consolidated", action="store_true", help="also write consolidated metadata"
    )
    parser.add_argument("--overwrite", action="store_true", help=f"replace an existing {there}")


def add_layout_arguments(
    parser: argparse.ArgumentParser, *, chunks_help: str, codecs_help: str
) -> None:
    """Add the options for chunks, codecs and strings of new variables, as of `Choices`."""
    parser.add_argument(
        "--chunks",
        type=typed(lengths),
        default={},
        metavar="NAME=N,...",
        help=f"lengths of chunks along dimensions ({chunks_help})",
    )
    parser.add_argument("--codecs", type=typed(codecs), metavar="CODECS", help=codecs_help)


def add_shards_argument(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Add the option for shards of new variables, as of `Choices`."""
    parser.add_argument(
        "--shards",
        type=typed(lengths),
        default={},
        metavar="NAME=N,...",
        help="lengths of shards along dimensions, for zarr3: each is one object with several "
        f"chunks (default: {default})",
    )


def target(request: CommandLine) -> NewNode:
    """Return the dataset that the arguments of a target describe."""
    new = new_node(request.arguments.url, request.arguments, request.settings)
    _ = new.metadata_format  # reports at once that the URL is invalid
    return new


def new_node(url: str, arguments: argparse.Namespace, settings: Settings) -> NewNode:
    """Describe what is to be made at a URL, from the options of a command."""
    from nczfs.tools.transfer.target import NewNode

    return NewNode(
        place(url, settings),
        format=arguments.format,
        consolidated=arguments.consolidated,
        overwrite=arguments.overwrite,
        memory_limit_bytes=memory_limit(settings),
        store_options=store_options(settings),
        engine_options=engine_options(settings),
    )


def write(source: Source, new: NewNode, choices: Choices) -> None:
    """Make a dataset from a source, with a bar on a terminal."""
    from nczfs.cli.memory import share_one_heap
    from nczfs.tools.transfer.choices import chosen
    from nczfs.tools.transfer.dataset_target import write_dataset
    from nczfs.zmap.registry import missing_paths

    chosen_source = chosen(source, choices)

    def tell_of_the_rest() -> None:
        tell(f"{new.name}: stopped; --overwrite removes what was written")

    made = missing_paths(new.place)[:-1]
    share_one_heap()
    with progress_bar(source.nbytes, "B") as progress, interrupts.deferred(tell_of_the_rest):
        try:
            variables = write_dataset(chosen_source, new, tell, progress)
        except ObjectExists as error:
            raise ObjectExists(f"{error}; --overwrite replaces the dataset") from error
        if made:
            tell(f"{made[-1]}: did not exist, and was made")
        chains = [variable.array.codecs for variable in variables.values()]
        is_compressed = any(chain.zarr_format == 2 and chain.codecs for chain in chains)
        if choices.codecs is None and is_compressed and new.place.kind == "file":
            tell(READ_WRONGLY)


def cdl_source_of(path: Path) -> Source:
    """Open a CDL text."""
    from nczfs.tools.transfer.cdl_source import cdl_source

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NoContent(f"{path}: no such file") from None
    except OSError as error:
        raise AccessDenied(f"{path}: {error.strerror}") from None
    return cdl_source(data.decode("utf-8", "surrogateescape"), str(path))


def memory_limit(settings: Settings) -> int:
    """Return the memory that values on their way may take."""
    return settings.maybe_number("memory-limit") or default_memory_limit()
