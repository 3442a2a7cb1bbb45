"""What a read costs is told as it then is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import nczfs
from nczfs import metrics
from nczfs.cli.info import cost_lines
from nczfs.cli.main import main
from nczfs.engine.arrays.selection import select
from nczfs.library.boxes import selection
from nczfs.tools.cost import ReadCost, read_cost
from tests.support.commands import printed


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cost") / "data.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=3)
    plain = group.create_array("plain", shape=(40, 30), chunks=(4, 7), dtype="i4")
    plain[...] = np.arange(1200).reshape(40, 30)
    sharded = group.create_array(
        "sharded", shape=(40, 30), chunks=(2, 5), shards=(10, 15), dtype="i4", compressors=None
    )
    sharded[...] = np.arange(1200).reshape(40, 30)
    group.create_array("sparse", shape=(8,), chunks=(1,), dtype="f8")[:4] = 1.0
    group.create_array("one", shape=(), dtype="f8")[...] = 1.0
    group.create_array("huge", shape=(10**9, 10**9), chunks=(10, 10), dtype="f8")
    return path


def told(store: Path, name: str, box: str) -> ReadCost:
    with nczfs.open(str(store)) as opened:
        variable = opened[name]
        assert isinstance(variable, nczfs.Variable)
        return read_cost(variable, selection(box))


BOXES = [":", "0, 0", "3:9, 6:8", "::3, ::2", "::9, ::8", "::-5, 29", "...", "5:5, :", "39, ::29"]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("name", ["plain", "sharded"])
def test_chunks_and_objects_are_those_that_a_read_touches(store: Path, name: str, box: str) -> None:
    cost = told(store, name, box)
    with nczfs.open(str(store)) as opened:
        variable: Any = opened[name]
        array = variable.description.array
        touched = [each.chunk for each in select(selection(box), array.shape).by_chunk(array.grid)]
        assert cost.shape == variable[selection(box)].shape
        assert cost.wanted_bytes == variable[selection(box)].nbytes
    assert cost.chunks == len(touched)
    assert cost.objects == len({array.unit_of(chunk) for chunk in touched})
    assert cost.decoded_bytes == cost.chunks * array.chunk_bytes


def test_requests_and_bytes_are_those_that_the_read_then_makes(store: Path) -> None:
    cost = told(store, "plain", "0:8, :")
    assert cost.sampled == cost.chunks == 10
    with nczfs.open(str(store)) as opened:
        variable: Any = opened["plain"]
        before = metrics.total("nczfs_store_read_bytes_total")
        requests = metrics.total("nczfs_store_requests_total", operation="read")
        assert variable[0:8, :].shape == (8, 30)
        assert metrics.total("nczfs_store_read_bytes_total") - before == cost.stored_bytes
        made = metrics.total("nczfs_store_requests_total", operation="read") - requests
    assert made == cost.requests == 10


def test_the_index_of_a_shard_counts_once_for_its_chunks(store: Path) -> None:
    cost = told(store, "sharded", ":")
    assert (cost.objects, cost.chunks) == (8, 120)
    index_bytes = 15 * 16 + 4
    assert cost.stored_bytes == 8 * index_bytes + 120 * 40
    assert cost.requests == 8 + 120


def test_chunks_that_were_never_written_are_said(store: Path) -> None:
    cost = told(store, "sparse", ":")
    assert (cost.chunks, cost.missing) == (8, 4)
    assert "4 of which were never written" in [*cost_lines(cost)][-1]


def test_a_read_that_could_never_be_made_is_told_in_a_moment(store: Path) -> None:
    cost = told(store, "huge", ":")
    assert cost.chunks == cost.objects == 10**16
    assert cost.sampled <= 16
    assert "about" in "".join(cost_lines(cost))
    assert told(store, "huge", "::1000, ::1000").chunks == 10**12
    assert told(store, "one", "...").chunks == 1


def test_seconds_are_those_of_the_sample_for_all_chunks(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([10.0, 12.0])  # the sample takes two seconds
    monkeypatch.setattr("nczfs.tools.cost.time.perf_counter", lambda: next(ticks))
    cost = told(store, "huge", ":1000, :1000")
    assert (cost.chunks, cost.sampled) == (10**4, 16)
    assert cost.seconds == pytest.approx(10**4 * 2.0 / 16)
    assert [*cost_lines(cost)][-1].startswith("time: 21 min at the rate of 16 chunks")


def test_the_command_prints_lines_or_json(store: Path) -> None:
    lines = printed("info", "--box", "0, 0", store / "plain").splitlines()
    assert lines[0] == "values: one, 4B"
    assert lines[1] == "chunks: 1, 112B decoded, 28 times what is wanted"
    assert lines[2] == "requests: 1"
    found = json.loads(printed("info", "-b", "...", "--json", store / "sharded"))
    assert (found["chunks"], found["objects"]) == (120, 8)


def test_boxes_that_are_wrong_and_groups_are_refused(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", "-b", "0", str(store)]) == 2
    assert "is a group; name one of its variables (" in capsys.readouterr().err
    assert main(["info", "-b", "a", str(store / "plain")]) == 2
    assert main(["info", "-b", "99, 0", str(store / "plain")]) == 1
    assert "out of range" in capsys.readouterr().err


def test_a_chunk_that_does_not_decode_is_an_error_as_for_the_read(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chunk = store / "plain/c/9/4"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:5])
    assert main(["info", "-b", "39, 29", str(store / "plain")]) == 1
    assert "c/9/4" in capsys.readouterr().err
    chunk.write_bytes(whole)
