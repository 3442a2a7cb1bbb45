"""GDAL's Zarr edge cases: read as zarr-python and GDAL read them, or refused softly."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.errors import BadMetadata, CodecError, NotADataset, UnknownCodec
from nczfs.fuse.errno import to_errno
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import mount_tree
from tests.conftest import ExpectedWarnings
from tests.support.mounts import nczfs as run_nczfs
from tests.support.reference import reference_root
from tests.support.trees import find, listing, read

Values = np.ndarray[Any, np.dtype[Any]]

ROOT = reference_root()
PLACE = ROOT / "gdal-zarr" if ROOT else None

BROKEN = "array_attrs.zarr"
UNKNOWN_CODEC = ("uint16_imagecodecs_tiff.zarr", "uint16_imagecodecs_tiff_invalid_tiff.zarr")

# zarr-python knows no nested structured types, and takes the implicit root of the other for none.
NOT_OF_ZARR_PYTHON = ("compound_complex.zarr", "group_with_zmetadata.zarr")


def datasets(pattern: str, *but: str) -> list[Path]:
    """Those of GDAL's datasets; none when there are no reference files."""
    found = sorted(PLACE.glob(pattern)) if PLACE else []
    return [path for path in found if path.name not in but]


def variables(directory: Path) -> list[str]:
    """The paths of the arrays of a dataset; "" is the root."""
    return sorted(
        "" if path.parent == directory else str(path.parent.relative_to(directory))
        for path in directory.rglob(".zarray")
    )


def opened(dataset: nczfs.OpenDataset, directory: Path, path: str) -> nczfs.Variable:
    variable = dataset[path or directory.name]
    assert isinstance(variable, nczfs.Variable)
    return variable


def raw(fs: TreeFileSystem, directory: Path, path: str, like: Values) -> Values:
    """The values in values.raw, which must have the size that `stat` says."""
    name = f"datasets/{directory.name}/{path}".rstrip("/") + "/values.raw"
    data = read(fs, name)
    assert len(data) == find(fs, name).size == like.nbytes
    return np.frombuffer(data, like.dtype).reshape(like.shape)


@pytest.mark.parametrize(
    "directory", datasets("*.zarr", BROKEN, *UNKNOWN_CODEC), ids=lambda path: path.name
)
def test_every_sound_dataset_opens_without_problems(directory: Path) -> None:
    fs = mount_tree(str(directory))
    with nczfs.open(str(directory)) as dataset:
        assert dataset.problems == ()
        names = variables(directory)
        assert names
        for path in names:
            variable = opened(dataset, directory, path)
            values = np.asarray(variable[...])
            assert raw(fs, directory, path, values).tobytes() == values.tobytes()
            place = f"datasets/{directory.name}/{path}".rstrip("/")
            info = json.loads(read(fs, f"{place}/info.json"))
            assert [p for p in info["problems"] if ".nc: is of type" not in p] == []
            assert info["shape"] == list(variable.shape)
    fs.close()


@pytest.mark.parametrize(
    "directory",
    datasets("*.zarr", BROKEN, *UNKNOWN_CODEC, *NOT_OF_ZARR_PYTHON),
    ids=lambda path: path.name,
)
def test_values_and_attributes_are_those_that_zarr_python_reads(directory: Path) -> None:
    fs = mount_tree(str(directory))
    with nczfs.open(str(directory)) as dataset:
        for path in variables(directory):
            with warnings.catch_warnings():
                # Structured types and fixed-length bytes have no v3 specification, says zarr.
                warnings.simplefilter("ignore")
                theirs = zarr.open_array(str(directory / path), mode="r", zarr_format=2)
                expected = np.asarray(theirs[...])
            ours = opened(dataset, directory, path)
            expected = expected.astype(expected.dtype.newbyteorder("="))
            assert ours.dtype == expected.dtype
            assert raw(fs, directory, path, expected).tobytes() == expected.tobytes()
            shown = json.loads(
                read(fs, f"datasets/{directory.name}/{path}".rstrip("/") + "/info.json")
            )["attributes"]
            hidden = ("_ARRAY_DIMENSIONS", "_NCProperties", "_NCZARR_")
            for name, value in theirs.attrs.asdict().items():
                if not name.startswith(hidden):
                    assert shown[name] == value, name
                    assert name in ours.attrs
    fs.close()


# GDAL 3.6 does not know the other filters; these are those that it can show as a raster.
OF_GDAL = {
    "array_dimensions.zarr": "var",
    "blosc.zarr": "",
    "byte_cf1.zarr": "Band1",
    "delta_filter_i4.zarr": "",
    "f2_le.zarr": "",
    "group_with_zmetadata.zarr": "foo/bar/baz",
    "gzip.zarr": "",
    "lz4.zarr": "",
    "lzma.zarr": "",
    "nczarr_v2.zarr": "MyGroup/Group_A/dset3",
    "order_f_u1.zarr": "",
    "order_f_u2.zarr": "",
    "order_f_u4.zarr": "",
    "zarr_with_stac_proj_epsg.zarr": "test",
    "zlib.zarr": "",
    "zstd.zarr": "",
}


