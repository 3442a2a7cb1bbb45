"""Programs that know netCDF, on the live files of a real mount."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.interop.netcdf_programs.field import (
    EDITED,
    ELEMENT,
    FIELD,
    RECORD_DIMENSION,
    STEP,
    stored_field,
    write_field,
    write_native,
    write_sharded_field,
)
from tests.interop.netcdf_programs.program import FORMATS, NETCDF4, SUFFIX, Live, Program, printed
from tests.interop.netcdf_programs.table import PROGRAMS
from tests.support.mounts import mounted
from tests.support.sample import keys_of, upload
from tests.support.servers import S3Server

CHANGED = "t2m/1.0.0"
"""The chunk of an edit."""
CHANGED_SHARD = "t2m/c/0/0/0"

Record = Callable[[str, object], None]


def marked(program: Program, *more: str) -> object:
    marks = [pytest.mark.long] if program.long else []
    return pytest.param(program, *more, marks=marks, id="-".join([program.name, *more]))


READING = [
    marked(program, form) for program, form in product(PROGRAMS, FORMATS) if form in program.formats
]
EDITING = [
    marked(program, form)
    for program, form in product(PROGRAMS, FORMATS)
    if program.edit is not None and form in program.formats
]
SPOILING = [
    marked(program, form)
    for program, form in product(PROGRAMS, FORMATS)
    if program.spoil is not None and form in program.formats
]


IN_SHARDS = (
    *("nccopy", "NCO ncra", "xarray, h5netcdf", "h5py", "scipy.io.netcdf_file", "pyfive"),
    *("C", "Fortran", "od"),
)
"""Programs that the default run has read Zarr v3 in shards, besides those of
tests/fuse/test_zarr3.py; the long form has all of them do it."""
CHANGING_SHARDS = ("Fortran",)


def in_shards(program: Program, form: str, names: tuple[str, ...] = IN_SHARDS) -> object:
    marks = [] if program.name in names else [pytest.mark.long]
    return pytest.param(program, form, marks=marks, id=f"{program.name}-{form}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store")
    write_field(directory, "field")
    write_field(directory, "later", STEP)
    write_sharded_field(directory, "sharded")
    write_sharded_field(directory, "sharded_later", STEP)
    return directory


@pytest.fixture(scope="module")
def mount(store: Path) -> Iterator[Path]:
    refused = "EPERM"  # what programs try that are more than edits of values
    with mounted(store, "--record-dim", RECORD_DIMENSION, expect=refused) as path:
        yield path


FAR_LONG = ("NCO ncdiff", "NCO ncrcat", "Octave netcdf")
"""Programs of which only the long form reads from S3."""
FAR = (
    *("ncdump", "nccopy", "NCO ncks", "NCO ncra", "CDO", "GDAL", "h5dump"),
    *FAR_LONG,
    *("netCDF4-python", "xarray, h5netcdf", "pyfive", "C", "Fortran", "R ncdf4", "od"),
)
"""Programs that read from S3, too."""
EDITING_FAR = ("Fortran", "netCDF4-python", "h5py")
"""Programs that change a value in S3; all but the first one in the long form alone."""
EDITED_FAR = {pair: f"edited{number}" for number, pair in enumerate(product(EDITING_FAR, FORMATS))}


@pytest.fixture(scope="module")
def far(swift: S3Server, delayed_swift: S3Server, store: Path) -> Iterator[tuple[str, Path]]:
    """A bucket with the datasets, 20 ms away, and where it is mounted."""
    bucket = swift.new_bucket()
    client = swift.client()
    for name in ("field", "later", *EDITED_FAR.values()):
        source = "later" if name == "later" else "field"
        upload(client, bucket, f"{name}.zarr", store / f"{source}.zarr")
    client.close()
    with mounted(delayed_swift.url(bucket), "--record-dim", RECORD_DIMENSION) as path:
        yield bucket, path


@pytest.fixture
def noted(record_property: Record) -> Callable[[Program, str], None]:
    """Write into the report what was tried with a program; the table is made of that."""

    def note(program: Program, what: str) -> None:
        record_property("program", program.name)
        record_property("version", program.version())
        record_property("what", what)

    return note


def live_files(
    mount: Path, form: str, scratch: Path, name: str = "field", after: str = "later"
) -> Live:
    file, later = (mount / f"datasets/{each}.zarr/{each}{SUFFIX[form]}" for each in (name, after))
    return Live(file, later, scratch)


@pytest.mark.parametrize(("program", "form"), READING)
def test_a_program_reads_every_value(
    program: Program,
    form: str,
    mount: Path,
    store: Path,
    tmp_path: Path,
    noted: Callable[[Program, str], None],
) -> None:
    noted(program, form)
    found = program.read(live_files(mount, form, tmp_path))
    np.testing.assert_array_equal(found, program.expected(stored_field(store, "field")))


@pytest.mark.parametrize(
    ("program", "form"),
    [in_shards(p, form) for p, form in product(PROGRAMS, FORMATS) if form in p.formats],
)
def test_a_program_reads_every_value_of_shards(
    program: Program, form: str, mount: Path, store: Path, tmp_path: Path
) -> None:
    found = program.read(live_files(mount, form, tmp_path, "sharded", "sharded_later"))
    np.testing.assert_array_equal(found, program.expected(stored_field(store, "sharded")))


CHUNKS = re.compile(r'Block=\S+ |,\s*"block_size": \[[^\]]*\]')
"""What GDAL says of the chunks of a netCDF-4 file, which live files do not have."""

OPERATIONS = {
    "cdo infon": ("cdo", "-s", "infon", "-selname,t2m", "FILE"),
    "cdo sinfon": ("cdo", "-s", "sinfon", "-selname,t2m", "FILE"),
    "cdo fldmean": ("cdo", "-s", "outputf,%.9g,1", "-fldmean", "-selname,t2m", "FILE"),
    "cdo timmean": ("cdo", "-s", "outputf,%.9g,1", "-timmean", "-selname,t2m", "FILE"),
    "cdo remapbil": ("cdo", "-s", "outputf,%.9g,1", "-remapbil,r8x4", "-selname,t2m", "FILE"),
    "gdalinfo": ("gdalinfo", "-checksum", 'NETCDF:"FILE":t2m'),
    "gdalmdiminfo": ("gdalmdiminfo", "-detailed", "-array", "t2m", "FILE"),
    "ncks metadata": ("ncks", "-m", "-C", "-v", "t2m", "FILE"),
    "ncks part": ("ncks", "-H", "-C", "-d", "time,1,2", "-v", "t2m,lat", "FILE"),
}


@pytest.mark.parametrize("command", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("form", FORMATS)
def test_what_a_program_says_is_what_it_says_of_a_native_file(
    command: tuple[str, ...], form: str, mount: Path, tmp_path: Path
) -> None:
    live = live_files(mount, form, tmp_path).file
    native = write_native(tmp_path / live.name, "NETCDF4" if form == NETCDF4 else "NETCDF3_CLASSIC")
    said = [
        printed(*(word.replace("FILE", str(file)) for word in command)).replace(str(file), "FILE")
        for file in (live, native)
    ]
    assert CHUNKS.sub("", said[0]) == CHUNKS.sub("", said[1])


@pytest.mark.parametrize(("program", "form"), EDITING)
def test_a_program_changes_a_value_in_place(
    program: Program,
    form: str,
    mount: Path,
    store: Path,
    tmp_path: Path,
    noted: Callable[[Program, str], None],
) -> None:
    """SEMANTICS W48."""
    noted(program, f"edits {form}")
    check_edit(program, form, mount, store, tmp_path, "field", CHANGED)


@pytest.mark.parametrize(
    ("program", "form"),
    [
        in_shards(p, form, CHANGING_SHARDS)
        for p, form in product(PROGRAMS, FORMATS)
        if p.edit is not None and form in p.formats
    ],
)
def test_a_program_changes_a_value_of_a_shard_in_place(
    program: Program, form: str, mount: Path, store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W48."""
    check_edit(program, form, mount, store, tmp_path, "sharded", CHANGED_SHARD)


