"""What others call: pictures of variables and groups, as PNG.

Every function may be called from any thread, but not from one of the engine's pools.
"""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from nczfs.engine.arrays.selection import Selection
from nczfs.engine.dataset import Dataset
from nczfs.errors import UsageError
from nczfs.messages import installing
from nczfs.model.hierarchy import Variable
from nczfs.pictures.limits import PREVIEW, PictureLimits

if TYPE_CHECKING:
    from nczfs.pictures.scene import Drawable

PREVIEW_BYTES: Final = 256 << 10
"""The size of every preview: its pixels at one byte each, and room for the rest of the file."""


_IMPORTING: Final = threading.Lock()
_MAKING: Final = threading.BoundedSemaphore(4)
"""So many pictures read chunks at a time, so that a file manager's visit takes bounded memory."""


def is_available() -> bool:
    """Return whether the libraries that draw are installed. Does not import them."""
    return all(find_spec(name) is not None for name in ("matplotlib", "PIL", "cftime"))


def require() -> None:
    """Raise UsageError, with the remedy, if the libraries that draw are not installed."""
    if not is_available():
        raise UsageError(f"pictures need the extra `plot`: {installing('plot')}")


def variable_picture(
    dataset: Dataset,
    variable: Variable,
    limits: PictureLimits = PREVIEW,
    selection: Selection | None = None,
    fresh_since: float = 0.0,
) -> bytes:
    """Return a picture of a variable: a map, a line, the first step of more dimensions, or words.

    Parameters
    ----------
    selection : a part of the variable, as `engine.arrays.selection.select` makes it of integers and
        slices; None: all of it.
    fresh_since : chunks that were last confirmed before that time are confirmed again.

    Returns
    -------
    a PNG of ``limits.width`` by ``limits.height`` pixels. That of the same values is the same.

    Raises
    ------
    UsageError : the libraries are not installed. CodecError, MissingChunk, StoreError : the values
        cannot be read. MetadataError : the variable has more dimensions than NumPy has.
    """
    require()
    composing = import_module("nczfs.pictures.composing")  # imported when first used: 0.5 s
    with _MAKING:
        scene: Drawable = composing.variable_scene(
            dataset, variable, limits, selection, fresh_since
        )
    return _drawn(scene, limits)


def group_picture(
    dataset: Dataset, path: str, limits: PictureLimits = PREVIEW, fresh_since: float = 0.0
) -> bytes:
    """Return a picture of a group: the first of its variables as small pictures.

    Raises
    ------
    UsageError, NoSuchNode, MetadataError, StoreError. A variable that cannot be read is shown by
    the words of its error.
    """
    require()
    tiles = import_module("nczfs.pictures.tiles")
    with _MAKING:
        scene: Drawable = tiles.group_scene(dataset, path, limits, fresh_since)
    return _drawn(scene, limits)


def preview(png: bytes) -> bytes:
    """Return a picture of `PREVIEW`'s pixels as a file of exactly `PREVIEW_BYTES`."""
    png_files = import_module("nczfs.pictures.png")
    small: bytes = png_files.bounded(png, PREVIEW_BYTES - 12)
    padded: bytes = png_files.padded(small, PREVIEW_BYTES)
    return padded


def _drawn(scene: Drawable, limits: PictureLimits) -> bytes:
    with _IMPORTING:
        import_module("nczfs.pictures.fonts").load()
        drawing = import_module("nczfs.pictures.drawing")
    png: bytes = drawing.drawn(scene, limits.width, limits.height)
    return png