@pytest.mark.parametrize(
    "directory",
    [path for path in datasets("*.zarr") if path.name in OF_GDAL]
    if shutil.which("gdal_translate")
    else [],
    ids=lambda path: path.name,
)
def test_values_are_those_that_gdal_reads(directory: Path, tmp_path: Path) -> None:
    path = OF_GDAL[directory.name]
    name = path or directory.name.removesuffix(".zarr")
    source = f'ZARR:"{directory}":/{name}'
    output = tmp_path / "values"
    done = subprocess.run(
        ["gdal_translate", "-q", "-of", "ENVI", source, str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with nczfs.open(str(directory)) as dataset:
        values = np.asarray(opened(dataset, directory, path)[...])
    # ENVI has no half floats.
    expected = values.astype("f4") if values.dtype == np.float16 else values
    assert output.read_bytes() == expected.tobytes()


@pytest.mark.parametrize("directory", datasets("compound_complex.zarr"), ids=["compound_complex"])
def test_nested_structures_are_packed_as_stored(directory: Path) -> None:
    """|u1, then (|u1, |u1, <u2, |u1), then |S3, then |i1; the fill value is in base64."""
    stored = (directory / "0").read_bytes()
    fs = mount_tree(str(directory))
    data = read(fs, "datasets/compound_complex.zarr/values.raw")
    assert data[:10] == stored
    with nczfs.open(str(directory)) as dataset:
        fill = opened(dataset, directory, "").fill_value
    if not (directory / "1").exists():
        assert data[10:] == np.asarray(fill).tobytes()
    assert len(data) == 20
    fs.close()


@pytest.mark.parametrize(
    "directory", datasets("group_with_zmetadata.zarr"), ids=["group_with_zmetadata"]
)
def test_nested_groups_are_found(directory: Path) -> None:
    with nczfs.open(str(directory)) as dataset:
        assert list(dataset.groups) == ["foo"]
        bar = dataset["foo/bar"]
        assert isinstance(bar, nczfs.Group)
        assert dict(bar.attrs) == {"foo": "bar"}
        assert list(bar.variables) == ["baz"]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("directory", datasets(BROKEN), ids=[BROKEN] if PLACE else [])
def test_a_document_that_is_not_json_breaks_its_array_alone(
    directory: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS A4."""
    expected_warnings.add(r"array_attrs\.zarr/\.zarray: not JSON")
    with pytest.raises(BadMetadata, match=r"array_attrs\.zarr/\.zarray: not JSON at character 58"):
        nczfs.open(str(directory))
    done = run_nczfs("info", directory)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert ".zarray: not JSON" in done.stderr
    fs = mount_tree(str(directory.parent))
    assert list(listing(fs, f"datasets/{BROKEN}")) == ["info.json"]
    (problem,) = json.loads(read(fs, f"datasets/{BROKEN}/info.json"))["problems"]
    assert ".zarray: not JSON" in problem
    assert read(fs, "datasets/gzip.zarr/values.raw") == b"\1\2"
    fs.close()


@pytest.mark.parametrize("directory", datasets("uint16_imagecodecs_tiff*"), ids=lambda p: p.name)
def test_an_unknown_codec_fails_the_values_and_nothing_else(
    directory: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("imagecodecs_tiff")
    with nczfs.open(str(directory)) as dataset:
        (name,) = (path for path in variables(directory) if path.startswith("uint16"))
        variable = opened(dataset, directory, name)
        assert variable.dtype == np.uint16
        size = variable.size
        with pytest.raises(UnknownCodec, match="imagecodecs_tiff"):
            variable[...]
        for sibling in set(variables(directory)) - {name}:
            assert np.asarray(opened(dataset, directory, sibling)[...]).size == 20
    fs = mount_tree(str(directory))
    place = f"datasets/{directory.name}/{name}"
    assert find(fs, f"{place}/values.raw").size == 2 * size
    with pytest.raises(CodecError) as caught:
        read(fs, f"{place}/values.raw")
    assert to_errno(caught.value) == errno.EIO
    info = json.loads(read(fs, f"{place}/info.json"))
    assert [codec["id"] for codec in info["codecs"]] == ["imagecodecs_tiff"]
    (problem,) = info["problems"]
    assert "imagecodecs_tiff" in problem
    fs.close()


@pytest.mark.parametrize("directory", datasets("kerchunk_*/*"), ids=lambda path: path.name)
def test_kerchunk_references_are_plain_directories(directory: Path) -> None:
    """They are described by JSON or parquet files, which this version does not read."""
    with pytest.raises(NotADataset, match="no Zarr or NCZarr group or array"):
        nczfs.open(str(directory))
    fs = mount_tree(str(directory))
    expected = [path.name for path in directory.iterdir() if path.is_dir()]
    assert list(listing(fs, "datasets")) == expected
    fs.close()
