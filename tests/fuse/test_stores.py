"""The same dataset on real mounts over every store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mounts import mounted
from tests.support.sample import ATTRIBUTES, check_sample, keys_of, upload, write_sample, zip_up
from tests.support.servers import S3Server

NAME = "sample.zarr"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample") / NAME
    write_sample(directory)
    return directory


def in_a_directory(sample: Path, place: Path, _: pytest.FixtureRequest) -> str:
    shutil.copytree(sample, place / NAME)
    return str(place)


def in_a_zip_of_keys(sample: Path, place: Path, _: pytest.FixtureRequest) -> str:
    zip_up(sample, place / f"{NAME}.zip")
    return str(place / f"{NAME}.zip")


def in_a_zip_of_a_directory(sample: Path, place: Path, _: pytest.FixtureRequest) -> str:
    zip_up(sample, place / f"{NAME}.zip", top=NAME)
    return str(place / f"{NAME}.zip")


def in_a_zip_below_a_directory(sample: Path, place: Path, _: pytest.FixtureRequest) -> str:
    zip_up(sample, place / f"{NAME}.zip")
    (place / "readme.txt").write_text("not a dataset")
    return str(place)


def on_s3(sample: Path, _: Path, request: pytest.FixtureRequest) -> str:
    server: S3Server = request.getfixturevalue("swift")
    return _uploaded(server, server, sample)


def on_s3_far_away(sample: Path, _: Path, request: pytest.FixtureRequest) -> str:
    server: S3Server = request.getfixturevalue("swift")
    return _uploaded(server, request.getfixturevalue("delayed_swift"), sample)


def _uploaded(server: S3Server, shown: S3Server, sample: Path) -> str:
    bucket = server.new_bucket()
    client = server.client()
    upload(client, bucket, NAME, sample)
    client.close()
    return shown.url(bucket)


@pytest.mark.parametrize(
    "stored",
    [
        in_a_directory,
        in_a_zip_of_keys,
        in_a_zip_of_a_directory,
        in_a_zip_below_a_directory,
        on_s3,
        on_s3_far_away,
    ],
)
def test_every_view_shows_every_value_whatever_the_store(
    sample: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    stored: Callable[[Path, Path, pytest.FixtureRequest], str],
) -> None:
    """SEMANTICS A2, O1, O5, D2, D3, D4, D5, D6, D7, D12."""
    url = stored(sample, tmp_path, request)
    with mounted(url) as mount:
        (name,) = os.listdir(mount / "datasets")
        assert name.startswith(NAME)
        check_sample(mount / "datasets" / name)
        # The store itself, byte for byte; of the zip that is mounted, its members.
        objects = mount / "objects"
        if (objects / NAME).exists():
            objects /= NAME
        if (objects / f"{NAME}.zip").exists():
            archive = (tmp_path / f"{NAME}.zip").read_bytes()
            assert (objects / f"{NAME}.zip").read_bytes() == archive
            return
        assert {key: path.read_bytes() for key, path in keys_of(objects).items()} == {
            key: path.read_bytes() for key, path in keys_of(sample).items()
        }


def test_a_dataset_that_is_mounted_itself_shows_every_value(sample: Path) -> None:
    """SEMANTICS D2."""
    with mounted(sample) as mount:
        assert os.listdir(mount / "datasets") == [NAME]
        check_sample(mount / "datasets" / NAME)
        assert len(ATTRIBUTES) == len(os.listdir(mount / f"datasets/{NAME}/attributes"))
