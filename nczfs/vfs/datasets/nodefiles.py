"""The virtual files and directories of a group or variable, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nczfs.library.resolved import At, Broken
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.vfs.datasets.attributes import AttributesDirectory
from nczfs.vfs.datasets.leaves import ChunksDirectory, broken_info, info_file, view_file
from nczfs.vfs.datasets.netcdffile import NetcdfFile
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import TreeNode
from nczfs.views import catalog
from nczfs.views.base import View
from nczfs.views.catalog import INFO
from nczfs.views.netcdf.surroundings import variable_group
from nczfs.views.netcdf.version import NetcdfFormat


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

    def notes() -> tuple[str, ...]:
        return context.refusals.of(opened.prefix)

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
    for form in context.netcdf.formats:
        if isinstance(node, GroupHeader) or (form.is_of_variables and _fits(node, form)):
            file_name = f"{stem(name)}{form.kind.suffix}"
            files[file_name] = _netcdf_maker(context, at, file_name, form)
    return files


def stem(name: str) -> str:
    """Return the stem of a group's file names: its name without the suffixes of stores."""
    for suffix in (".zip", ".zarr", ".nczarr", ".file") * 4:
        if name.endswith(suffix) and len(name) > len(suffix):
            name = name.removesuffix(suffix)
    return name


def _maker(context: ViewContext, at: At, name: str, view: View) -> Callable[[], TreeNode]:
    return lambda: view_file(context, at, name, view)


def _fits(variable: Variable, form: NetcdfFormat) -> bool:
    """Return whether a netCDF file can hold the values of a variable."""
    return (variable.array.decoded_bytes or 0) <= form.kind.values_bytes_max


def _netcdf_maker(
    context: ViewContext, at: At, name: str, form: NetcdfFormat
) -> Callable[[], TreeNode]:
    dataset = at.dataset
    if isinstance(at.loaded.node, GroupHeader):
        return lambda: NetcdfFile(context, at, name, form, dataset.group)
    return lambda: NetcdfFile(context, at, name, form, lambda path: variable_group(dataset, path))
