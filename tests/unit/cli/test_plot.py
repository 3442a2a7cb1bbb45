"""``nczfs plot``: a picture as a file, or into a pipe."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import nczfs
from nczfs import messages
from nczfs.cli.main import main
from nczfs.pictures import composing, picture
from nczfs.pictures.limits import FULL
from nczfs.pictures.scene import Plane


@pytest.fixture(scope="module", params=["zarr2", "nczarr-L3"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("plot") / "d.zarr")
    with nczfs.open(place, "w", format=request.param) as root:
        for name, size in {"time": 3, "lat": 4, "lon": 6}.items():
            root.create_dimension(name, size)
        values = np.arange(72.0).reshape(3, 4, 6)
        root.create_variable("t", ("time", "lat", "lon"), data=values, chunks=(1, 2, 3))
        for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
            size = root.dimensions[name].size
            root.create_variable(
                name, (name,), data=np.arange(float(size)), attributes={"units": units}
            )
    return place


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scenes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was drawn."""
    found: list[Any] = []
    compose = composing.variable_scene

    def noted(*arguments: Any) -> Any:
        found.append(compose(*arguments))
        return found[-1]

    monkeypatch.setattr(composing, "variable_scene", noted)
    return found


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        return image.size


def test_a_variable_is_drawn_with_its_coordinates_into_a_file_that_is_named(
    url: str, here: Path, scenes: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", f"{url}/t"]) == 0
    assert capsys.readouterr().out == "t.png\n"
    assert size_of(here / "t.png") == (FULL.width, FULL.height)
    (scene,) = scenes
    assert isinstance(scene, Plane)
    assert scene.is_map


def test_a_file_that_exists_is_replaced_only_if_it_is_named(
    url: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.png").write_text("mine")
    assert main(["plot", f"{url}/t"]) == 1
    assert "t.png: exists already; -o t.png replaces it" in capsys.readouterr().err
    assert (here / "t.png").read_text() == "mine"
    assert main(["plot", f"{url}/t", "-o", "t.png"]) == 0
    assert size_of(here / "t.png")


def test_a_box_is_drawn_as_it_is(url: str, scenes: list[Any]) -> None:
    assert main(["plot", f"{url}/t", "-b", "2, 1:3, ::2"]) == 0
    (scene,) = scenes
    assert scene.values.tolist() == [[54, 56, 58], [60, 62, 64]]
    assert scene.x.values.tolist() == [0, 2, 4]
    assert scene.heading.notes == ("time index 2 of 3",)


def test_a_group_is_drawn(url: str, here: Path) -> None:
    assert main(["plot", url, "--output", "all.png"]) == 0
    assert size_of(here / "all.png")


def test_the_picture_goes_into_a_pipe(url: str, here: Path) -> None:
    command = [sys.executable, "-m", "nczfs.cli.main", "plot", f"{url}/t", "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stderr == b""
    (here / "piped.png").write_bytes(done.stdout)
    assert size_of(here / "piped.png")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["/t", "-b", "7"], 1, "7"),
        (["/t", "-b", "one"], 2, "--box 'one'"),
        (["", "-b", "0"], 2, "is a group"),
        (["/none"], 1, "none"),
    ],
)
def test_what_cannot_be_drawn_says_why(
    url: str,
    here: Path,
    words: list[str],
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plot", url + words[0], *words[1:]]) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(here.iterdir())


def test_an_error_names_the_key(
    here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with nczfs.open(str(tmp_path / "d.zarr"), "w", format="zarr2") as root:
        root.create_variable("v", (4,), data=np.arange(4.0))
    (tmp_path / "d.zarr/v/0").write_bytes(b"broken")
    assert main(["plot", str(tmp_path / "d.zarr/v")]) == 1
    assert "v/0" in capsys.readouterr().err
    assert not list(here.glob("*.png"))


def test_without_the_library_the_command_says_what_to_install(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(picture, "find_spec", lambda name: None)
    assert main(["plot", f"{url}/t"]) == 2
    line = capsys.readouterr().err
    assert f"{shlex.quote(sys.executable)} -m pip install 'nczfs[plot]'" in line
    monkeypatch.setattr(messages, "find_spec", lambda name: None)  # as in the Debian package
    assert main(["plot", f"{url}/t"]) == 2
    line = capsys.readouterr().err
    assert ": pip install 'nczfs[plot]', where pip has installed nczfs" in line
