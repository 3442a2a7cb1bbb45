"""Scenes drawn with matplotlib, through its objects, without the state that pyplot shares.

matplotlib's fonts are shared between threads, so one picture is drawn at a time.
"""

from __future__ import annotations

import threading
from functools import cache
from io import BytesIO
from itertools import pairwise
from math import cos, radians
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib import colors, ticker
from matplotlib import dates as untyped_dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, get_font

from nczfs.pictures.dates import Calendar
from nczfs.pictures.scene import (
    Axis,
    Drawable,
    Line,
    Numbers,
    Plane,
    Scale,
    Scene,
    Sheet,
    Title,
    Words,
)
from nczfs.pictures.unpacking import Masked

dates: Any = untyped_dates

_DPI: Final = 100
_FONT: Final = Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
_MONOSPACED: Final = _FONT.with_name("DejaVuSansMono.ttf")
_BOLD: Final = _FONT.with_name("DejaVuSans-Bold.ttf")
_GREY: Final = "0.35"
_MISSING: Final = "0.87"
_ONE_SIGN: Final = 0.1
"""Values of both signs whose smaller side is shorter than this part of the other count as one."""
_FLAGS_MAX: Final = 12
_ASPECT_MAX: Final = 6.0
_DRAWING: Final = threading.Lock()


