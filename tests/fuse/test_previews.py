"""`preview.png` in a real mount."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import nczfs
from nczfs.pictures.picture import PREVIEW_BYTES
from tests.support.mounts import mounted
from tests.support.mounts import nczfs as run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("previews")
    with nczfs.open(str(directory / "store/d.zarr"), "w") as root:
        root.create_variable("v", (30, 40), data=np.arange(1200.0).reshape(30, 40))
        root.create_variable("still", (4,), data=np.arange(4.0))
    options = ["--previews", "--spool-dir", str(directory / "spool")]
    with mounted(directory / "store", *options, expect="preview.png") as path:
        yield path / "datasets/d.zarr"


def pixels(path: Path) -> bytes:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return image.tobytes()


def test_programs_take_it_for_a_png_and_copy_all_of_it(place: Path, tmp_path: Path) -> None:
    """SEMANTICS D25."""
    for path in (place / "v/preview.png", place / "preview.png"):
        assert path.name in os.listdir(path.parent)
        assert path.stat().st_size == PREVIEW_BYTES
        kind = subprocess.run(["file", "-b", path], capture_output=True, text=True, check=True)
        assert kind.stdout.startswith("PNG image data, 640 x 400")
        copy = tmp_path / path.parent.name
        subprocess.run(["cp", path, copy], check=True)
        assert copy.stat().st_size == PREVIEW_BYTES
        assert pixels(copy) == pixels(path)


def test_it_changes_after_a_write(place: Path) -> None:
    """SEMANTICS D37."""
    before, of_group = pixels(place / "v/preview.png"), pixels(place / "preview.png")
    with (place / "v/values.raw").open("r+b") as file:
        file.write(np.full(600, 5000.0).tobytes())
    assert pixels(place / "v/preview.png") != before
    assert pixels(place / "preview.png") != of_group


def test_an_open_file_is_one_picture_to_its_end(place: Path) -> None:
    """SEMANTICS D37."""
    with (place / "v/preview.png").open("rb", buffering=0) as first:
        begun = os.read(first.fileno(), 4096)
        with (place / "v/values.raw").open("r+b") as file:
            file.seek(600 * 8)
            file.write(np.arange(600.0).tobytes())
        new = pixels(place / "v/preview.png")
        with Image.open(BytesIO(begun + first.read())) as image:
            assert image.tobytes() != new  # and its checksums are right


def test_it_can_be_mapped_as_viewers_do(place: Path) -> None:
    with (place / "still/preview.png").open("rb") as file:
        kept = file.read()
        for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            with mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as mapped:
                assert mapped[:] == kept


def test_it_cannot_be_written(place: Path) -> None:
    """SEMANTICS D38."""
    with pytest.raises(PermissionError) as refused:
        (place / "v/preview.png").write_bytes(b"")
    assert refused.value.errno in (errno.EACCES, errno.EPERM)
    with pytest.raises(PermissionError):
        (place / "v/preview.png").unlink()


def test_a_mount_does_not_list_it_unless_asked_to(tmp_path: Path) -> None:
    """SEMANTICS D36."""
    with mounted(_store(tmp_path)) as path:
        group = path / "datasets/d.zarr"
        listed = {name for _, _, names in os.walk(group) for name in names}
        assert "values.raw" in listed
        assert "preview.png" not in listed
        assert pixels(group / "v/preview.png")


def test_without_the_library_a_mount_with_the_option_says_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: (\n"
        "    None if name == 'matplotlib' else found(name, *rest)\n"
        ")\n"
    )
    at = tmp_path / "at"
    at.mkdir()
    done = run("mount", "--previews", _store(tmp_path), at, PYTHONPATH=str(hidden))
    assert done.returncode == 2
    assert "pip install 'nczfs[plot]'" in done.stderr


def _store(directory: Path) -> Path:
    with nczfs.open(str(directory / "store/d.zarr"), "w") as root:
        root.create_variable("v", (4,), data=np.arange(4.0))
    return directory / "store"
