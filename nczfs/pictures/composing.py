"""What is drawn of a variable: the kind of plot, and its numbers from few chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from nczfs.buffers import Positions, Values
from nczfs.engine.arrays.selection import Axis as SelectedAxis
from nczfs.engine.arrays.selection import Selection
from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.errors import MetadataError, NczfsError
from nczfs.messages import shown, size_text
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Variable
from nczfs.pictures.beside import Coordinates, coordinates_of
from nczfs.pictures.conventions import (
    LATITUDE_MAX,
    LONGITUDE_MAX,
    Role,
    flags,
    is_depth,
    role,
    text,
)
from nczfs.pictures.dates import calendar_of
from nczfs.pictures.limits import PictureLimits
from nczfs.pictures.sampling import chunks_touched, positions, shares
from nczfs.pictures.scene import (
    Axis,
    Line,
    Numbers,
    Plane,
    Scale,
    Scene,
    Title,
    Words,
    noted,
)
from nczfs.pictures.unpacking import DAYS_SINCE_1970, Masked, is_number, unpacked

LINES_MAX = 14
COLUMNS_MAX = 90
COORDINATE_MAX = 1e300
"""The differences of larger numbers may be infinite."""


def variable_scene(
    dataset: Dataset,
    variable: Variable,
    limits: PictureLimits,
    selection: Selection | None = None,
    fresh_since: float = 0.0,
) -> Scene:
    """Return what is drawn of a variable.

    A map, if it has a latitude and a longitude; a line, if it has one dimension; otherwise the
    first step of its last two. Dimensions of length 1 do not count.

    Parameters
    ----------
    selection : a part of the variable, ascending along each dimension; None: all of it.
    fresh_since : chunks that were last confirmed before that time are confirmed again.

    Raises
    ------
    CodecError, MissingChunk, StoreError : values cannot be read. MetadataError : too many
        dimensions, or numbers of documents with which nothing can be computed.
    """
    try:
        return _Composition(dataset, variable, limits, selection, fresh_since).scene()
    except (ArithmeticError, ValueError) as error:
        raise MetadataError(f"{variable.path or '/'}: cannot be drawn: {error}") from error


class _Composition:
    def __init__(
        self,
        dataset: Dataset,
        variable: Variable,
        limits: PictureLimits,
        selection: Selection | None,
        fresh_since: float,
    ) -> None:
        self._dataset = dataset
        self._variable = variable
        self._limits = limits
        self._fresh_since = fresh_since
        every = tuple(map(range, variable.array.shape))
        self._axes: tuple[SelectedAxis, ...] = every if selection is None else selection.axes
        self._lengths = tuple(map(len, self._axes))
        self._beside = Coordinates()

    def scene(self) -> Scene:
        variable, array = self._variable, self._variable.array
        heading = _heading(variable)
        empty = [d for d, length in enumerate(self._lengths) if not length]
        if empty:
            name = _dimension_name(variable, empty[0])
            return Words(heading, (f"No values: the length of {name} is 0.",))
        if array.chunk_bytes > self._limits.chunk_bytes:
            size = size_text(array.chunk_bytes)
            return Words(heading, (f"Too large for a small picture: a chunk has {size}.",))
        if array.dtype.vlen is not None or not is_number(array.dtype.native):
            return self._words(heading)
        long = [d for d, length in enumerate(self._lengths) if length > 1]
        if not long:
            return self._number(heading)
        self._beside = coordinates_of(self._dataset, variable)
        if len(long) == 1:
            return self._line(heading, long[0])
        return self._plane(heading, long)

    def _plane(self, heading: Title, long: Sequence[int]) -> Scene:
        """Return a map or another picture of two dimensions; others show their first step."""
        variable = self._variable
        y_of, x_of = self._map_sides(long)
        is_map = y_of is not None and x_of is not None
        sides = [long[-2], long[-1]]
        if y_of is not None and x_of is not None:
            on = [*self._dimensions_of(y_of), *self._dimensions_of(x_of)]
            sides = sorted(set(on))
        else:
            y_of, x_of = (self._own_coordinate(d) for d in sides)
        beside = [each for each in (y_of, x_of) if each is not None]
        chosen, left_out = self._chosen(sides, beside)
        if left_out:
            y_of = x_of = None
            is_map = False
        heading = noted(heading, *self._steps(sides), self._sampling(sides, chosen))
        values = self._values(chosen).reshape(*(len(chosen[d]) for d in sides))
        y, x = (self._axis(d, each, chosen) for d, each in zip(sides, (y_of, x_of), strict=True))
        if is_map and y_of is not None and len(y_of.dimensions) == 1:
            # Which of the two dimensions is the latitude is for the coordinates to say.
            if self._dimensions_of(y_of) != [sides[0]]:
                values = values.T
                assert x_of is not None
                y, x = self._axis(sides[1], y_of, chosen), self._axis(sides[0], x_of, chosen)
            is_map = not (y.is_index or x.is_index)
        elif is_map:
            is_map = _has_places(x.values, y.values)
            if not is_map:
                y, x = (self._axis(d, None, chosen) for d in sides)
        elif y.scale.calendar is not None and x.scale.calendar is None:
            values, x, y = values.T, y, x  # time goes to the right
        if values.mask.all():
            return self._nothing(heading, values.size)
        return Plane(heading, x, y, values, _scale(variable), is_map)

    def _line(self, heading: Title, dimension: int) -> Scene:
        coordinate = self._own_coordinate(dimension)
        beside = [coordinate] if coordinate is not None else []
        chosen, left_out = self._chosen([dimension], beside)
        if left_out:
            coordinate = None
        heading = noted(heading, *self._steps([dimension]), self._sampling([dimension], chosen))
        values = self._values(chosen).reshape(-1)
        if values.mask.all():
            return self._nothing(heading, values.size)
        axis = self._axis(dimension, coordinate, chosen)
        spread = min(self._lengths[dimension], self._count_max(dimension, [dimension]))
        is_broken = len(values) < spread
        return Line(heading, axis, values, _scale(self._variable), is_broken)

    def _number(self, heading: Title) -> Scene:
        self._beside = coordinates_of(self._dataset, self._variable)
        values = self._values(self._first()).reshape(-1)
        scale = _scale(self._variable)
        heading = noted(heading, *self._steps([]))
        if values.mask.all():
            return Words(heading, ("The value is missing.",))
        value = float(values[0])
        meaning = dict(scale.flags).get(value)
        if scale.calendar is not None:
            return Words(heading, (scale.calendar.written(value),))
        if self._variable.array.dtype.stored.kind == "b":
            return Words(heading, ("true" if value else "false",))
        written = f"{value:.10g} {text(self._variable, 'units')}".rstrip()
        return Words(heading, (meaning or _short(written),))

    def _words(self, heading: Title) -> Scene:
        """Return the first elements as text; characters of netCDF are joined to lines."""
        array = self._variable.array
        chosen = self._first()
        is_char = array.dtype.nc_type is NcType.CHAR or array.dtype.stored == np.dtype("S1")
        if self._lengths:
            chosen[-1] = np.array(self._axes[-1][: COLUMNS_MAX if is_char else LINES_MAX], np.int64)
        if is_char and len(self._lengths) > 1:
            chosen[-2] = np.array(self._axes[-2][:LINES_MAX], np.int64)
        chosen = self._in_first_chunks(chosen)
        values = self._read(self._variable, chosen)
        lines: list[str]
        if is_char and self._lengths:
            rows = values.reshape(-1, len(chosen[-1]))
            lines = [_decoded(b"".join(row.tolist())) for row in rows]
        else:
            lines = [_decoded(each) for each in values.reshape(-1).tolist()]
        more = prod(self._lengths) - values.size
        if more > 0 and self._lengths:
            heading = noted(heading, f"the first {values.size:,} of {prod(self._lengths):,}")
        return Words(heading, tuple(map(_short, lines)) or ("No values.",))

    def _in_first_chunks(self, chosen: list[Positions]) -> list[Positions]:
        """Return the beginning of the positions, in few chunks along each dimension."""
        found = []
        for axis, cuts in zip(chosen, self._variable.array.grid.cuts, strict=True):
            numbers = cuts.found(axis)[0]
            found.append(axis[np.isin(numbers, np.unique(numbers)[:4])])
        return found

    def _nothing(self, heading: Title, count: int) -> Words:
        looked_at = "value" if count == 1 else f"{count:,} values that were looked at"
        is_all = count == prod(self._lengths)
        what = "All values are missing." if is_all else f"All {looked_at} are missing."
        return Words(heading, (what,))

    # -- which coordinates

    def _map_sides(self, long: Sequence[int]) -> tuple[Variable | None, Variable | None]:
        """Return the latitude and longitude of two long dimensions; None, None: there are none."""
        own = [each for d in long if (each := self._own_coordinate(d)) is not None]
        curvilinear = tuple(filter(self._is_readable, self._beside.curvilinear))
        for candidates in (own, curvilinear):
            fitting = [each for each in candidates if set(self._dimensions_of(each)) <= set(long)]
            latitude = next((each for each in fitting if role(each) is Role.LATITUDE), None)
            longitude = next((each for each in fitting if role(each) is Role.LONGITUDE), None)
            if latitude is None or longitude is None:
                continue
            on = [self._dimensions_of(latitude), self._dimensions_of(longitude)]
            if (len(on[0]) == 1 and on[0] != on[1]) or (len(on[0]) == 2 and on[0] == on[1]):
                return latitude, longitude
        return None, None

    def _own_coordinate(self, dimension: int) -> Variable | None:
        """Return the coordinate variable of a dimension, if its values can be read in time."""
        found = self._beside.of_dimension.get(self._variable.dimensions[dimension].name)
        if found is None or not self._is_readable(found):
            return None
        return found if found.array.shape == (self._variable.array.shape[dimension],) else None

    def _is_readable(self, coordinate: Variable) -> bool:
        return coordinate.array.chunk_bytes <= self._limits.chunk_bytes

    def _step_coordinates(self, sides: Sequence[int]) -> dict[int, Variable]:
        """Return the coordinates that say which step of other dimensions is shown.

        They leave room for those of the sides.
        """
        others = [d for d in range(len(self._lengths)) if d not in sides][: self._limits.steps]
        most = self._limits.decoded_bytes // 4
        found = ((d, self._own_coordinate(d)) for d in others)
        return {d: each for d, each in found if each and each.array.chunk_bytes <= most}

    def _dimensions_of(self, coordinate: Variable) -> list[int]:
        """Return the numbers of the variable's dimensions that a coordinate has; [-1]: others."""
        names = [dimension.name for dimension in self._variable.dimensions]
        found = []
        for dimension, length in zip(coordinate.dimensions, coordinate.array.shape, strict=True):
            if dimension.name not in names:
                return [-1]
            number = names.index(dimension.name)
            if self._variable.array.shape[number] != length:
                return [-1]
            found.append(number)
        return found

    # -- which elements

    def _first(self) -> list[Positions]:
        return [np.array(axis[:1], np.int64) for axis in self._axes]

    def _chosen(
        self, sides: Sequence[int], beside: Sequence[Variable]
    ) -> tuple[list[Positions], bool]:
        """Return the positions to read along each dimension, and whether coordinates are left out.

        Fewer of the values are read where their coordinates need many chunks, too, or large ones.
        """
        array, limits = self._variable.array, self._limits
        most = max(1, min(limits.chunks, limits.decoded_bytes // array.chunk_bytes))
        spare = min(limits.steps, len(self._lengths) - len(sides))
        steps = sum(each.array.chunk_bytes for each in self._step_coordinates(sides).values())
        for coordinates, share in product((beside, ()), _shrinking(most)):
            chosen = self._positions(sides, share)
            touched = chunks_touched(chosen, array.grid.cuts)
            chunks, nbytes = touched + spare, (touched - 1) * array.chunk_bytes + steps
            for each in coordinates:
                along = [chosen[d] for d in self._dimensions_of(each)]
                touched = chunks_touched(along, each.array.grid.cuts)
                chunks, nbytes = chunks + touched, nbytes + touched * each.array.chunk_bytes
            if chunks <= limits.chunks and nbytes <= limits.decoded_bytes:
                break
        return chosen, len(coordinates) < len(beside)

    def _positions(self, sides: Sequence[int], chunks_max: int) -> list[Positions]:
        """Return positions in at most so many chunks; the first one along all other dimensions."""
        cuts = self._variable.array.grid.cuts
        chosen = self._first()
        counts = []
        for d in sides:
            axis, count = self._axes[d], self._count_max(d, sides)
            spread = positions(_range(axis), cuts[d], count_max=count, chunks_max=count)
            counts.append(len(np.unique(cuts[d].found(spread)[0])))
        if len(sides) == 1:
            most: Iterable[int] = (chunks_max,)
        else:
            most = shares((counts[0], counts[1]), chunks_max)
        for d, chunks in zip(sides, most, strict=True):
            axis, count = self._axes[d], self._count_max(d, sides)
            chosen[d] = positions(_range(axis), cuts[d], count_max=count, chunks_max=chunks)
        return chosen

    def _count_max(self, dimension: int, sides: Sequence[int]) -> int:
        if len(sides) == 1:
            return 2 * self._limits.width
        # Which one goes to the right is decided when the coordinates are known.
        return self._limits.width if dimension == sides[-1] else self._limits.height

    def _sampling(self, sides: Sequence[int], chosen: Sequence[Positions]) -> str:
        """Return the note on what was left out; "": nothing."""
        counts = [len(chosen[d]) for d in sides]
        lengths = [self._lengths[d] for d in sides]
        if counts == lengths:
            return ""
        spread = [min(self._lengths[d], self._count_max(d, sides)) for d in sides]
        if counts != spread:
            grid = self._variable.array.grid
            read = chunks_touched(list(chosen), grid.cuts)
            total = prod(
                grid.cuts[d].at(self._axes[d][-1]).number
                - grid.cuts[d].at(self._axes[d][0]).number
                + 1
                for d in sides
            )
            return f"overview from {read:,} of {total:,} chunks"
        parts = (f"{count:,} of {n:,}" for count, n in zip(counts, lengths, strict=True))
        return f"decimated: {' by '.join(parts)}"

    def _steps(self, sides: Sequence[int]) -> Iterator[str]:
        """Yield which step of the other dimensions is shown."""
        coordinates = self._step_coordinates(sides)
        for d in range(len(self._lengths)):
            if d in sides:
                continue
            position = int(self._axes[d][0])
            length = self._variable.array.shape[d]
            name = _dimension_name(self._variable, d)
            value = self._step_value(coordinates.get(d), position)
            if length > 1:
                at = f"index {position:,} of {length:,}"
                yield f"{name} {value} ({at})" if value else f"{name} {at}"
            elif value:
                yield f"{name} {value}"

    def _step_value(self, coordinate: Variable | None, position: int) -> str:
        if coordinate is None:
            return ""
        values = self._numbers(coordinate, [np.array([position])])
        if values is None or values.mask.any():
            return ""
        scale = _scale(coordinate)
        if scale.calendar is not None:
            return scale.calendar.written(float(values[0]))
        return _short(f"{float(values[0]):.6g} {text(coordinate, 'units')}".rstrip(), 30)

    # -- values

    def _values(self, chosen: list[Positions]) -> Masked:
        return unpacked(self._read(self._variable, chosen), self._variable)

    def _numbers(self, coordinate: Variable, chosen: list[Positions]) -> Masked | None:
        """Return values of a coordinate; None: they cannot be read."""
        try:
            return unpacked(self._read(coordinate, chosen), coordinate)
        except NczfsError:
            return None

    def _read(self, variable: Variable, chosen: list[Positions]) -> Values:
        array = self._dataset.array(variable)
        array.require_codecs()
        out = np.empty(tuple(map(len, chosen)), variable.array.dtype.native)
        array.read_selection(Selection(tuple(chosen)), out, Tally(), self._fresh_since)
        return out

    def _axis(self, dimension: int, coordinate: Variable | None, chosen: list[Positions]) -> Axis:
        """Return a side of the picture: coordinates, or positions if these cannot be used."""
        if coordinate is not None:
            on = self._dimensions_of(coordinate)
            values = self._numbers(coordinate, [chosen[d] for d in on])
            usable = None if values is None else _usable(values, coordinate)
            if usable is not None:
                if usable.ndim == 2 and on[0] > on[1]:
                    usable = usable.T
                return Axis(_scale(coordinate), usable, is_down=is_depth(coordinate))
        name = _dimension_name(self._variable, dimension)
        return Axis(Scale(f"{name} (index)"), chosen[dimension].astype(float), is_index=True)


def _usable(values: Masked, coordinate: Variable) -> Numbers | None:
    """Return coordinates that can be drawn; None: they are unknown, or in no order."""
    kind = role(coordinate)
    most = {Role.LATITUDE: LATITUDE_MAX, Role.LONGITUDE: LONGITUDE_MAX}.get(kind, COORDINATE_MAX)
    found: Numbers = values.filled(np.nan)
    found = np.where(np.abs(found) <= most, found, np.nan)
    if found.ndim != 1:
        return found if np.isfinite(found).any() else None
    if not np.isfinite(found).all():
        return None
    if not _is_monotonic(found) and kind is Role.LONGITUDE:
        found = np.unwrap(found, period=360.0)
    return found if _is_monotonic(found) else None


def _is_monotonic(values: Numbers) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


def _has_places(x: Numbers, y: Numbers) -> bool:
    """Return whether a curvilinear map has any cell."""
    if x.ndim != 2 or x.shape != y.shape or min(x.shape) < 2:
        return False
    known = np.isfinite(x) & np.isfinite(y)
    cells = known[1:, 1:] & known[:-1, 1:] & known[1:, :-1] & known[:-1, :-1]
    return bool(cells.any())


def _scale(variable: Variable) -> Scale:
    kind = variable.array.dtype.stored.kind
    if kind == "M":
        return Scale(variable.name, DAYS_SINCE_1970)
    units = text(variable, "units")
    calendar = calendar_of(units, text(variable, "calendar"))
    label = text(variable, "long_name") or text(variable, "standard_name") or variable.name
    if kind == "m":
        units = np.datetime_data(variable.array.dtype.stored)[0]
    if calendar is not None:
        return Scale(_short(label, 40), calendar)
    if kind == "c" or "complex" in variable.array.dtype.native.name:
        label = f"magnitude of {label}"
    if kind == "b":
        return Scale(_short(label, 40), None, ((0.0, "false"), (1.0, "true")))
    if units and units != "1":
        label = f"{_short(label, 40)} [{_short(units, 24)}]"
    return Scale(_short(label, 68), None, flags(variable))


def _heading(variable: Variable) -> Title:
    title = text(variable, "long_name") or text(variable, "standard_name") or variable.name
    name = variable.name or "values"
    sizes = zip(variable.dimensions, variable.array.shape, strict=True)
    inside = ", ".join(f"{_short(dimension.name, 20)}: {size:,}" for dimension, size in sizes)
    return Title(_short(title), f"{_short(name, 40)} ({inside})" if inside else _short(name, 40))


def _dimension_name(variable: Variable, dimension: int) -> str:
    found = variable.dimensions[dimension]
    return f"dimension {dimension}" if found.anonymous else _short(found.name, 30)


def _range(axis: SelectedAxis) -> range:
    assert isinstance(axis, range)
    return axis


def _shrinking(most: int) -> Iterator[int]:
    """Yield numbers from `most` down to 1."""
    while most > 1:
        yield most
        most = most * 3 // 4
    yield 1


def _decoded(value: object) -> str:
    if isinstance(value, bytes):
        value = value.rstrip(b"\0").decode("utf-8", "replace")
    if isinstance(value, str):
        return value[: COLUMNS_MAX + 1]
    return shown(value.tolist() if isinstance(value, np.ndarray) and value.size < 20 else value)


def _short(text_: str, most: int = COLUMNS_MAX) -> str:
    line = "".join(c if c.isprintable() else " " for c in text_[: most + 1])
    return line if len(line) <= most else f"{line[: most - 3]}..."
