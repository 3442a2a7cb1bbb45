"""How much a picture may read, and how large it is."""

from __future__ import annotations

import sys

from nczfs.plaindata import frozen

MIB = 1 << 20


@frozen
class PictureLimits:
    """The bounds of one picture.

    Attributes
    ----------
    chunks : of all variables together that are read; at least 8.
    chunk_bytes : a variable with larger decoded chunks is described by words; such coordinates
        are not read.
    decoded_bytes : of the chunks of a variable and its coordinates together, beyond its first.
    width, height : in pixels, also the most elements that are drawn along each side.
    steps : dimensions beside the plane whose coordinates are read, one chunk each.
    tiles : variables that the picture of a group shows.
    members : names that are looked at for these.
    """

    chunks: int = 64
    chunk_bytes: int = 256 * MIB
    decoded_bytes: int = 256 * MIB
    width: int = 640
    height: int = 400
    steps: int = 3
    tiles: int = 9
    members: int = 48


PREVIEW = PictureLimits()
"""Of a picture that is made when a program looks at a directory: within two seconds."""

FULL = PictureLimits(
    chunks=sys.maxsize, chunk_bytes=sys.maxsize, decoded_bytes=sys.maxsize, width=1600, height=1000
)
"""Of a picture that a user asked for: every chunk of the plane may be read."""
