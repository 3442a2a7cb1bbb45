"""Copies in two passes, through an intermediate dataset whose chunks suit both sides.

Where chunks of source and copy cross each other, each piece of the copy touches many chunks of the
source, which are decoded again for each piece. The more often, the less memory there is. Through an
intermediate dataset each value is decoded about twice and encoded twice: its chunks are the common
part of what a piece can read of the source at once, and of what a piece of the copy needs (as in
Rechunker).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from math import prod
from typing import TypeAlias

from nczfs.engine.dataset import Dataset
from nczfs.engine.stores import open_store
from nczfs.errors import Conflict, NoContent, NotADataset, ObjectExists
from nczfs.library.opening import open_url
from nczfs.library.variable import Variable as LibraryVariable
from nczfs.messages import size_text
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension, Variable
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.blocks import BlockSize, block_shape
from nczfs.tools.transfer.chunk_copy import ChunkCopier
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.copy_pieces import CopyPiece, chunk_pair
from nczfs.tools.transfer.dataset_target import target_block_size
from nczfs.tools.transfer.listed import listed_units
from nczfs.tools.transfer.sharing import times_touched
from nczfs.tools.transfer.source import Notice
from nczfs.tools.transfer.survey import made_of, survey
from nczfs.tools.transfer.target import NewNode, Target, opened_target
from nczfs.tools.transfer.unfinished import Mark, MarkedPlace
from nczfs.zmap.keys import ROOT
from nczfs.zmap.registry import remove_made
from nczfs.zmap.url import parse_url

CHUNK_BYTES_MAX = 256 << 20
"""Of the intermediate dataset."""

TIMES_WORTH_TELLING = 4
"""If chunks of the source are decoded more often, the user is told of a better way."""

_VARIABLE = "values"
_MADE_OF = "nczfs_made_of"

Spread: TypeAlias = Callable[[Target, Iterator[CopyPiece]], None]
"""Does the pieces of a copy in other processes. Raises if one of them could not be done."""

Between: TypeAlias = Callable[[NewNode | None, NewNode, str, Progress], Spread]
"""Makes what does the pieces between two datasets in other processes.

