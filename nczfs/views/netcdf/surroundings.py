"""A variable and what describes it, read from a dataset without reading its whole group."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.dataset import Dataset
from nczfs.errors import MetadataError, NoSuchNode, NotADataset
from nczfs.formats.names import below, parent_of, split_path
from nczfs.model.hierarchy import Group, GroupHeader, Variable
from nczfs.views.netcdf.coordinates import names_beside, with_coordinates

LOOKED_AT_MAX = 4096


def variable_group(dataset: Dataset, path: str) -> Group:
    """Return the group that the netCDF file of a variable shows, as `with_coordinates` does.

    Raises
    ------
    NoSuchNode, NotADataset : there is no variable. MetadataError, StoreError : it cannot be read.
    """
    variable = _variable(dataset, path)
    if variable.is_dependent:
        inside = path[len(variable.group) :].strip("/")
        variable = replace(variable, label=inside.replace("/", "."))
    places = [variable.group]
    while places[-1]:
        places.append(parent_of(places[-1]))
    found: dict[str, dict[str, Variable]] = {place: {} for place in places}
    found[places[0]][variable.name] = variable
    broken: dict[str, str] = {}
    looked_at: set[str] = set()
    waiting = [variable]
    while waiting:
        for name in names_beside(waiting.pop()):
            if name in looked_at or len(looked_at) >= LOOKED_AT_MAX:
                continue
            looked_at.add(name)
            try:
                beside = _nearest(dataset, places, name)
            except MetadataError as error:
                broken[name] = str(error)
                continue
            if beside is not None and beside.name not in found[parent_of(beside.path)]:
                found[parent_of(beside.path)][beside.name] = beside
                waiting.append(beside)
    groups = [
        Group(_header(dataset, place, variable), (), tuple(found[place].values()))
        for place in places
    ]
    return replace(with_coordinates(variable, groups), broken=tuple(broken.items()))


def _variable(dataset: Dataset, path: str) -> Variable:
    loaded = dataset.load(path)
    if loaded is None:
        raise NoSuchNode(f"{dataset.url(path)}: no variable")
    if not isinstance(loaded.node, Variable):
        raise NotADataset(f"{dataset.url(path)}: is a group")
    return loaded.node


def _header(dataset: Dataset, path: str, variable: Variable) -> GroupHeader:
    loaded = dataset.load(path)
    node = None if loaded is None else loaded.node
    # A variable that is a dataset by itself has no group.
    return node if isinstance(node, GroupHeader) else GroupHeader(path, variable.format)


def _nearest(dataset: Dataset, places: list[str], name: str) -> Variable | None:
    """Return the variable of a name in the first place that has it, or that of a full name."""
    if name.startswith("/"):
        place = split_path(name)
        if place is None or place[0] not in places:
            return None
        places, name = [place[0]], place[1]
    if "/" in name:
        return None
    for place_path in places:
        path = below(place_path, name)
        if dataset.is_known_absent(path):
            continue
        loaded = dataset.load(path)
        if loaded is not None:
            return loaded.node if isinstance(loaded.node, Variable) else None
    return None
