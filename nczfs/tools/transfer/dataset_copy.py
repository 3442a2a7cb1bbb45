"""Copying a dataset, a group or a variable into a dataset, chunk by chunk.

Variables with unchanged type, chunks, codecs and fill value are copied as stored bytes; the others
are decoded and encoded. The mark of the target has a digest of the plan: a later run with the same
plan continues an interrupted one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nczfs.errors import UsageError
from nczfs.formats.base import MetadataFormat
from nczfs.library.api import Group
from nczfs.library.variable import Variable
from nczfs.messages import size_text
from nczfs.model import hierarchy as model
from nczfs.model.declaration import VariableDeclaration
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.choices import Choices, chosen
from nczfs.tools.transfer.chunk_copy import ChunkCopier
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.copied_nodes import NodeCopier, is_cell
from nczfs.tools.transfer.copy_pieces import chunk_pair
from nczfs.tools.transfer.dataset_source import DatasetSource, content_of, dataset_source
from nczfs.tools.transfer.dataset_target import with_string_lengths
from nczfs.tools.transfer.declaring import NewVariables, rehearsed
from nczfs.tools.transfer.intermediate import (
    TIMES_WORTH_TELLING,
    Intermediate,
    IntermediatePlace,
    Passes,
    Spread,
    two_passes,
)
from nczfs.tools.transfer.source import Notice, groups_of, with_variables
from nczfs.tools.transfer.survey import drop_outdated, survey
from nczfs.tools.transfer.target import NewNode, opened_target
from nczfs.tools.transfer.unfinished import Mark


@frozen
class Copy:
    """A copy to be made.

    Attributes
    ----------
    source : with the user's choices in its declarations.
    format : of the metadata of the target.
    nodes : makes the groups and variables.
    keeps_dependents : whether dependent arrays come along with the document that declares them.
    """

    source: DatasetSource
    new: NewNode
    format: MetadataFormat
    nodes: NodeCopier
    keeps_dependents: bool


def planned_copy(
    node: Group | Variable,
    name: str,
    new: NewNode,
    metadata_format: MetadataFormat,
    choices: Choices,
    notice: Notice,
    *,
    skip_unsupported: bool,
) -> Copy:
    """Plan the copy of a node of an open dataset.

    Parameters
    ----------
    name : of the node, for messages.
    metadata_format : of the new dataset, or of the dataset that gets the new node.
    notice : takes lines about what is not carried over unchanged.
    skip_unsupported : leave out members that cannot be read, instead of raising an error.

    Raises
    ------
    BadMetadata : a member cannot be read. UsageError : a choice does not fit.
    """
    if choices.shards and metadata_format.new_shards(()) is None:
        raise UsageError(f"{new.name}: {metadata_format.name} has no shards; zarr3 has")
    dataset = node.engine_dataset
    declares = metadata_format.declares or dataset.format.single.declares
    is_same_format = metadata_format.name == dataset.format.single.name
    # Elsewhere they would be resolved anew, against something else.
    keeps_dependents = is_same_format and choices == Choices()
    source = dataset_source(
        node,
        name,
        notice,
        skip_unsupported=skip_unsupported,
        unique_dimensions=declares,
        keeps_dependents=keeps_dependents,
    )

    def fitted(path: str, declared: VariableDeclaration) -> VariableDeclaration:
        """Return the copy with the source's lengths of strings or codec of objects, if it fits."""
        array = source.variables[path].description.array
        if is_same_format and array.dtype.vlen is not None:
            codecs = array.codecs.codecs[:1] + (declared.codecs or ())
            return replace(declared, type=np.dtype(object), codecs=codecs, string_bytes=None)
        has_cells = metadata_format.declares or is_same_format
        if has_cells and is_cell(array.dtype) and declared.string_bytes is None:
            return replace(declared, string_bytes=array.dtype.item_size)
        return declared

    root = with_variables(chosen(source, choices).root, fitted)
    source = replace(source, root=root)
    if not new.path and isinstance(node, Group) and not source.base:
        form = dataset.format.copy
        has_copy = form is not None and dataset.documents().get(form.key) is not None
        new = replace(new, consolidated=new.consolidated or has_copy)
    nodes = NodeCopier(
        source,
        metadata_format,
        new.path,
        keeps_names=not declares,
        is_variable=isinstance(node, Variable),
        has_other_codecs=choices.codecs is not None,
    )
    return Copy(source, new, metadata_format, nodes, keeps_dependents)


