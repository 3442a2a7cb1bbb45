"""Datasets of Zarr v3 that other programs wrote have the values that their notes say.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

import base64
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr

import nczfs
from nczfs.errors import MetadataError, UnknownCodec
from nczfs.library.api import OpenDataset
from nczfs.library.variable import Variable
from nczfs.testing.documents import documents_in
from tests.support.reference import Case, load, reference_root

ROOT = reference_root()
CASES = sorted((ROOT / "zarr").glob("v3-*")) if ROOT else []
GDAL = sorted((ROOT / "gdal-zarr" / "v3").iterdir()) if ROOT else []


@pytest.fixture(params=CASES, ids=lambda path: path.name)
def case(request: pytest.FixtureRequest) -> Case:
    return load(request.param)


def variable_at(dataset: OpenDataset, path: str) -> Variable:
    found = dataset[path]
    assert isinstance(found, Variable)
    return found


def test_arrays_are_described_and_read_as_their_notes_say(case: Case) -> None:
    with nczfs.open(str(case.store)) as dataset:
        for path, told in case.notes["arrays"].items():
            variable = variable_at(dataset, path)
            assert list(variable.shape) == told["shape"]
            check_attributes(variable, told.get("attributes", {}))
            values = np.asarray(variable[...])
            if path in case.values:
                assert_same(values, case.values[path])
            elif "values" in told:
                assert values.tolist() == plain(told["values"])


def check_attributes(variable: Variable, told: dict[str, Any]) -> None:
    for name, value in told.items():
        if name == "_FillValue":
            (number,) = np.frombuffer(base64.b64decode(value), "<f8")
            assert repr(float(variable.attrs[name])) == repr(float(number))
        else:
            assert variable.attrs[name] == value


def assert_same(values: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    if values.dtype.kind in "Mm":
        values = values.view(np.int64)
    assert values.shape == expected.shape
    if values.dtype.kind in "OU" or expected.dtype.kind in "OU":
        assert values.tolist() == expected.tolist()
    else:
        assert values.tobytes() == expected.astype(values.dtype).tobytes()


def plain(told: Any) -> Any:
    if isinstance(told, list):
        return [plain(item) for item in told]
    return base64.b64decode(told["b64"]) if isinstance(told, dict) else told


@pytest.mark.parametrize("path", CASES and ["bad_key", "bad_dtype", "bad_codec"])
def test_what_must_be_understood_is_refused_alone(path: str) -> None:
    assert ROOT is not None
    with nczfs.open(str(ROOT / "zarr" / "v3-must-understand" / "data.zarr")) as dataset:
        with pytest.raises((MetadataError, UnknownCodec), match=r"surprise|unheard-of"):
            variable_at(dataset, path)[...]
        assert variable_at(dataset, "ok")[...].size == 4


def read_by_others(place: Path) -> np.ndarray[Any, Any]:
    """The values of an array as zarr-python reads them, or tensorstore what that refuses."""
    if place.name != "transposed_sharding.zarr":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
            return np.asarray(zarr.open_array(str(place), mode="r")[...])
    kvstore = {"driver": "file", "path": str(place)}
    found = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
    return np.asarray(found.read().result())


@pytest.mark.parametrize("place", GDAL, ids=lambda path: path.name)
def test_the_cases_of_gdal_have_the_values_that_others_read(place: Path) -> None:
    documents = documents_in(place)
    paths = [key.rpartition("/")[0] for key in documents.keys()]  # noqa: SIM118
    with nczfs.open(str(place)) as dataset:
        for path in paths:
            node = dataset[path] if path else dataset
            stored = json.loads(documents.get(f"{path}/zarr.json".lstrip("/")) or b"")
            if stored["node_type"] == "array":
                found = variable_at(dataset, path or place.name)
                assert_same(np.asarray(found[...]), read_by_others(place / path))
            else:
                assert not isinstance(node, Variable)