def drawn(scene: Drawable, width: int, height: int) -> bytes:
    """Return a scene as a PNG.

    Parameters
    ----------
    width, height : in pixels.
    """
    with _DRAWING:
        size = (width / _DPI, height / _DPI)
        figure = Figure(figsize=size, dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        zoom = max(1.0, width / 1000)
        if isinstance(scene, Sheet):
            _draw_sheet(figure, scene, zoom)
        else:
            _draw_one(figure, scene, zoom)
        out = BytesIO()
        figure.savefig(out, format="png", dpi=_DPI, metadata={"Software": None})
        return out.getvalue()


def _draw_one(figure: Figure, scene: Scene, zoom: float) -> None:
    _draw_heading(figure, scene.heading, zoom)
    top = 1 - 0.155 / (1 + (zoom - 1) / 2)
    match scene:
        case Words():
            _draw_words(figure, scene, zoom)
        case Line():
            axes = figure.add_axes((0.13, 0.14, 0.83, top - 0.16))
            _draw_line(axes, scene, zoom)
            _set_scale(axes, scene.x.scale, scene.x.values, "x", zoom)
            _set_scale(axes, scene.scale, scene.values, "y", zoom, is_own=False)
        case Plane():
            axes = figure.add_axes((0.13, 0.13, 0.68, top - 0.15))
            colours = _draw_plane(axes, scene)
            _set_scale(axes, scene.x.scale, scene.x.values, "x", zoom)
            _set_scale(axes, scene.y.scale, scene.y.values, "y", zoom)
            axes.apply_aspect()
            place = axes.get_position()
            bar = figure.add_axes((place.x1 + 0.02, place.y0, 0.022, place.height))
            _draw_bar(figure, bar, colours, scene, zoom)


def _draw_sheet(figure: Figure, sheet: Sheet, zoom: float) -> None:
    _draw_heading(figure, sheet.heading, zoom)
    count = len(sheet.tiles)
    columns = 1 if count == 1 else 2 if count <= 4 else 3
    rows = -(-count // columns)
    left, right, bottom, top = 0.02, 0.98, 0.02, 0.86
    for number, tile in enumerate(sheet.tiles):
        row, column = divmod(number, columns)
        width, height = (right - left) / columns, (top - bottom) / rows
        x, y = left + column * width, top - (row + 1) * height
        title = _shown(tile.heading.title, 34)
        figure.text(
            x + width / 2, y + height * 0.99, title, **_font(6.5 * zoom), ha="center", va="top"
        )
        if isinstance(tile, Words):
            words = "\n".join(_shown(line, 34) for line in tile.lines[:5])
            figure.text(
                x + width / 2, y + height * 0.45, words, **_font(6 * zoom), ha="center", va="center"
            )
            continue
        inset = 0.07 * height
        axes = figure.add_axes(
            (x + 0.04 * width, y + inset, 0.92 * width, height * 0.88 - 2 * inset)
        )
        axes.set_xticks([])
        axes.set_yticks([])
        if isinstance(tile, Line):
            _draw_line(axes, tile, zoom * 0.8)
        else:
            _draw_plane(axes, tile)
        for spine in axes.spines.values():
            spine.set_linewidth(0.5)


def _draw_heading(figure: Figure, heading: Title, zoom: float) -> None:
    height = figure.get_figheight() * _DPI
    top = 1 - 8 * zoom / height
    figure.text(0.02, top, _shown(heading.title, 74), **_font(10 * zoom, _BOLD), va="top")
    lines = [heading.name, " · ".join(heading.notes)]
    text = "\n".join(_shown(line, 112) for line in lines if line)
    below = top - 19 * zoom / height
    figure.text(0.02, below, text, **_font(7 * zoom), color=_GREY, va="top", linespacing=1.35)


def _draw_words(figure: Figure, words: Words, zoom: float) -> None:
    lines = [_shown(line, 90) for line in words.lines]
    is_short = len(lines) == 1 and len(lines[0]) <= 60
    if is_short:
        figure.text(0.5, 0.45, lines[0], **_font(12 * zoom), ha="center", va="center")
    else:
        figure.text(
            0.04, 0.8, "\n".join(lines), **_font(8 * zoom, _MONOSPACED), va="top", linespacing=1.4
        )


def _draw_line(axes: Axes, line: Line, zoom: float) -> None:
    values = _limited(line.values.filled(np.nan))
    x = _drawn_numbers(line.x)
    is_few = len(values) <= 60 or line.is_broken
    axes.plot(
        x,
        values,
        linestyle="none" if line.is_broken else "-",
        marker="." if is_few else None,
        markersize=3.5 * zoom,
        linewidth=1.0 * zoom,
        color="#2a6a9e",
    )
    axes.grid(visible=True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(*_ends(x))
    if line.x.is_down:
        axes.invert_xaxis()


def _draw_plane(axes: Axes, plane: Plane) -> Any:
    norm, map_ = _colours(plane.values, plane.scale)
    axes.set_facecolor(_MISSING)
    x, y = _drawn_numbers(plane.x), _drawn_numbers(plane.y)
    if x.ndim == 2:
        corners_x, corners_y, unknown = _cells(x, y)
        values = np.ma.array(plane.values, mask=plane.values.mask | unknown)
        found: Any = axes.pcolormesh(corners_x, corners_y, values, norm=norm, cmap=map_)
        known = ~unknown
        axes.set_xlim(*_ends(x[known]))
        axes.set_ylim(*_ends(y[known]))
    else:
        edges_x, edges_y = _edges(x), _edges(y)
        if plane.is_map:
            edges_y = np.clip(edges_y, -90, 90)
        values = plane.values
        if edges_x[0] > edges_x[-1]:
            edges_x, values = edges_x[::-1], values[:, ::-1]
        if edges_y[0] > edges_y[-1]:
            edges_y, values = edges_y[::-1], values[::-1]
        found = axes.pcolorfast(edges_x, edges_y, values, norm=norm, cmap=map_)
        axes.set_xlim(edges_x[0], edges_x[-1])
        axes.set_ylim(edges_y[0], edges_y[-1])
    if plane.y.is_index or plane.y.is_down:
        axes.invert_yaxis()
    if plane.is_map:
        _set_aspect(axes)
    return found


def _set_aspect(axes: Axes) -> None:
    """Make a degree of longitude as wide as it is in the middle of the map."""
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    aspect = 1 / max(0.2, cos(radians(min(89.0, abs(south + north) / 2))))
    place = axes.get_position()
    size = axes.figure.get_window_extent().size
    box = place.height * size[1] / (place.width * size[0])
    wanted = abs(north - south) * aspect / max(abs(east - west), 1e-9)
    if 1 / _ASPECT_MAX < wanted / box < _ASPECT_MAX:
        axes.set_aspect(aspect, adjustable="box", anchor="C")


def _draw_bar(figure: Figure, place: Axes, colours: Any, plane: Plane, zoom: float) -> None:
    least, most = float(plane.values.min()), float(plane.values.max())
    norm = colours.norm
    below, above = least < norm.vmin, most > norm.vmax
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    bar = figure.colorbar(colours, cax=place, extend=extend)
    bar.outline.set_linewidth(0.5)
    flags = _flags_shown(plane.scale)
    if flags:
        place.yaxis.set_major_locator(ticker.FixedLocator(list(range(len(flags)))))
        names = [_shown(meaning, 18) for _, meaning in flags]
        place.yaxis.set_major_formatter(ticker.FixedFormatter(names))
        place.yaxis.set_minor_locator(ticker.NullLocator())
        _set_ticks(place, "y", zoom, 6.0)
        return
    _set_scale(place, plane.scale, plane.values, "y", zoom, is_own=False)


def _colours(values: Masked, scale: Scale) -> tuple[colors.Normalize, colors.Colormap]:
    """Return the range and the map of colours.

    The map is symmetric about 0 if values have both signs, and the range leaves out few extreme
    values that would make all others one colour.
    """
    flags = _flags_shown(scale)
    if flags:
        bounds = [number for number, _ in flags]
        edges = [
            bounds[0] - 0.5,
            *((a + b) / 2 for a, b in pairwise(bounds)),
            bounds[-1] + 0.5,
        ]
        chosen = mpl.colormaps["tab20" if len(flags) > 10 else "tab10"].colors  # type: ignore[attr-defined]
        if len(flags) == 2:
            chosen = ("#dfe6ec", "#2a6a9e")
        return _FlagNorm(edges), colors.ListedColormap(chosen[: len(flags)])
    known = _limited(values.compressed())
    least, most = float(known.min()), float(known.max())
    low, high = (float(n) for n in np.percentile(known, (1, 99)))
    if most - least > 20 * (high - low) > 0:
        least, most = low, high
    if least < 0 < most and min(-least, most) > _ONE_SIGN * max(-least, most):
        most = max(-least, most)
        return colors.Normalize(-most, most), mpl.colormaps["RdBu_r"]
    if least == most:
        margin = abs(least) * 0.05 or 0.5
        least, most = least - margin, most + margin
    return colors.Normalize(least, most), mpl.colormaps["viridis"]


class _FlagNorm(colors.BoundaryNorm):
    """Numbers between some edges as the numbers of their intervals."""

    def __init__(self, edges: list[float]) -> None:
        super().__init__(edges, len(edges) - 1)


def _flags_shown(scale: Scale) -> tuple[tuple[float, str], ...]:
    return scale.flags if 2 <= len(scale.flags) <= _FLAGS_MAX else ()


def _set_scale(
    axes: Axes, scale: Scale, values: Any, side: str, zoom: float, *, is_own: bool = True
) -> None:
    """Label a side of a plot.

    Parameters
    ----------
    is_own : whether they were drawn as `_drawn_numbers` gives them.
    """
    axis = axes.xaxis if side == "x" else axes.yaxis
    _set_ticks(axes, side, zoom, 7.0)
    label = _shown(scale.label, 46 if side == "y" else 70)
    if scale.calendar is None or label not in ("", "time"):
        axis.set_label_text(label, **_font(7.5 * zoom))
    if scale.calendar is not None:
        _set_dates(axis, scale.calendar, values, is_own=is_own)
    else:
        axis.set_major_locator(ticker.MaxNLocator(7 if side == "x" else 6))
        formatter = ticker.ScalarFormatter(useOffset=False, useMathText=False)
        formatter.set_powerlimits((-4, 6))
        axis.set_major_formatter(formatter)
        axis.get_offset_text().set(**_font(6.5 * zoom))


def _set_dates(axis: Any, calendar: Calendar, values: Any, *, is_own: bool) -> None:
    found = np.ma.compressed(np.ma.masked_invalid(values))
    first, last = float(found.min()), float(found.max())
    if is_own and _days_of(calendar, first, last) is not None:
        locator = dates.AutoDateLocator(maxticks=7)
        axis.set_major_locator(locator)
        formatter = dates.ConciseDateFormatter(locator, usetex=False)
        axis.set_major_formatter(formatter)
        axis.get_offset_text().set(**_font(7))
        return
    axis.set_major_locator(ticker.MaxNLocator(5))
    axis.set_major_formatter(
        ticker.FuncFormatter(lambda number, _: calendar.written(number, span=last - first))
    )


def _drawn_numbers(axis: Axis) -> Numbers:
    """Return the numbers of an axis, those of dates as matplotlib counts days."""
    calendar, values = axis.scale.calendar, axis.values
    if calendar is None or values.ndim != 1:
        return values
    first = float(values.min())
    start = _days_of(calendar, first, float(values.max()))
    return values if start is None else start + (values - first) * calendar.days


def _days_of(calendar: Calendar, first: float, last: float) -> float | None:
    """Return the first date as matplotlib counts days; None: it has no such dates."""
    start = calendar.civil(first)
    if start is None or calendar.civil(last) is None:
        return None
    return float(dates.date2num(start))


def _set_ticks(axes: Axes, side: str, zoom: float, points: float) -> None:
    axes.tick_params(axis=side, width=0.5, length=2.5, pad=2)  # type: ignore[arg-type]
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_tick_params(labelsize=points * zoom)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)


def _edges(centres: Numbers) -> Numbers:
    """Return the edges of cells: half way between their centres."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = centres[:-1] / 2 + centres[1:] / 2
    first = centres[0] - (middle[0] - centres[0])
    last = centres[-1] + (centres[-1] - middle[-1])
    return np.array([first, *middle, last])


def _cells(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers, Any]:
    """Return the corners of curvilinear cells, and which cells have no place.

    The longitudes of neighbours are brought within 180 degrees. What has no place gets the next
    one in its row, because matplotlib refuses NaN there.
    """
    unknown = ~(np.isfinite(x) & np.isfinite(y))
    x, y = (_completed(np.where(unknown, np.nan, each)) for each in (x, y))
    x = np.unwrap(np.unwrap(x, period=360.0, axis=1), period=360.0, axis=0)
    corners_x, corners_y = _corners(x), _corners(y)
    parts = np.stack(
        [corners_x[:-1, :-1], corners_x[1:, :-1], corners_x[:-1, 1:], corners_x[1:, 1:]]
    )
    return corners_x, corners_y, unknown | (np.ptp(parts, axis=0) > 180)


def _completed(values: Numbers) -> Numbers:
    """Return values without NaN: with the last one before it in C order."""
    flat = values.ravel()
    known = np.flatnonzero(np.isfinite(flat))
    before = np.searchsorted(known, np.arange(flat.size), side="right") - 1
    return flat[known[np.maximum(before, 0)]].reshape(values.shape)


def _corners(centres: Numbers) -> Numbers:
    padded = np.pad(centres, 1, mode="reflect", reflect_type="odd")
    return (padded[:-1, :-1] + padded[1:, :-1] + padded[:-1, 1:] + padded[1:, 1:]) / 4


def _ends(values: Numbers) -> tuple[float, float]:
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    margin = (most - least) * 0.01 or 0.5
    return least - margin, most + margin


def _limited(values: Numbers) -> Numbers:
    """Return values that matplotlib can compute with: differences of them are finite."""
    return np.clip(values, -1e300, 1e300)


def _font(points: float, file: Path = _FONT) -> dict[str, Any]:
    """Return the properties of a text: no mathematics, whatever it contains."""
    font = FontProperties(fname=file, size=points)
    return {"fontproperties": font, "parse_math": False, "usetex": False}


def _shown(text: str, most: int) -> str:
    """Return a text that the fonts can show, cut to a length."""
    line = text if len(text) <= most else f"{text[: most - 3]}..."
    known = _characters()
    return "".join(c if ord(c) in known or c == "\n" else "\ufffd" for c in line)


@cache
def _characters() -> frozenset[int]:
    """The characters that all fonts have."""
    charmaps = [get_font(str(each)).get_charmap() for each in (_FONT, _MONOSPACED, _BOLD)]
    return frozenset(set(charmaps[0]).intersection(*charmaps[1:]))
