"""The virtual files and directories of a group or variable, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final

from nczfs.engine.arrays.dependents import overlap_of
from nczfs.library.resolved import At, Broken
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.vfs.datasets.attributes import AttributesDirectory
from nczfs.vfs.datasets.choice import Choice
from nczfs.vfs.datasets.hierarchyfile import HierarchyFile
from nczfs.vfs.datasets.leaves import ChunksDirectory, broken_info, info_file, view_file
from nczfs.vfs.datasets.netcdffile import NetcdfFile
from nczfs.vfs.datasets.netcdfversions import NODES_MAX, NetcdfSource, netcdf_source
from nczfs.vfs.datasets.previewfile import PreviewFile
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import TreeNode
from nczfs.vfs.objects import is_file_name
from nczfs.views import catalog
from nczfs.views.base import View
from nczfs.views.catalog import ATTRIBUTES, INFO, LINES, PREVIEW, RAW, ZOM
from nczfs.views.netcdf.kinds import NETCDF_SUFFIXES
from nczfs.views.netcdf.surroundings import variable_group
from nczfs.views.netcdf.types import fault_of
from nczfs.zmap.keys import Prefix
from nczfs.zmap.url import ARCHIVE_SUFFIXES

DATASET_SUFFIXES: Final = (".zarr", ".nczarr", ".file")
"""Of the names that directories of datasets usually have."""


def node_files(
    context: ViewContext, resolved: Broken | At, name: str
) -> Mapping[str, Callable[[], TreeNode]]:
    """Return a maker for each file of a node; the names of a group's files contain `name`."""
    if isinstance(resolved, Broken):
        problem = resolved
        return {INFO: lambda: broken_info(context, problem)}
    at, node = resolved, resolved.loaded.node
    # First, because programs copy in the order of the listing: then values find their variable.
    files: dict[str, Callable[[], TreeNode]] = {INFO: lambda: info_file(context, at, views[INFO])}
    opened = at.dataset.open_node(at.path)
    sources = list(_netcdf_sources(context, at, stem(name)))

    def notes() -> tuple[str, ...]:
        refused = context.refusals.of(opened.prefix)
        if isinstance(node, Variable):
            return (*refused, *_netcdf_faults(context, node, stem(name)))
        netcdf = (s for s in sources if s.form.kind.suffix in NETCDF_SUFFIXES)
        omitted = map(context.netcdf.omitted, netcdf)
        lacking = context.hierarchies.problems(at.dataset, opened)
        return (*refused, *chain.from_iterable(omitted), *lacking)

    if isinstance(node, GroupHeader):
        views = catalog.group_views(at.dataset, node, stem(name), notes)
    else:
        views = catalog.variable_views(at.dataset, node, notes)
        variable = node
        if catalog.has_chunks(node):
            files[catalog.CHUNKS] = lambda: ChunksDirectory(context, at, variable)
    files[catalog.ATTRIBUTES] = lambda: AttributesDirectory(context, at)
    for file_name, view in views.items():
        if file_name != INFO:
            files[file_name] = _maker(context, at, file_name, view)
    for source in sources:
        files[source.place.name] = _netcdf_maker(context, at, source)
    if context.has_previews:
        files[PREVIEW] = lambda: PreviewFile(context, at)
    if isinstance(node, GroupHeader):
        # Last: a program that copies files one by one has been refused others before.
        files[ZOM] = lambda: HierarchyFile(context, at, opened)
    return files


def shown_files(
    tree: DatasetsTree, resolved: Broken | At, prefix: Prefix, name: str
) -> Mapping[str, Callable[[], TreeNode]]:
    """Return a maker for each file of a node that a mount shows, and that was not removed."""
    files = node_files(tree.context, resolved, name)
    if isinstance(resolved, At) and not tree.choice.has_all:
        files = {each: files[each] for each in files if _is_chosen(tree.choice, resolved, each)}
    if tree.removing is None:
        return files
    return {each: files[each] for each in tree.removing.hidden.left(prefix, files)}


def listed_names(choice: Choice, files: Iterable[str], *, is_empty: bool) -> set[str]:
    """Return which files of a node a listing has; an empty group lacks those with its content."""
    listed = filter(choice.lists, files)
    return {name for name in listed if not (is_empty and catalog.shows_content(name))}


def _is_chosen(choice: Choice, at: At, name: str) -> bool:
    """Return whether a mount shows a file of a node.

    Copies need neither the attributes of a dependent array, which its primary declares, nor values
    that lie in the chunks of another array.
    """
    node = at.loaded.node
    if choice.has(name) or not (isinstance(node, Variable) and node.is_dependent):
        return choice.shows(node, name)
    if name in (RAW, LINES):
        return choice.shows(node, name) and overlap_of(at.dataset.node, node) is None
    return choice.shows(node, name) and name != ATTRIBUTES


def shown_dependents(node: GroupHeader | Variable, stem: str) -> Mapping[str, str]:
    """Return the names of the arrays that a variable declares, by the names of their directories.

    A directory that would have the name of a virtual file has as many ``~`` at its end as needed.
    """
    if not isinstance(node, Variable) or not node.dependents:
        return {}
    reserved = catalog.reserved_variable_names(stem)
    names = {each.name for each in node.dependents if is_file_name(each.name)}
    found = {name: name for name in names - reserved}
    for name in sorted(names & reserved):
        shown = f"{name}~"
        while shown in found:
            shown += "~"
        found[shown] = name
    return found


def stem(name: str) -> str:
    """Return the stem of a group's file names: its name without the suffixes of stores."""
    for suffix in (*ARCHIVE_SUFFIXES, *DATASET_SUFFIXES) * 4:
        if name.endswith(suffix) and len(name) > len(suffix):
            name = name.removesuffix(suffix)
    return name


def _maker(context: ViewContext, at: At, name: str, view: View) -> Callable[[], TreeNode]:
    return lambda: view_file(context, at, name, view)


def _netcdf_sources(context: ViewContext, at: At, stem: str) -> Iterator[NetcdfSource]:
    """Yield the sources of the netCDF files of a node."""
    dataset, node = at.dataset, at.loaded.node
    for form in context.netcdf.formats:
        if isinstance(node, Variable):
            if form.is_of_variables and fault_of(node, form.kind) is None:
                yield netcdf_source(
                    dataset,
                    at.path,
                    stem,
                    form,
                    lambda path: variable_group(dataset, path),
                    is_of_group=False,
                )
        elif form.kind.has_groups or not _has_groups_alone(node):
            group = partial(dataset.group, nodes_max=NODES_MAX)
            yield netcdf_source(dataset, at.path, stem, form, group, is_of_group=True)


def _netcdf_faults(context: ViewContext, variable: Variable, stem: str) -> Iterator[str]:
    """Yield a line for each netCDF file that cannot be made of a variable."""
    for form in context.netcdf.formats:
        fault = fault_of(variable, form.kind) if form.is_of_variables else None
        if fault is not None:
            yield f"{stem}{form.kind.suffix}: {fault}"


def _has_groups_alone(header: GroupHeader) -> bool:
    """Return whether the metadata of a group say that it has nothing but groups."""
    return header.arrays == () and not (header.attributes or header.dimensions)


def _netcdf_maker(context: ViewContext, at: At, source: NetcdfSource) -> Callable[[], TreeNode]:
    return lambda: NetcdfFile(context, source, context.mtime_ns_of(at.loaded))
