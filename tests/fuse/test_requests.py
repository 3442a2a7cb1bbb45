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
LARGE_VARIABLES = 10
LARGE = 1 << 20  # elements of each: 4 MiB, in four chunks
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
    with nczfs.open(str(place / "large.zarr"), "w", format="zarr2") as root:
        root.create_dimension("x", LARGE)
        for number in range(LARGE_VARIABLES):
            values = np.full(LARGE, number, "i4")
            root.create_variable(f"v{number:03}", ("x",), data=values, chunks=(LARGE // 4,))
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
        with store_served(url, "--read-only", "--request-timeout", "2m") as mount:
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
def test_beside_consolidated_metadata_only_a_root_of_zarr_v3_is_asked_for(
    ceph: S3Server, rounds: Rounds, bucket: str, words: tuple[str, ...], name: str
) -> None:
    place = f"SUB/{name}.zarr"
    command = [word.replace("SUB", place).replace("NAME", name) for word in words]
    asked = Asked(ceph, rounds, bucket, *command)
    root = f"sub/{name}.zarr"
    assert sorted(asked.documents) == [f"{root}/.zmetadata", f"{root}/zarr.json"]
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


@pytest.mark.parametrize(
    ("words", "requests_max", "rounds_max"),
    [
        (("stat", "FILE"), 2 * VARIABLES + 16, 4),
        # The values of so small variables lie in the pages of the header.
        (("ncdump", "-h", "FILE"), 3 * VARIABLES + 16, 8),
        (("ncks", "-H", "-C", "-v", "v003", "FILE"), 3 * VARIABLES + 16, 8),
    ],
    ids=["stat", "header", "values"],
)
@pytest.mark.parametrize("layout", ["zarr2", "nczarr-L2l"])
def test_a_netcdf_file_costs_each_document_and_each_chunk_once(
    ceph: S3Server,
    rounds: Rounds,
    bucket: str,
    words: tuple[str, ...],
    layout: str,
    requests_max: int,
    rounds_max: int,
) -> None:
    path = f"SUB/{layout}.zarr/{layout}.nc"
    asked = Asked(ceph, rounds, bucket, *(word.replace("FILE", path) for word in words))
    assert set(asked.requests.values()) == {1}
    assert asked.requests.total() <= requests_max
    assert len(asked.rounds) <= rounds_max, [len(together) for together in asked.rounds]


def test_a_netcdf_file_of_consolidated_metadata_costs_two_round_trips(
    ceph: S3Server, rounds: Rounds, bucket: str
) -> None:
    name = "zarr2-consolidated"
    asked = Asked(ceph, rounds, bucket, "stat", f"SUB/{name}.zarr/{name}.nc")
    assert not [document for document in asked.documents if "/v0" in document]
    assert asked.requests.total() <= 6
    assert len(asked.rounds) <= 2


@pytest.mark.parametrize("layout", ["zarr2", "nczarr-L2l", "zarr2-consolidated"])
def test_the_netcdf_file_of_a_variable_costs_no_other_variable(
    ceph: S3Server, rounds: Rounds, bucket: str, layout: str
) -> None:
    path = f"SUB/{layout}.zarr/v003/v003.nc"
    asked = Asked(ceph, rounds, bucket, "ncks", "-H", "-C", "-v", "v003", path)
    assert b"3, 3, 3, 3" in asked.printed
    assert set(asked.requests.values()) == {1}
    others = [each for each in asked.requests if "/v0" in each and "/v003" not in each]
    assert others == []
    assert asked.requests.total() <= 16
    assert len(asked.rounds) <= 4, asked.rounds


def test_the_header_of_large_variables_costs_next_to_none_of_their_values(
    ceph: S3Server, rounds: Rounds, bucket: str
) -> None:
    path = "SUB/large.zarr/large.nc"
    header = Asked(ceph, rounds, bucket, "ncdump", "-h", path)
    assert len(chunks_of(header)) <= 1, header.requests  # behind which the header ends
    values = Asked(ceph, rounds, bucket, "ncks", "-H", "-C", "-v", "v007", "-d", "x,0,3", path)
    assert b"7, 7, 7, 7" in values.printed
    assert [each for each in chunks_of(values) if "/v007/" in each]
    assert len(chunks_of(values)) <= 3, values.requests


def chunks_of(asked: Asked) -> list[str]:
    return [each for each in asked.requests if each.rpartition("/")[2].isdigit()]
