"""What programs cost on a mount of a far store: requests, and how many wait for one another."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
import zarr

import nczfs
from tests.support.looking import store_served
from tests.support.rounds import Rounds, in_rounds
from tests.support.sample import output, upload
from tests.support.servers import S3Server

VARIABLES = 100
FORMATS = ("zarr2", "nczarr-L3", "nczarr-L2l")


@pytest.fixture(scope="module")
def bucket(ceph: S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Datasets two levels below a bucket, one of each kind, with groups and without."""
    place = tmp_path_factory.mktemp("datasets")
    for layout in FORMATS:
        with nczfs.open(str(place / f"{layout}.zarr"), "w", format=layout) as root:
            write_group(root)
    with nczfs.open(str(place / "nested.zarr"), "w", format="zarr2") as root:
        for name in "abc":
            write_group(root.create_group(name), 8)
            write_group(root.create_group(f"{name}/inner"), 4)
    for name in ("zarr2", "nested"):
        copy = place / f"{name}-consolidated.zarr"
        output("cp", "-r", place / f"{name}.zarr", copy)
        zarr.consolidate_metadata(str(copy), zarr_format=2)
    found = ceph.new_bucket()
    client = ceph.client()
    upload(client, found, "sub", place)
    client.close()
    return found


def write_group(group: nczfs.Group, count: int = VARIABLES) -> None:
    group.create_dimension("x", 4)
    for number in range(count):
        values = np.full(4, number, "i4")
        group.create_variable(f"v{number:03}", ("x",), data=values, attributes={"units": "1"})


@pytest.fixture(scope="module")
def rounds(ceph: S3Server) -> Iterator[Rounds]:
    with in_rounds(ceph.endpoint_url) as found:
        yield found


class Asked:
    """What a program asked for that was the first in a mount of the bucket."""

    def __init__(self, ceph: S3Server, rounds: Rounds, bucket: str, *words: str) -> None:
        url = ceph.at(rounds.endpoint_url).url(bucket)
        with store_served(url, "--read-only") as mount:
            command = [word.replace("SUB", f"{mount.path}/datasets/sub") for word in words]
            with rounds.of(mount.process.pid):
                done = subprocess.run(command, check=True, capture_output=True)
        self.printed = done.stdout
        self.rounds = [list(together) for together in rounds.asked]
        self.requests = rounds.requests

    @property
    def documents(self) -> list[str]:
        """The documents that were asked for, in the dataset and below."""
        names = (what.removeprefix("GET ") for what in self.requests if what.startswith("GET "))
        return [name for name in names if name.startswith("sub/") and name.count("/") > 1]


@pytest.mark.parametrize("layout", FORMATS)
def test_ls_asks_for_no_member(ceph: S3Server, rounds: Rounds, bucket: str, layout: str) -> None:
    asked = Asked(ceph, rounds, bucket, "ls", f"SUB/{layout}.zarr")
    assert len(asked.printed.split()) >= VARIABLES + 3
    assert not any("/v0" in document for document in asked.documents)
    assert asked.requests.total() <= 16
    assert len(asked.rounds) <= 3


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize(
    "words",
    [
        ("ls", "-l", "SUB/LAYOUT.zarr"),
        ("stat", "SUB/LAYOUT.zarr/LAYOUT.cdl"),
        ("cat", "SUB/LAYOUT.zarr/info.json"),
    ],
    ids=lambda words: words[0],
)
def test_exact_sizes_of_a_group_cost_each_document_once(
    ceph: S3Server, rounds: Rounds, bucket: str, words: tuple[str, ...], layout: str
) -> None:
    asked = Asked(ceph, rounds, bucket, *(word.replace("LAYOUT", layout) for word in words))
    assert set(asked.requests.values()) == {1}
    assert asked.requests.total() <= 2 * VARIABLES + 16
    assert len(asked.rounds) <= 4, [len(together) for together in asked.rounds]


@pytest.mark.parametrize("words", [("ls", "-l", "SUB"), ("stat", "SUB/NAME.cdl")])
@pytest.mark.parametrize("name", ["zarr2-consolidated", "nested-consolidated"])
def test_consolidated_metadata_are_the_only_document_that_is_asked_for(
    ceph: S3Server, rounds: Rounds, bucket: str, words: tuple[str, ...], name: str
) -> None:
    place = f"SUB/{name}.zarr"
    command = [word.replace("SUB", place).replace("NAME", name) for word in words]
    asked = Asked(ceph, rounds, bucket, *command)
    assert asked.documents == [f"sub/{name}.zarr/.zmetadata"]
    assert [what for what in asked.requests if what.startswith("LIST")] == [
        "LIST sub/",
        f"LIST sub/{name}.zarr/",
    ]
    assert len(asked.rounds) <= 2


def test_groups_below_are_asked_for_level_by_level(
    ceph: S3Server, rounds: Rounds, bucket: str
) -> None:
    asked = Asked(ceph, rounds, bucket, "cat", "SUB/nested.zarr/nested.cdl")
    assert asked.printed.count(b"int v") == 3 * (8 + 4)
    assert set(asked.requests.values()) == {1}
    # Two to the dataset, its documents, and for each of three levels: names, arrays, groups.
    assert len(asked.rounds) <= 3 + 3 * 3


@pytest.mark.parametrize(
    "path",
    [
        "zarr2.zarr/v003",
        "nczarr-L3.zarr/v003",
        "nczarr-L2l.zarr/v003",
        "zarr2-consolidated.zarr/v003",
    ],
)
@pytest.mark.parametrize(
    "words",
    [("stat", "FILE"), ("head", "-c", "0", "FILE"), ("head", "-c", "4", "FILE")],
    ids=["stat", "open", "read"],
)
def test_a_variable_is_looked_at_in_four_round_trips_right_after_mounting(
    ceph: S3Server, rounds: Rounds, bucket: str, words: tuple[str, ...], path: str
) -> None:
    asked = Asked(
        ceph, rounds, bucket, *(w.replace("FILE", f"SUB/{path}/values.raw") for w in words)
    )
    assert set(asked.requests.values()) == {1}
    assert asked.requests.total() <= 16
    reads = words[0] == "head" and words[2] == "4"
    assert asked.printed == (np.int32(3).tobytes() if reads else asked.printed)
    assert len(asked.rounds) <= (4 if reads else 3), asked.rounds
