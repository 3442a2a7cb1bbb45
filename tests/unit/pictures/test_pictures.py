"""Pictures as files: that they are PNG, of a known size, whatever is drawn."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from nczfs.errors import MetadataError, UsageError
from nczfs.pictures import picture
from nczfs.pictures.limits import FULL, PREVIEW
from nczfs.pictures.picture import PREVIEW_BYTES, group_picture, preview, variable_picture
from nczfs.pictures.png import bounded, padded
from nczfs.pictures.scene import Line, Plane, Words
from nczfs.pictures.tiles import group_scene
from nczfs.testing.datasets import put_array, put_json
from nczfs.zmap.keys import parse_key
from tests.support.counted import CountedStore, variable
from tests.support.drawn import (
    chunk_reads,
    dataset_in,
    empty_store,
    map_store,
    put_line,
    put_unwritten,
)

HOSTILE = [
    "$\\frac{1}{",
    "$a$_{",
    "\\end{document}",
    "温度 ☃ \U0001f600 é",
    "\x00\x1b[31m\n\r\t",
    "x" * 5000,
]


def drawn(store: CountedStore, name: str) -> Image.Image:
    with dataset_in(store) as dataset:
        png = variable_picture(dataset, variable(dataset, name))
    return opened(png)


def opened(png: bytes) -> Image.Image:
    """The picture, read to its end, and its checksums."""
    with Image.open(BytesIO(png)) as image:
        image.verify()
    found = Image.open(BytesIO(png))
    found.load()
    assert found.format == "PNG"
    return found


def test_a_map_has_the_colours_of_its_values_and_grey_where_they_are_missing() -> None:
    store = map_store(_FillValue=0)
    image = drawn(store, "t2m").convert("RGB")
    assert image.size == (PREVIEW.width, PREVIEW.height)
    colours = {colour for _, colour in image.getcolors(1 << 20) or ()}
    viridis_end, missing = (253, 231, 36), (222, 222, 222)
    assert {viridis_end, missing} <= colours


def test_the_picture_of_the_same_values_is_the_same_file() -> None:
    store = map_store()
    with dataset_in(store) as dataset:
        first, second = (variable_picture(dataset, variable(dataset, "t2m")) for _ in range(2))
    assert first == second


def test_previews_are_png_of_exactly_one_size_also_of_noise() -> None:
    store = empty_store()
    noise = np.random.default_rng(1).random((400, 640))
    put_array(store, "v", noise, (400, 640), dimensions=("y", "x"))
    with dataset_in(store) as dataset:
        for png in (variable_picture(dataset, variable(dataset, "v")), group_picture(dataset, "")):
            found = preview(png)
            assert len(found) == PREVIEW_BYTES
            assert opened(found).size == (PREVIEW.width, PREVIEW.height)
            assert found.endswith(b"IEND\xaeB`\x82")


def test_no_picture_of_a_previews_pixels_is_larger_than_its_file() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (PREVIEW.height, PREVIEW.width, 3), "u1")
    out = BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    assert len(out.getvalue()) > PREVIEW_BYTES
    assert len(preview(out.getvalue())) == PREVIEW_BYTES


def test_padding_keeps_the_pixels() -> None:
    out = BytesIO()
    Image.new("RGB", (3, 2), (1, 2, 3)).save(out, "PNG")
    png = out.getvalue()
    assert bounded(png, len(png)) == png
    found = padded(png, len(png) + 12)
    assert len(found) == len(png) + 12
    assert opened(found).getpixel((2, 1)) == (1, 2, 3)


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_are_drawn_as_they_are(text: str) -> None:
    store = map_store(long_name=text, units=text, standard_name=text)
    put_line(store, "lat", np.array([1.0, 2, 3, 4]), units=text, long_name=text)
    put_array(store, "words", np.array([text[:40]] * 3), (3,), dimensions=("n",), fill_value="")
    drawn(store, "t2m")
    drawn(store, "words")
    with dataset_in(store) as dataset:
        opened(group_picture(dataset, ""))


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1e308, -1e308], [1.0, 2]]),
        np.array([[5e-324, 0.0], [0, 0]]),
        np.array([[np.nan, 1], [np.inf, -np.inf]]),
        np.array([[7, 7], [7, 7]]),
        np.array([[2**63 - 1, -(2**63)], [0, 1]]),
        np.array([[True, False], [True, True]]),
    ],
    ids=["huge", "tiny", "not finite", "constant", "integers", "truth"],
)
def test_numbers_of_any_size_are_drawn(values: np.ndarray) -> None:
    store = empty_store()
    put_array(store, "v", values, (2, 2), dimensions=("y", "x"), fill_value=None)
    put_array(store, "w", values.reshape(4), (4,), dimensions=("z",), fill_value=None)
    put_line(store, "z", np.array([-1e308, 0, 1, 1e308]))
    drawn(store, "v")
    drawn(store, "w")


@pytest.mark.parametrize(
    "numbers",
    [
        [0.0, 1e300, 2e300, 3e300],
        [-1.0, 0, 1e18, 1e19],
        [0.0, 1e-320, 2e-320, 3e-320],
        [730000.0, 730001, 730002, 2e6],
    ],
)
@pytest.mark.parametrize("calendar", ["standard", "360_day"])
def test_times_of_any_size_are_drawn(numbers: list[float], calendar: str) -> None:
    store = empty_store()
    put_array(store, "v", np.arange(4.0), (4,), dimensions=("time",), fill_value=None)
    put_array(store, "p", np.ones((4, 2)), (4, 2), dimensions=("time", "x"), fill_value=None)
    put_line(store, "time", np.array(numbers), units="days since 0001-01-01", calendar=calendar)
    drawn(store, "v")
    drawn(store, "p")
    drawn(store, "time")


def test_an_enumeration_has_its_meanings() -> None:
    store = empty_store()
    put_array(
        store,
        "v",
        np.array([[0, 1], [3, 9]], "i1"),
        (2, 2),
        dimensions=("y", "x"),
        attributes={"flag_values": [0, 1, 3], "flag_meanings": "land sea lake"},
        fill_value=None,
    )
    drawn(store, "v")


def test_lengths_of_10_to_the_12th_are_drawn() -> None:
    store = empty_store()
    put_unwritten(store, "v", (10**12, 10**12), (1000, 1000), ("y", "x"))
    drawn(store, "v")
    assert chunk_reads(store) <= 64


def test_a_group_shows_its_variables_first_and_coordinates_last() -> None:
    store = map_store()
    with dataset_in(store) as dataset:
        found = group_scene(dataset, "", PREVIEW)
    assert not isinstance(found, Plane | Line | Words)
    assert [tile.heading.title for tile in found.tiles] == ["t2m", "lat", "lon", "time"]
    assert found.heading.name == "4 variables"


def test_of_a_group_of_10000_variables_a_few_are_read() -> None:
    store = empty_store()
    for i in range(10_000):
        put_unwritten(store, f"v{i:05}", (1000, 1000), (10, 10), ("y", "x"))
    with dataset_in(store) as dataset:
        opened(group_picture(dataset, ""))
    assert chunk_reads(store) <= 64
    assert sum(store.reads.values()) < 400


def test_a_variable_that_cannot_be_read_does_not_hide_the_others() -> None:
    store = map_store()
    store.write(parse_key("t2m/0.0.0"), b"short")
    put_json(store, "lat/.zarray", {"zarr_format": 2})
    with dataset_in(store) as dataset:
        found = group_scene(dataset, "", PREVIEW)
        opened(group_picture(dataset, ""))
    assert not isinstance(found, Plane | Line | Words)
    assert isinstance(found.tiles[0], Words)
    assert "t2m/0.0.0" in found.tiles[0].lines[0]
    assert len(found.tiles) == 3


def test_an_integer_beyond_all_floats_spoils_no_picture() -> None:
    store = map_store()
    put_array(
        store,
        "v",
        np.array([1.0, 2], "<f4"),
        (2,),
        dimensions=("x",),
        attributes={"valid_min": -(10**400)},
        fill_value=None,
    )
    with dataset_in(store) as dataset:
        found = group_scene(dataset, "", PREVIEW)
    assert not isinstance(found, Plane | Line | Words)
    lines = [tile.values.tolist() for tile in found.tiles if isinstance(tile, Line)]
    assert [1.0, 2.0] in lines


def test_numbers_that_cannot_be_computed_with_are_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unpacked(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr("nczfs.pictures.composing.unpacked", unpacked)
    with dataset_in(map_store()) as dataset:
        found = group_scene(dataset, "", PREVIEW)
        with pytest.raises(MetadataError, match="t2m: cannot be drawn: too large"):
            variable_picture(dataset, variable(dataset, "t2m"))
    assert not isinstance(found, Plane | Line | Words)
    assert all(isinstance(tile, Words) for tile in found.tiles)


def test_many_threads_draw_at_once() -> None:
    store = map_store()
    with dataset_in(store) as dataset, ThreadPoolExecutor(8) as threads:
        node = variable(dataset, "t2m")
        found = list(threads.map(lambda _: variable_picture(dataset, node), range(16)))
    assert set(found) == {found[0]}


def test_a_full_picture_is_larger() -> None:
    with dataset_in(map_store()) as dataset:
        found = opened(variable_picture(dataset, variable(dataset, "t2m"), FULL))
    assert found.size == (FULL.width, FULL.height)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "find_spec", lambda name: None)
    assert not picture.is_available()
    with dataset_in(map_store()) as dataset, pytest.raises(UsageError, match=r"nczfs\[plot\]"):
        variable_picture(dataset, variable(dataset, "t2m"))


def test_the_library_is_imported_when_it_is_used_and_does_not_search_for_fonts() -> None:
    program = """if True:
        import sys
        from nczfs.pictures import fonts, picture
        assert picture.is_available()
        assert "matplotlib" not in sys.modules
        fonts.load()
        import matplotlib.font_manager as found
        import matplotlib.ft2font
        assert len(found.fontManager.ttflist) == 3, found.fontManager.ttflist
    """
    subprocess.run([sys.executable, "-c", program], check=True)