The arguments are the source, where None is that of the whole copy, the target, its format, and what
takes the bytes that are done.
"""


@frozen
class IntermediatePlace:
    """Where intermediate datasets are made.

    Attributes
    ----------
    new : the directory for them, with the memory limit of a piece.
    between : None: the pieces are done in this process.
    threads : of other processes, which do them.
    """

    new: NewNode
    between: Between | None = None
    threads: int = 1


@frozen
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


class Intermediate:
    """Copies variables in two passes.

    Parameters
    ----------
    source : dataset of all variables.
    base : as for `ChunkCopier`.
    goal : of the whole copy.
    """

    def __init__(
        self,
        place: IntermediatePlace,
        source: Dataset,
        base: str,
        goal: NewNode,
        notice: Notice,
        progress: Progress,
    ) -> None:
        self._place = place
        self._source = source
        self._base = base
        self._goal = goal
        self._notice = notice
        self._progress = progress

    def announce(self, pair: ChunkPair, passes: Passes) -> None:
        """Say what is going to be made, and how large it is."""
        self._notice(
            f"/{pair.path}: each chunk of the source would be decoded {passes.times:.0f} times;"
            f" so an intermediate dataset of up to {size_text(passes.nbytes)} is made in"
            f" {self._new(pair).name}, and removed at the end"
        )

    def copy(self, pair: ChunkPair, passes: Passes, target: Target) -> None:
        """Copy a variable. An earlier run of the same copy is continued.

        Raises
        ------
        Conflict : another process uses the intermediate dataset, or has removed chunks of it.
        PiecesFailed, CodecError, StoreError : the copy is unfinished; what was made stays for the
            next run.
        """

        def half(nbytes: float) -> None:
            self._progress(nbytes / 2)

        limit, threads = self._goal.memory_limit_bytes, self._place.threads
        if not target.is_new and self._is_done(pair, target, limit):
            self.remove(pair)
            self._progress(pair.content.nbytes)
            return
        new = self._new(pair)
        self._fill(pair, passes, new, half, resumes=not target.is_new)
        with closing(open_url(new.url, store_options=new.store_options)) as dataset:
            found = dataset[_VARIABLE]
            assert isinstance(found, LibraryVariable)
            between = chunk_pair(pair.path, found, pair.target)
            middle = dataset.engine_dataset
            survey(middle, "", [between], half)
            copier = ChunkCopier(middle, "", target, [between], limit, half, threads)
            if self._place.between is None:
                copier.run()
            else:
                spread = self._place.between(new, self._goal, pair.target.format, half)
                spread(target, copier.pieces())
            _check_kept(new.name, middle, between, target)
        self.remove(pair)

    def remove(self, pair: ChunkPair) -> None:
        """Remove what there is of the intermediate dataset of a variable, with its directory."""
        new = self._new(pair)
        try:
            dataset = open_url(new.url, "r+", store_options=new.store_options)
        except NoContent:
            return
        except NotADataset:
            _remove_unfinished(new)
        else:
            with closing(dataset):
                dataset.editor.remove("")
        if path := parse_url(new.url).path:
            remove_made([path])

    def _is_done(self, pair: ChunkPair, target: Target, limit: int) -> bool:
        """Return whether an earlier run has stored the whole variable."""
        copier = ChunkCopier(self._source, self._base, target, [pair], limit, lambda _: None)
        return next(copier.pieces(), None) is None

    def _new(self, pair: ChunkPair) -> NewNode:
        """Return the intermediate dataset of a variable, of which each copy has its own."""
        digest = _digest(self._source.url(""), pair.path, self._goal.name)
        front, sign, fragment = self._place.new.url.partition("#")
        url = f"{front.rstrip('/')}/nczfs-intermediate-{digest}{sign}{fragment}"
        return replace(self._place.new, url=url, path="", format=pair.source.format)

    def _fill(
        self, pair: ChunkPair, passes: Passes, new: NewNode, progress: Progress, *, resumes: bool
    ) -> None:
        """Make the intermediate dataset, unless an earlier run has."""
        if resumes and self._is_whole(pair, passes, new):
            progress(pair.content.nbytes)
            return
        new = replace(new, overwrite=True)
        mark = Mark("cp", _digest(repr(pair.source.array), repr(passes.chunks), *made_of([pair])))
        try:
            with opened_target(new, mark, self._notice, ["", _VARIABLE]) as middle:
                variable = middle.editor.add_variable(_described(pair, passes, new, middle))
                one = _aimed(pair, variable)
                limit, threads = new.memory_limit_bytes, self._place.threads
                copier = ChunkCopier(
                    self._source, self._base, middle, [one], limit, progress, threads
                )
                if self._place.between is None:
                    copier.run()
                else:
                    spread = self._place.between(None, new, variable.format, progress)
                    spread(middle, copier.pieces())
        except ObjectExists as error:
            raise Conflict(f"{error}; end that, or name another place (--intermediate)") from error

    def _is_whole(self, pair: ChunkPair, passes: Passes, new: NewNode) -> bool:
        """Return whether an earlier run has made the same, and the source is what it was then."""
        try:
            dataset = open_url(new.url, store_options=new.store_options)
        except (NoContent, NotADataset):
            return False
        with closing(dataset):
            found = dataset.variables.get(_VARIABLE)
            if found is None:  # it was being removed
                return False
            one = _aimed(pair, found.description)
            array = found.description.array
            is_same = (array.shape, array.chunk_shape) == (pair.source.array.shape, passes.chunks)
            is_same &= found.attrs.get(_MADE_OF) == made_of([pair])[0]
            return is_same and one.keeps_holes and self._is_fresh(one, dataset.engine_dataset)

    def _is_fresh(self, one: ChunkPair, middle: Dataset) -> bool:
        """Return whether the source has no chunk that is newer than one made of it.

        Chunks of fill alone are never stored, so missing ones say nothing.
        """
        count = 0
        for _, _, stat in listed_units(middle, "", {one.path: one.target}):
            self._progress(0)
            count += 1
            if stat.mtime_ns and stat.mtime_ns < one.newest_ns:
                return False
        return count > 0 or not one.newest_ns


def _check_kept(name: str, middle: Dataset, between: ChunkPair, target: Target) -> None:
    """Check that no chunk was removed while the second pass read them, as it takes these for fill.

    Otherwise what it has stored is removed, because no later run could tell that it is wrong.

    Raises
    ------
    Conflict : chunks were removed.
    """
    if between.stored is None:
        return
    listed = listed_units(middle, "", {between.path: between.source})
    if sum(1 for _ in listed) == sum(1 for _ in between.stored):
        return
    made = listed_units(target.dataset, target.path, {between.path: between.target})
    target.dataset.zmap.delete_many([stat.key for _, _, stat in made])
    raise Conflict(f"{name}: another program removed chunks of it, which were being copied")


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _aimed(pair: ChunkPair, target: Variable) -> ChunkPair:
    """Return a pair with another target."""
    return replace(pair, target=target, done=None)


def _described(pair: ChunkPair, passes: Passes, new: NewNode, middle: Target) -> Variable:
    """Return the variable of an intermediate dataset: the source's, with other chunks.

    An attribute tells of which chunks of the source it is made.
    """
    source = pair.source
    metadata_format = new.metadata_format
    array = replace(
        source.array,
        chunk_shape=passes.chunks,
        shards=(),
        chunk_keys=metadata_format.chunk_keys(None),
    )
    dimensions = [Dimension(f"d{d}", n) for d, n in zip(count(), array.shape, strict=False)]
    if metadata_format.declares:
        dimensions = middle.editor.add_dimensions("", dimensions)
    attributes = (Attribute(_MADE_OF, NcType.CHAR, made_of([pair])[0]),)
    return Variable(
        _VARIABLE, _VARIABLE, metadata_format.name, array, tuple(dimensions), attributes
    )


def _remove_unfinished(new: NewNode) -> None:
    """Remove what an interrupted first pass left."""
    store = open_store(new.place, new.store_options)
    with closing(store):
        place = MarkedPlace(store, ROOT)
        if place.look() is not None:
            place.check_left()
            place.clear()
