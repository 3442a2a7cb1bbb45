"""Copies in two passes, through an intermediate dataset whose chunks suit both sides.

Where chunks of source and copy cross each other, each piece of the copy touches many chunks of the
source, which are decoded again for each piece. The more often, the less memory there is. Through an
intermediate dataset each value is decoded about twice and encoded twice: its chunks are the common
part of what a piece can read of the source at once, and of what a piece of the copy needs (as in
Rechunker).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from math import gcd, prod
from typing import TypeAlias

from nczfs.engine.dataset import Dataset
from nczfs.errors import NoContent, NotADataset
from nczfs.library.opening import open_url
from nczfs.library.variable import Variable as LibraryVariable
from nczfs.messages import size_text
from nczfs.model.hierarchy import Dimension, Variable
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.blocks import BlockSize, block_shape
from nczfs.tools.transfer.chunk_copy import ChunkCopier
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.copy_pieces import CopyPiece, chunk_pair
from nczfs.tools.transfer.dataset_target import target_block_size
from nczfs.tools.transfer.source import Notice
from nczfs.tools.transfer.target import NewNode, Target, opened_target
from nczfs.tools.transfer.unfinished import Mark
from nczfs.zmap.registry import remove_made
from nczfs.zmap.url import parse_url

CHUNK_BYTES_MAX = 256 << 20
"""Of the intermediate dataset."""

TIMES_WORTH_TELLING = 4
"""If chunks of the source are decoded more often, the user is told of a better way."""

_VARIABLE = "values"

Spread: TypeAlias = Callable[[Target, Iterator[CopyPiece]], None]
"""Does the pieces of a copy in other processes. Raises if one of them could not be done."""

Between: TypeAlias = Callable[[NewNode | None, NewNode, str, Progress], Spread]
"""Makes what does the pieces between two datasets in other processes.