def check_edit(
    program: Program, form: str, mount: Path, store: Path, scratch: Path, source: str, key: str
) -> None:
    """A program edits a copy of a dataset, of which one object changes."""
    name = f"edited{sum(1 for _ in store.iterdir())}"
    shutil.copytree(store / f"{source}.zarr", store / f"{name}.zarr")
    assert program.edit is not None
    program.edit(live_files(mount, form, scratch, name))
    changed = FIELD.copy()
    changed[ELEMENT] = EDITED
    np.testing.assert_array_equal(stored_field(store, name), changed)
    kept, after = keys_of(store / f"{source}.zarr"), keys_of(store / f"{name}.zarr")
    assert after.keys() == kept.keys()
    differing = [key for key, path in after.items() if path.read_bytes() != kept[key].read_bytes()]
    assert differing == [key]


@pytest.mark.parametrize(("program", "form"), SPOILING)
def test_a_change_of_more_than_values_is_refused_and_changes_nothing(
    program: Program, form: str, mount: Path, store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W48."""
    live = live_files(mount, form, tmp_path, "later")
    before = live.file.read_bytes()
    stored = {key: path.read_bytes() for key, path in keys_of(store / "later.zarr").items()}
    assert program.spoil is not None
    done = program.spoil(live)
    refusal = program.refusals[FORMATS.index(form)]
    assert re.search(refusal, done.stdout + done.stderr), (done.stdout, done.stderr)
    assert live.file.read_bytes() == before
    assert {k: path.read_bytes() for k, path in keys_of(store / "later.zarr").items()} == stored


@pytest.mark.parametrize(
    ("program", "form"),
    [
        marked(replace(p, long=p.long or p.name in FAR_LONG), form)
        for p in PROGRAMS
        if p.name in FAR
        for form in p.formats
    ],
)
def test_a_program_reads_every_value_from_s3(
    program: Program, form: str, far: tuple[str, Path], store: Path, tmp_path: Path
) -> None:
    found = program.read(live_files(far[1], form, tmp_path))
    np.testing.assert_array_equal(found, program.expected(stored_field(store, "field")))


@pytest.mark.parametrize(
    ("program", "form"),
    [
        marked(replace(p, long=p.name != EDITING_FAR[0]), form)
        for p in PROGRAMS
        if p.name in EDITING_FAR
        for form in p.formats
    ],
)
def test_a_program_changes_a_value_in_s3(
    program: Program, form: str, far: tuple[str, Path], swift: S3Server, store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W48."""
    bucket, mount = far
    name = EDITED_FAR[program.name, form]
    assert program.edit is not None
    program.edit(live_files(mount, form, tmp_path, name))
    shutil.copytree(store / "field.zarr", tmp_path / f"{name}.zarr")
    key = f"{name}.zarr/{CHANGED}"
    client = swift.client()
    body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    client.close()
    (tmp_path / key).write_bytes(body)
    changed = FIELD.copy()
    changed[ELEMENT] = EDITED
    np.testing.assert_array_equal(stored_field(tmp_path, name), changed)