def run_copy(
    copy: Copy,
    notice: Notice,
    progress: Progress,
    spread: Spread | None = None,
    place: IntermediatePlace | None = None,
    threads: int = 1,
) -> None:
    """Make a copy, or continue an interrupted one.

    Parameters
    ----------
    notice : takes a line if an incomplete copy could not be marked as such.
    progress : called with the bytes of the source that are done. If it raises, copying ends, and
        what was copied stays, marked as unfinished.
    spread : None: the pieces are done in this process.
    place : for intermediate datasets; None: all is copied in one pass.
    threads : of the processes that do the pieces.

    Raises
    ------
    Unsupported, UsageError : the format has no place for something; nothing was changed yet.
    ObjectExists : there is something other than an unfinished run of the same copy.
    BadValue, CodecError, StoreError : the copy is unfinished.
    """
    new, limit = copy.new, copy.new.memory_limit_bytes
    sized = with_string_lengths(copy.source, copy.format, limit, progress)
    nodes = copy.nodes.of(replace(copy.source, root=sized.root))
    source = nodes.source

    def is_decoded(path: str, variable: model.Variable) -> bool:
        return not chunk_pair(path, source.variables[path], variable).keeps_bytes

    modes, options = new.place.modes, new.engine_options
    wanted = rehearsed(source.name, modes, options, copy.format.name, nodes.rehearse, is_decoded)
    mark = Mark("cp", _digest(source, copy.format, wanted))
    with opened_target(new, mark, notice, list(nodes.paths())) as target:
        variables = nodes.make(target)
        pairs = [
            pair
            for path, variable in variables.items()
            for pair in _pairs(source, path, variable, copy.keeps_dependents)
        ]
        if pairs:
            first = next(iter(source.variables.values()))
            base = first.description.key if nodes.is_variable else source.base
            opened = first.engine_dataset
            decoded = [pair for pair in pairs if not pair.keeps_bytes]
            survey(opened, base, decoded if target.is_new else pairs, progress)
            if decoded:
                drop_outdated(target, decoded)
            passes = {each.path: two_passes(each, limit) for each in pairs}
            if place is None:
                for path, better in passes.items():
                    _tell_of_passes(path, better, notice)
                passes.clear()
            indirect = [(each, better) for each in pairs if (better := passes.get(each.path))]
            direct = [each for each in pairs if not passes.get(each.path)]
            intermediate = None
            if place is not None:
                intermediate = Intermediate(place, opened, base, new, notice, progress)
                for each, better in indirect:
                    intermediate.announce(each, better)
            copier = ChunkCopier(opened, base, target, direct, limit, progress, threads)
            if spread is None:
                copier.run()
            else:
                spread(target, copier.pieces())
            if intermediate is not None:
                for each in [] if target.is_new else direct:
                    intermediate.remove(each)  # of an earlier run with less memory
                for each, better in indirect:
                    intermediate.copy(each, better, target)


def _tell_of_passes(path: str, passes: Passes | None, notice: Notice) -> None:
    """Say what a copy in one pass costs, if another way is much better."""
    if passes is not None and passes.times >= TIMES_WORTH_TELLING:
        notice(
            f"/{path}: each chunk of the source is decoded {passes.times:.0f} times; with"
            f" --intermediate URL, which takes up to {size_text(passes.nbytes)} there, twice;"
            " more memory (--memory-limit) helps, too"
        )


def _pairs(
    source: DatasetSource, path: str, target: model.Variable, keeps_dependents: bool
) -> Iterator[ChunkPair]:
    """Yield the arrays of a variable to copy: itself, and those that it declares.

    The latter are never decoded: their descriptions, which follow from that of the variable, are
    the same in the target.
    """
    own = source.variables[path]
    yield chunk_pair(path, own, target)
    if not keeps_dependents:
        return
    waiting = [(f"{path}/{name}", each) for name, each in own.dependents.items()]
    while waiting:
        below_it, each = waiting.pop()
        node = each.description
        goal = replace(node, path=below_it, key=target.key)
        yield ChunkPair(below_it, node, goal, content_of(each))
        waiting += [(f"{below_it}/{name}", other) for name, other in each.dependents.items()]


def _digest(source: DatasetSource, metadata_format: MetadataFormat, wanted: NewVariables) -> str:
    """Return a digest that is equal for runs with the same source and result."""
    lines = [source.name, metadata_format.name]
    for path, group in groups_of(source.root):
        lines += [path, repr(group.attributes), repr(group.dimensions)]
    for path, variable in sorted(wanted.items()):
        lines += [path, repr(source.variables[path].description.array), repr(variable)]
    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()