The arguments are the source, where None is that of the whole copy, the target, its format, and what
takes the bytes that are done.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where intermediate datasets are made.

    Attributes
    ----------
    new : the directory for them, with the memory limit of a piece.
    between : None: the pieces are done in this process.
    """

    new: NewNode
    between: Between | None = None


@dataclass(frozen=True, slots=True)
class Passes:
    """How a variable is copied in two passes.

    Attributes
    ----------
    times : how often a chunk of the source would be decoded in one pass.
    chunks : of the intermediate dataset.
    nbytes : that it takes at most, before compression.
    """

    times: float
    chunks: tuple[int, ...]
    nbytes: int


def two_passes(pair: ChunkPair, memory_limit_bytes: int) -> Passes | None:
    """Return how a variable is better copied in two passes; None: one is as good."""
    one, other = pair.source.array, pair.target.array
    shape = one.shape
    if pair.keeps_bytes or one.cuts or other.cuts or one.dtype.vlen is not None or not prod(shape):
        return None
    size = target_block_size(pair.target, memory_limit_bytes)
    unit, wish = other.units.chunk_shape, one.chunk_shape
    times = times_touched(shape, wish, block_shape(shape, unit, wish, size))
    item_bytes = max(1, one.dtype.native.itemsize)
    least = BlockSize(1, max(1, min(size.most, CHUNK_BYTES_MAX // item_bytes)))
    most_read = block_shape(shape, wish, unit, least)
    most_written = block_shape(shape, unit, wish, least)
    chunks = tuple(map(min, most_read, most_written))
    first = times_touched(shape, wish, block_shape(shape, chunks, wish, size))
    second = times_touched(shape, chunks, block_shape(shape, unit, chunks, size))
    if times <= first + second + 1:  # writing costs as well
        return None
    return Passes(times, chunks, prod(shape) * item_bytes)


def times_touched(shape: Sequence[int], chunk: Sequence[int], block: Sequence[int]) -> float:
    """Return how often a chunk is touched on average if an array is cut into blocks."""
    found = 1.0
    for length, c, b in zip(shape, chunk, block, strict=True):
        chunks, blocks = -(-length // c), -(-length // b)
        shared = (length - 1) // (c * b // gcd(c, b))  # boundaries of both
        found *= (chunks + blocks - 1 - shared) / chunks
    return found


class Intermediate:
    """Copies variables in two passes.

    Parameters
    ----------
    source : dataset of all variables.
    base : as for `ChunkCopier`.
    """

    def __init__(
        self, place: Place, source: Dataset, base: str, notice: Notice, progress: Progress
    ) -> None:
        self._place = place
        self._source = source
        self._base = base
        self._notice = notice
        self._progress = progress

    def announce(self, pair: ChunkPair, passes: Passes) -> None:
        """Say what is going to be made, and how large it is."""
        self._notice(
            f"/{pair.path}: each chunk of the source would be decoded {passes.times:.0f} times;"
            f" so an intermediate dataset of up to {size_text(passes.nbytes)} is made in"
            f" {self._new(pair, passes).name}, and removed at the end"
        )

    def copy(self, pair: ChunkPair, passes: Passes, target: Target, goal: NewNode) -> None:
        """Copy a variable. An earlier run of the same copy is continued.

        Raises
        ------
        ObjectExists, PiecesFailed, CodecError, StoreError : the copy is unfinished; what was made
            stays for the next run.
        """

        def half(nbytes: float) -> None:
            self._progress(nbytes / 2)

        limit = goal.memory_limit_bytes
        if not target.is_new and self._is_done(pair, target, limit):
            self._progress(pair.content.nbytes)
            return
        new = self._new(pair, passes)
        self._fill(pair, passes, new, half, resumes=not target.is_new)
        with closing(open_url(new.url, store_options=new.store_options)) as dataset:
            found = dataset[_VARIABLE]
            assert isinstance(found, LibraryVariable)
            between = chunk_pair(pair.path, found, pair.target)
            copier = ChunkCopier(dataset.engine_dataset, "", target, [between], limit, half)
            if self._place.between is None:
                copier.run()
            else:
                spread = self._place.between(new, goal, pair.target.format, half)
                spread(target, copier.pieces())
        _remove(new)

    def _is_done(self, pair: ChunkPair, target: Target, limit: int) -> bool:
        """Return whether an earlier run has stored the whole variable."""
        copier = ChunkCopier(self._source, self._base, target, [pair], limit, lambda _: None)
        return next(copier.pieces(), None) is None

    def _new(self, pair: ChunkPair, passes: Passes) -> NewNode:
        """Return the intermediate dataset of a variable, whose name has a digest of the plan."""
        parts = [self._source.url(""), pair.path, repr(pair.source.array), repr(passes.chunks)]
        text = "\0".join(parts).encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(text, digest_size=8).hexdigest()
        front, sign, fragment = self._place.new.url.partition("#")
        url = f"{front.rstrip('/')}/nczfs-intermediate-{digest}{sign}{fragment}"
        return replace(self._place.new, url=url, path="", format=pair.source.format)

    def _fill(
        self, pair: ChunkPair, passes: Passes, new: NewNode, progress: Progress, *, resumes: bool
    ) -> None:
        """Make the intermediate dataset, unless an earlier run has."""
        if resumes and _is_whole(new):
            progress(pair.content.nbytes)
            return
        if not resumes:
            new = replace(new, overwrite=True)  # the source may have changed since
        mark = Mark("cp", parse_url(new.url).last_word)
        with opened_target(new, mark, self._notice, ["", _VARIABLE]) as middle:
            variable = middle.editor.add_variable(_described(pair.source, passes, new, middle))
            one = ChunkPair(pair.path, pair.source, variable, pair.content)
            limit = new.memory_limit_bytes
            copier = ChunkCopier(self._source, self._base, middle, [one], limit, progress)
            if self._place.between is None:
                copier.run()
            else:
                spread = self._place.between(None, new, variable.format, progress)
                spread(middle, copier.pieces())


def _described(source: Variable, passes: Passes, new: NewNode, middle: Target) -> Variable:
    """Return the variable of an intermediate dataset: the source's, with other chunks."""
    metadata_format = new.metadata_format
    array = replace(
        source.array,
        chunk_shape=passes.chunks,
        shards=(),
        chunk_keys=metadata_format.chunk_keys(None),
    )
    dimensions = [Dimension(f"d{d}", n) for d, n in zip(count(), array.shape, strict=False)]
    if metadata_format.declares:
        dimensions = [middle.editor.add_dimension(each) for each in dimensions]
    return Variable(_VARIABLE, _VARIABLE, metadata_format.name, array, tuple(dimensions))


def _is_whole(new: NewNode) -> bool:
    try:
        open_url(new.url, store_options=new.store_options).close()
    except (NoContent, NotADataset):
        return False
    return True


def _remove(new: NewNode) -> None:
    """Remove an intermediate dataset, with its directory."""
    with closing(open_url(new.url, "r+", store_options=new.store_options)) as dataset:
        dataset.editor.remove("")
    if path := parse_url(new.url).path:
        remove_made([path])
