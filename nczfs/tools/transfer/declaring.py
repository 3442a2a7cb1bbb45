"""Making the groups, dimensions and variables of a source, first as a rehearsal in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias
from uuid import uuid4

from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.editor import Editor
from nczfs.errors import DatasetError, MetadataError, UsageError
from nczfs.formats.names import below
from nczfs.library.opening import open_url
from nczfs.model.declaration import GroupDeclaration
from nczfs.model.hierarchy import Variable
from nczfs.tools.transfer.source import groups_of

NewVariables: TypeAlias = dict[str, Variable]
"""New variables, by their paths in the source."""

_MODES = frozenset({"zarr", "xarray", "noxarray"})


def declare(editor: Editor, root: GroupDeclaration, base: str = "") -> NewVariables:
    """Make what a declaration has, in the group at `base`. Returns variables by path."""
    variables: NewVariables = {}
    for path, declared in groups_of(root):
        place = "/".join(part for part in (base, path) if part)
        if path:
            editor.create_group(place)
        editor.set_attributes(place, declared.attributes)
        editor.create_dimensions(place, declared.dimensions)
        for variable in declared.variables:
            variables[below(path, variable.name)] = editor.create_variable(place, variable)
    return variables


def rehearsed(
    name: str,
    modes: Collection[str],
    options: EngineOptions,
    format_name: str | None,
    make: Callable[[Editor], NewVariables],
    needs_codecs: Callable[[str, Variable], bool] = lambda *_: True,
) -> NewVariables:
    """Make everything but the values in memory, as a rehearsal.

    This finds what a format cannot hold before anything is deleted or written.

    Parameters
    ----------
    name : of the source, for messages.
    modes : of the URL of the target.
    format_name : as for `open_url`.
    needs_codecs : returns whether values of the variable at a path will be encoded.

    Raises
    ------
    Unsupported, UsageError, BadMetadata : it cannot be made; the message names the source.
    """
    kept = "&".join(sorted(_MODES.intersection(modes)))
    dataset = open_url(f"memory://{uuid4().hex}#{kept}", "x", format=format_name, options=options)
    try:
        variables = make(dataset.editor)
        for path, variable in variables.items():
            if needs_codecs(path, variable):
                for problem in dataset.engine_dataset.problems(variable):
                    raise UsageError(f"/{path}: {problem}")
        dataset.sync()
    except (MetadataError, DatasetError, UsageError) as error:
        raise type(error)(f"{name}: {error}") from error
    finally:
        dataset.discard()
    return variables
