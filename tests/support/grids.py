"""Random chunk grids of arrays."""

from __future__ import annotations

from hypothesis import strategies as st

from nczfs.model.grid import ChunkGrid, RectilinearGrid, RegularGrid, UnevenCuts


@st.composite
def uneven_cuts(draw: st.DrawFn, length: int) -> UnevenCuts:
    """Chunks of listed lengths that cover a dimension, or more."""
    runs: list[tuple[int, int]] = []
    while sum(size * repeat for size, repeat in runs) < length or not runs:
        runs.append((draw(st.integers(1, max(1, length))), draw(st.integers(1, 3))))
    return UnevenCuts(tuple(runs))


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, ...]) -> ChunkGrid:
    """Regular and rectilinear grids."""
    if draw(st.booleans()):
        return RegularGrid(shape, tuple(draw(st.integers(1, max(1, n + 1))) for n in shape))
    return RectilinearGrid(shape, tuple(draw(uneven_cuts(n)) for n in shape))
