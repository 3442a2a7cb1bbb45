"""What nczfs writes in Zarr v3, other programs read, and the reverse, to the bit.

What a program refuses or reads differently stands in zarr3/known.py in its own words; the tests
hold that it is neither more nor less than that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.errors import NczfsError
from tests.interop.matrix.programs import run
from tests.interop.zarr3.arrays import Array
from tests.interop.zarr3.cases import arrays, covering, every, few
from tests.interop.zarr3.elements import Values
from tests.interop.zarr3.known import (
    DIFFERENCES,
    NOT_TRIED,
    READERS_REFUSE,
    WRITERS_REFUSE,
    Rule,
)
from tests.interop.zarr3.page import table
from tests.interop.zarr3.programs import FOREIGN, MOUNT, OURS, VALUES, ZARR, Program, prepare, state


def is_quick(writer: Program, reader: Program, form: str) -> bool:
    """Whether a test is run in the short form: a mount takes a second to start."""
    return form == "few" and (reader.name != MOUNT or writer.name == ZARR)


FORMS = {"few": few, "pairs": covering, "every": every}
LONG = pytest.mark.long, pytest.mark.timeout(3600)
ALL = (*FOREIGN, *OURS)
WRITERS = [
    pytest.param(writer, form, marks=() if form == "few" else LONG)
    for writer in ALL
    for form in FORMS
]
PAIRS = [
    pytest.param(writer, reader, form, marks=() if is_quick(writer, reader, form) else LONG)
    for writer in ALL
    for reader in ALL
    for form in FORMS
    if (writer in OURS or reader in OURS) and reader.name != VALUES
]


@cache
def cases(form: str) -> tuple[Array, ...]:
    return tuple(arrays(FORMS[form]()))


Stored = Callable[[Program, str], tuple[Path, dict[str, str]]]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """The store of a program, written once, and what it refused to write, by name."""
    made: dict[tuple[str, str], tuple[Path, dict[str, str]]] = {}

    def store_of(writer: Program, form: str) -> tuple[Path, dict[str, str]]:
        key = writer.name, form
        if key not in made:
            root = tmp_path_factory.mktemp("store") / "d.zarr"
            made[key] = root, written(writer, root, cases(form))
        return made[key]

    return store_of


def written(writer: Program, root: Path, wanted: Iterable[Array]) -> dict[str, str]:
    prepare(root)
    to_write = [array for array in wanted if not untried(array, writer.name, None)]
    if writer.is_given_documents:
        for array in to_write:
            state(root, array)
    refused = {}
    with writer.writing(root) as store:
        for array in to_write:
            try:
                writer.write(store, array)
            except Exception as error:  # noqa: BLE001 - whatever it is, a rule has to know it
                refused[array.name] = f"{type(error).__name__}: {error}"
    return refused


def untried(array: Array, writer: str, reader: str | None) -> bool:
    rules = [rule for rule in NOT_TRIED if reader is None or rule.reader is not None]
    return any(rule.covers(array, writer, reader) for rule in rules) or (
        writer == MOUNT and array.element.is_object  # which has no values.raw
    )


def shown(reader: Program, store: object, array: Array) -> str:
    """What a program does with an array that it does not read as it was to be written."""
    try:
        found = reader.read(store, array)
    except Exception as error:  # noqa: BLE001 - whatever it is, a rule has to know it
        return f"{type(error).__name__}: {error}"
    return difference(found, array.values)


def difference(found: Values, wanted: Values) -> str:
    """Empty: they are the same, to the bit."""
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.hasobject:
        is_same = list(found.flat) == list(wanted.flat)
    elif found.dtype.newbyteorder("=") != wanted.dtype.newbyteorder("="):
        return f"type {found.dtype}, not {wanted.dtype}"
    else:
        is_same = found.astype(wanted.dtype).tobytes() == wanted.tobytes()
    return "" if is_same else f"values {found.ravel()[:99]}, not {wanted.ravel()[:99]}"


def check(
    outcomes: dict[Array, str], rules: tuple[Rule, ...], writer: str, reader: str | None
) -> None:
    """Check that what happened is what is known, no more and no less."""
    unknown: list[tuple[object, ...]] = []
    met: set[Rule] = set()
    alone: set[Rule] = set()
    for array, words in outcomes.items():
        covering = [rule for rule in rules if rule.covers(array, writer, reader)]
        matching = {rule for rule in covering if re.search(rule.words, words, re.DOTALL)}
        met |= matching
        alone |= set(covering) if len(covering) == 1 and array.shows_fill else set()
        is_known = bool(matching) if words else not covering or not array.shows_fill
        if not is_known:
            unknown.append((array.name, sorted(array.tags), words, [r.what for r in covering]))
    assert unknown == []
    assert [rule.what for rule in alone - met] == [], "no longer so: known.py is out of date"


def name_of(program: object) -> str:
    return program.name.replace(" ", "-") if isinstance(program, Program) else str(program)


@pytest.mark.parametrize(("writer", "form"), WRITERS, ids=name_of)
def test_what_a_program_refuses_to_write_is_known(
    writer: Program, form: str, stored: Stored
) -> None:
    _, refused = stored(writer, form)
    tried = [array for array in cases(form) if not untried(array, writer.name, None)]
    rules = tuple(rule for rule in WRITERS_REFUSE if rule.writer == writer.name)
    check({array: refused.get(array.name, "") for array in tried}, rules, writer.name, None)


@pytest.mark.parametrize(("writer", "reader", "form"), PAIRS, ids=name_of)
def test_what_one_program_writes_another_reads(
    writer: Program, reader: Program, form: str, stored: Stored
) -> None:
    root, refused = stored(writer, form)
    tried = [
        array
        for array in cases(form)
        if array.name not in refused
        and not untried(array, writer.name, None)
        and not untried(array, writer.name, reader.name)
    ]
    with reader.reading(root) as store:
        outcomes = {array: shown(reader, store, array) for array in tried}
    check(outcomes, (*READERS_REFUSE, *DIFFERENCES), writer.name, reader.name)
    assert any(np.size(array.values) and not outcomes[array] for array in tried)


def test_gdal_of_debian_12_has_only_a_draft_of_zarr_3(tmp_path: Path) -> None:
    made, draft = tmp_path / "made.zarr", tmp_path / "draft.zarr"
    with nczfs.open(str(made), "w", format="zarr3") as dataset:
        dataset.create_variable("v", (4,), "i4", [1, 2, 3, 4])
    assert "arrays" not in json.loads(run("gdalmdiminfo", str(made)))
    run("gdalmdimtranslate", "-q", "-of", "ZARR", "-co", "FORMAT=ZARR_V3", str(made), str(draft))
    with pytest.raises(
        NczfsError, match=r"zarr_format is 'https://purl.org/zarr/spec/protocol/core/3.0"
    ):
        nczfs.open(str(draft))


def test_netcdf_c_does_not_read_zarr_3(tmp_path: Path) -> None:
    made = tmp_path / "made.zarr"
    with nczfs.open(str(made), "w", format="zarr3") as dataset:
        dataset.create_variable("v", (4,), "i4", [1, 2, 3, 4])
    url = f"file://{made}#mode=zarr,file"
    assert "variables" not in run("ncdump", "-h", url)
    with pytest.raises(OSError, match="NetCDF: Unknown file format"):
        netCDF4.Dataset(url)


def test_the_page_on_zarr_3_shows_what_is_known() -> None:
    page = Path(__file__).parents[2] / "docs" / "zarr-v3.md"
    assert table() in page.read_text(), "run python -m tests.interop.zarr3.page, and paste"
