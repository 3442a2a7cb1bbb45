"""What is drawn of a variable: the kind of plot, its numbers, and how many chunks are read."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from nczfs.pictures.limits import PREVIEW, PictureLimits
from nczfs.pictures.scene import Plane, Words
from nczfs.testing.datasets import put_array, put_json
from nczfs.zmap.keys import parse_key
from tests.support.counted import CountedStore
from tests.support.drawn import (
    LATITUDE,
    LONGITUDE,
    chunk_reads,
    empty_store,
    line,
    map_store,
    plane,
    put_line,
    put_unwritten,
    scene,
    words,
)

TIB = 1 << 40


def test_latitude_and_longitude_make_a_map_of_the_first_step() -> None:
    found = plane(map_store(long_name="temperature", units="K"), "t2m")
    assert found.is_map
    np.testing.assert_array_equal(found.values, np.arange(24.0).reshape(4, 6))
    np.testing.assert_array_equal(found.y.values, [40, 30, 20, 10])
    np.testing.assert_array_equal(found.x.values, np.arange(0, 60, 10))
    assert found.heading.title == "temperature"
    assert found.heading.name == "t2m (time: 2, lat: 4, lon: 6)"
    assert found.heading.notes == ("time 2000-02-01 (index 0 of 2)",)  # after 30 days of 360_day
    assert found.scale.label == "temperature [K]"


def test_the_order_of_the_dimensions_does_not_matter_to_a_map() -> None:
    store = map_store()
    values = np.arange(24.0).reshape(6, 4)
    put_array(store, "turned", values, (6, 4), dimensions=("lon", "lat"), fill_value=None)
    found = plane(store, "turned")
    assert found.is_map
    np.testing.assert_array_equal(found.values, values.T)
    assert found.y.scale.label == "lat [degrees_north]"


@pytest.mark.parametrize(
    ("y", "x"),
    [
        ({"standard_name": "latitude"}, {"standard_name": "longitude"}),
        ({"units": "degrees", "axis": "Y"}, {"units": "degrees", "axis": "X"}),
        ({"units": "degreeN"}, {"units": "degree_E"}),
    ],
)
def test_the_cf_conventions_say_what_is_a_latitude(y: dict[str, str], x: dict[str, str]) -> None:
    store = empty_store()
    put_array(store, "v", np.ones((2, 2)), (2, 2), dimensions=("j", "i"), fill_value=None)
    put_line(store, "j", np.array([1.0, 2]), **y)
    put_line(store, "i", np.array([1.0, 2]), **x)
    assert plane(store, "v").is_map


@pytest.mark.parametrize(
    ("names", "is_map"),
    [(("lat", "lon"), True), (("latitude", "longitude"), True), (("y", "x"), False)],
)
def test_names_alone_are_believed(names: tuple[str, str], is_map: bool) -> None:
    store = empty_store()
    put_array(store, "v", np.ones((2, 2)), (2, 2), dimensions=names, fill_value=None)
    for name in names:
        put_line(store, name, np.array([1.0, 2]))
    assert plane(store, "v").is_map is is_map


def test_rotated_coordinates_are_no_map() -> None:
    store = empty_store()
    put_array(store, "v", np.ones((2, 2)), (2, 2), dimensions=("lat", "lon"), fill_value=None)
    put_line(store, "lat", np.array([1.0, 2]), standard_name="grid_latitude", units="degrees")
    put_line(store, "lon", np.array([1.0, 2]), standard_name="grid_longitude", units="degrees")
    assert not plane(store, "v").is_map


def curvilinear(latitude: object, longitude: object) -> CountedStore:
    store = empty_store()
    put_array(
        store,
        "v",
        np.arange(12.0).reshape(3, 4),
        (3, 4),
        dimensions=("y", "x"),
        attributes={"coordinates": "lat lon"},
        fill_value=None,
    )
    for name, values, attributes in (
        ("lat", latitude, LATITUDE),
        ("lon", longitude, LONGITUDE),
    ):
        put_array(
            store,
            name,
            np.asarray(values),
            (3, 4),
            dimensions=("y", "x"),
            attributes=attributes,
            fill_value=None,
        )
    return store


def test_coordinates_of_two_dimensions_make_a_curvilinear_map() -> None:
    latitude = np.add.outer(np.arange(3.0), np.arange(4.0) / 10)
    longitude = np.add.outer(np.arange(3.0) / 10, np.arange(4.0))
    found = plane(curvilinear(latitude, longitude), "v")
    assert found.is_map
    np.testing.assert_array_equal(found.x.values, longitude)
    np.testing.assert_array_equal(found.y.values, latitude)


def test_a_curvilinear_map_without_places_is_drawn_by_index() -> None:
    nothing = np.full((3, 4), np.nan)
    found = plane(curvilinear(nothing, nothing), "v")
    assert not found.is_map
    assert found.x.is_index
    assert found.x.values.shape == (4,)


@pytest.mark.parametrize(
    "broken", [[1.0, np.nan, 3, 4], [1.0, 3, 2, 4], [1.0, np.inf, 3, 4], [1e30] * 4]
)
def test_coordinates_in_no_order_are_replaced_by_the_index(broken: list[float]) -> None:
    store = map_store()
    put_line(store, "lat", np.array(broken), **LATITUDE)
    found = plane(store, "t2m")
    assert not found.is_map
    assert found.y.is_index
    np.testing.assert_array_equal(found.y.values, range(4))


def test_longitudes_that_cross_the_date_line_stay_a_map() -> None:
    store = map_store()
    put_line(store, "lon", np.array([150.0, 160, 170, -180, -170, -160]), **LONGITUDE)
    found = plane(store, "t2m")
    assert found.is_map
    np.testing.assert_array_equal(found.x.values, np.arange(150, 201, 10))


def test_one_dimension_makes_a_line_over_its_coordinate() -> None:
    store = empty_store()
    put_array(store, "v", np.arange(5.0), (5,), dimensions=("time",), fill_value=None)
    put_line(store, "time", np.arange(0, 50, 10), units="hours since 1990-01-01")
    found = line(store, "v")
    np.testing.assert_array_equal(found.x.values, np.arange(0, 50, 10))
    assert found.x.scale.calendar is not None
    assert found.x.scale.calendar.written(24.0) == "1990-01-02"
    assert not found.is_broken


def test_dimensions_of_length_1_do_not_count() -> None:
    store = map_store()
    values = np.arange(4.0).reshape(1, 4, 1)
    put_array(store, "v", values, (1, 4, 1), dimensions=("t", "lat", "x"), fill_value=None)
    np.testing.assert_array_equal(line(store, "v").values, np.arange(4))


def test_without_a_map_the_last_two_dimensions_are_drawn_and_time_goes_to_the_right() -> None:
    store = map_store()
    values = np.arange(2 * 3 * 2.0).reshape(3, 2, 2)
    put_array(store, "v", values, (3, 2, 2), dimensions=("e", "time", "z"), fill_value=None)
    found = plane(store, "v")
    assert not found.is_map
    np.testing.assert_array_equal(found.values, values[0].T)
    assert found.x.scale.calendar is not None
    assert found.heading.notes == ("e index 0 of 3",)


def test_a_depth_points_down() -> None:
    store = map_store()
    put_array(store, "v", np.ones((3, 4)), (3, 4), dimensions=("depth", "lat"), fill_value=None)
    put_line(store, "depth", np.array([0.0, 5, 20]), units="m", positive="down")
    assert plane(store, "v").y.is_down


# -- chunks


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((365 * 150, 7200, 7200), (1, 225, 225)),  # 1024 chunks a step
        ((2_800, 32_000, 32_000), (1, 8_000, 4_000)),
        ((10, 2, 140_000_000_000), (1, 1, 100_000)),
        ((1_700_000, 1_700_000), (1, 1)),
        ((2_800_000_000_000,), (1_000_000,)),
        ((10**12, 3), (1, 1)),
    ],
)
def test_a_preview_of_10_tib_reads_at_most_64_chunks(
    shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    assert np.prod([float(n) for n in shape]) * 4 >= 10 * TIB * 0.99 or shape[-1] == 3
    store = empty_store()
    names = ("time", "lat", "lon")[-len(shape) :]
    put_unwritten(store, "v", shape, chunks, names)
    for name, length in zip(names, shape, strict=True):
        if length < 10**6:
            put_line(store, name, np.linspace(-80, 80, length))
        else:
            put_unwritten(store, name, (length,), (1000,), (name,), "<f8")
    found = scene(store, "v")
    assert not isinstance(found, Words) or "missing" in found.lines[0]
    assert 0 < chunk_reads(store) <= 64


def test_a_map_of_too_many_chunks_is_an_overview_that_says_so() -> None:
    store = map_store()
    put_unwritten(store, "v", (7200, 7200), (100, 100), ("lat2", "lon2"), "<i4")
    for row, column in product((0, 36, 71), repeat=2):
        block = np.full((100, 100), row * 100 + column + 1, "<i4")
        store.write(parse_key(f"v/{row}.{column}"), block.tobytes())
    found = plane(store, "v", PictureLimits(chunks=9, steps=0))
    assert found.heading.notes == ("overview from 9 of 5,184 chunks",)
    assert set(np.unique(found.values)) <= {
        r * 100 + c + 1 for r, c in product((0, 35, 36, 71), repeat=2)
    } | {0}
    assert found.values[0, 0] == 1
    assert found.values[-1, -1] == 7172


def test_a_decimated_plane_in_few_chunks_is_no_overview() -> None:
    store = empty_store()
    put_unwritten(store, "v", (4000, 8000), (1000, 4000), ("y", "x"), "<i4")
    found = plane(store, "v")
    assert found.heading.notes == ("decimated: 400 of 4,000 by 640 of 8,000",)
    assert found.values.shape == (400, 640)
    assert (found.y.values[0], found.y.values[-1]) == (0, 3999)


def test_a_line_with_gaps_is_not_connected() -> None:
    store = empty_store()
    put_unwritten(store, "v", (10_000,), (10,), ("x",), "<i4")
    found = line(store, "v")
    assert found.is_broken
    assert chunk_reads(store) <= 64


def test_coordinates_in_too_many_chunks_leave_room_for_values() -> None:
    store = empty_store()
    put_unwritten(store, "v", (500, 600), (500, 600), ("lat", "lon"), "<i4")
    put_unwritten(store, "lat", (500,), (1,), ("lat",), "<f8")
    put_unwritten(store, "lon", (600,), (1,), ("lon",), "<f8")
    found = plane(store, "v")
    assert not found.is_map
    assert chunk_reads(store) <= 64


def test_a_huge_chunk_is_described_and_not_read() -> None:
    store = empty_store()
    put_unwritten(store, "v", (1 << 14, 1 << 14), (1 << 14, 1 << 14), ("y", "x"), "<f8")
    assert words(store, "v").lines == ("Too large for a small picture: a chunk has 2GiB.",)
    assert chunk_reads(store) == 0


@pytest.mark.parametrize(
    ("limits", "is_map"),
    [
        (PictureLimits(chunk_bytes=96, decoded_bytes=192), True),
        (PictureLimits(chunk_bytes=95), False),
        (PictureLimits(decoded_bytes=191), False),
    ],
)
def test_coordinates_of_large_chunks_are_not_read(limits: PictureLimits, is_map: bool) -> None:
    latitude = np.add.outer(np.arange(3.0), np.arange(4.0) / 10)
    store = curvilinear(latitude, latitude)  # one chunk of 96 bytes each
    put_array(
        store,
        "v",
        np.ones((3, 4), "i1"),
        (3, 4),
        dimensions=("y", "x"),
        attributes={"coordinates": "lat lon"},
        fill_value=None,
    )
    assert plane(store, "v", limits).is_map is is_map
    assert chunk_reads(store) == (3 if is_map else 1)


@pytest.mark.parametrize(
    ("decoded_bytes", "is_map", "note"),
    [
        (96, True, "time 2000-02-01 (index 0 of 2)"),
        (95, False, "time 2000-02-01 (index 0 of 2)"),
        (63, False, "time index 0 of 2"),
    ],
)
def test_the_coordinates_of_steps_count_too(decoded_bytes: int, is_map: bool, note: str) -> None:
    """Chunks: lat 32 bytes, lon 48, time 16."""
    found = plane(map_store(), "t2m", PictureLimits(decoded_bytes=decoded_bytes))
    assert found.is_map is is_map
    assert found.heading.notes == (note,)


# -- words


def test_strings_are_shown_as_words() -> None:
    store = empty_store()
    values = np.array([f"station {i}" for i in range(30)], "S12")
    put_array(store, "v", values, (30,), dimensions=("n",), fill_value="")
    found = words(store, "v")
    assert found.lines[:2] == ("station 0", "station 1")
    assert found.heading.notes == ("the first 14 of 30",)


def test_characters_are_joined_to_lines() -> None:
    store = empty_store()
    values = np.array([list("Oslo\0"), list("Rom\0\0")], "S1")
    put_array(store, "v", values, (2, 5), dimensions=("n", "length"), fill_value="")
    assert words(store, "v").lines == ("Oslo", "Rom")


def test_a_scalar_is_a_number_with_its_units() -> None:
    store = empty_store()
    for name, value, attributes in (
        ("height", np.float64(2.5), {"units": "m"}),
        ("when", np.int32(5), {"units": "days since 2001-01-01"}),
        ("flag", np.bool_(True), {}),
        ("kind", np.int8(2), {"flag_values": [1, 2], "flag_meanings": "land sea"}),
    ):
        put_array(store, name, np.asarray(value), (), dimensions=(), attributes=attributes)
    found = {name: words(store, name).lines for name in ("height", "when", "flag", "kind")}
    assert found == {
        "height": ("2.5 m",),
        "when": ("2001-01-06",),
        "flag": ("true",),
        "kind": ("sea",),
    }


def test_an_empty_array_and_one_without_values_say_so() -> None:
    store = empty_store()
    put_unwritten(store, "nothing", (0, 5), (1, 5), ("time", "x"))
    put_array(store, "unknown", np.full((3, 3), np.nan), (3, 3), dimensions=("y", "x"))
    assert words(store, "nothing").lines == ("No values: the length of time is 0.",)
    assert words(store, "unknown").lines == ("All values are missing.",)


def test_structured_elements_are_words() -> None:
    store = empty_store()
    values = np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")])
    put_unwritten(store, "v", (1,), (1,), ("x",))
    put_json(
        store,
        "v/.zarray",
        {
            "zarr_format": 2,
            "shape": [1],
            "chunks": [1],
            "dtype": [["a", "<i4"], ["b", "<f8"]],
            "compressor": None,
            "filters": None,
            "fill_value": None,
            "order": "C",
        },
    )
    store.write(parse_key("v/0"), values.tobytes())
    assert "2.5" in words(store, "v").lines[0]


def test_values_of_all_numeric_types_are_drawn() -> None:
    store = empty_store()
    for dtype in ("?", "<c8", "<M8[h]", "<m8[s]", "<u8", "<f2"):
        values = np.arange(4).astype("<i8").astype(dtype)
        put_array(store, "v", values, (4,), dimensions=("x",), fill_value=None)
        found = line(store, "v")
        assert found.values.shape == (4,), dtype
        assert not found.values.mask.any(), dtype
    assert isinstance(scene(map_store(), "t2m", PREVIEW), Plane)
