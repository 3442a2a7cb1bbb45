"""The dataset at a place."""

from __future__ import annotations

from collections import deque

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong
from nczfs.engine.metadata.copies import consolidated_of
from nczfs.library.api import OpenDataset
from nczfs.messages import counted, shown, size_text
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen

GROUPS_MAX = 200
VARIABLES_MAX = 2000
CHUNK_SHARE = 0.25  # of the memory: a program that reads along a row needs several chunks


@frozen
class Survey:
    """What was seen of a dataset.

    Attributes
    ----------
    variables : at most `VARIABLES_MAX`.
    groups : how many were seen, of which `GROUPS_MAX` at most were looked into.
    is_whole : whether that is everything.
    problems : of metadata, codecs and names, each with the path.
    """

    variables: tuple[Variable, ...]
    groups: int
    is_whole: bool
    problems: tuple[str, ...]


def survey(dataset: OpenDataset) -> Survey:
    """Look through the groups of a dataset, from the outermost inwards, but not endlessly.

    Raises
    ------
    StoreError, MetadataError : the root cannot be read.
    """
    engine = dataset.engine_dataset
    variables: list[Variable] = []
    problems: list[str] = []
    waiting, seen, looked = deque([""]), 0, 0
    while waiting and looked < GROUPS_MAX and len(variables) < VARIABLES_MAX:
        path = waiting.popleft()
        looked += 1
        nodes, broken = engine.members(path)
        problems += (f"{shown(f'{path}/{name}')}: {why}" for name, why in broken)
        for node in nodes:
            if isinstance(node, Variable):
                variables.append(node)
                problems += (f"/{node.path}: {why}" for why in engine.problems(node))
            else:
                seen += 1
                problems += (f"/{node.path}: {why}" for why in node.problems)
                waiting.append(node.path)
    problems = [*dataset.problems, *problems]
    return Survey(tuple(variables), seen, not waiting, tuple(dict.fromkeys(problems)))


def kind(dataset: OpenDataset, found: Survey) -> CheckResult:
    """Say what the dataset is."""
    parts = [counted(len(found.variables), "variable")]
    if found.groups:
        parts.append(counted(found.groups, "group"))
    more = "" if found.is_whole else "at least "
    return well(f"{dataset.engine_dataset.format.name} with {more}{' and '.join(parts)}")


def soundness(found: Survey) -> CheckResult:
    """Check that metadata can be read and codecs are there."""
    if not found.problems:
        return well("metadata can be read, and codecs are there")
    more = len(found.problems) - 1
    return doubtful(
        f"{found.problems[0]}{f' (and {more} more)' if more else ''}",
        "`nczfs info URL/PATH` shows the problems of a node, `nczfs verify URL` all of them",
    )


def largest_chunk(found: Survey, memory_bytes: int) -> CheckResult:
    """Compare the largest chunk with the memory for caches."""
    if not found.variables:
        return well("there is no variable")
    largest = max(found.variables, key=lambda variable: variable.array.chunk_bytes)
    size = largest.array.chunk_bytes
    text = f"{size_text(size)} (/{largest.path}), of {size_text(memory_bytes)} for caches"
    remedy = f"--memory-limit {size_text(4 * size)}, or smaller chunks: `nczfs cp --chunks NAME=N`"
    if size > memory_bytes:
        return wrong(f"{text}: it is decoded again for each read", remedy)
    if size > CHUNK_SHARE * memory_bytes:
        return doubtful(f"{text}: few of them stay in memory", remedy)
    return well(text)


def consolidation(dataset: OpenDataset, found: Survey) -> CheckResult:
    """Say whether opening takes one request or many."""
    engine = dataset.engine_dataset
    form = engine.format.copy
    stale = engine.stale()
    if stale:
        return doubtful(
            f"consolidated metadata ({form.key if form else ''}) are stale:"
            f" {counted(len(stale), 'document')} differ",
            "consolidate again; nczfs itself reads the single documents here",
        )
    has_copy = form is not None and consolidated_of(engine.documents(), form) is not None
    if has_copy or engine.format is not engine.format.single:
        return well("yes: a dataset is opened with one request")
    nodes = len(found.variables) + found.groups
    if engine.zmap.features.near or nodes == 0:
        return well("no, and not needed here")
    return doubtful(
        f"no: all of {counted(nodes, 'node')} are asked for their documents",
        "`nczfs cp --consolidated`, or consolidate_metadata of zarr-python",
    )
