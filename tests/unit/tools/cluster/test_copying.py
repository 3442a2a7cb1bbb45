"""Copies on a cluster of Dask: equal to those of one process, whatever ends or fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed.protocol.serialize import deserialize, serialize

import nczfs
from nczfs.cli.main import main
from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.ownership import UNFINISHED
from nczfs.errors import ClusterLost, PiecesFailed, UsageError
from nczfs.tools.cluster import dask, held
from nczfs.tools.cluster.copying import CopyJob, CopyRun, copy_sent
from nczfs.tools.cluster.dask import Cluster
from nczfs.tools.cluster.opening import OpenedBy
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.copy_pieces import CopyPiece, SentPiece, sent
from nczfs.tools.transfer.dataset_copy import Copy
from nczfs.tools.transfer.intermediate import Spread
from nczfs.tools.transfer.target import Target
from nczfs.zmap.registry import StoreOptions
from tests.support.clusters import (
    Scheduler,
    copy_with_broken_pieces,
    copy_with_failures,
    copy_with_killed_scheduler,
    copy_with_killed_workers,
    dask_cluster,
)
from tests.support.copies import copied, fill_awkward, new_url, objects
from tests.support.mounts import nczfs as nczfs_command
from tests.support.servers import Faults
from tests.unit.tools.transfer.test_intermediate import make_maps

SERIES = Choices({"t": 7, "x": 1}, ())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("source") / "a.zarr"
    fill_awkward(str(place), "nczarr-L3")
    return str(place)


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.long)])
def scheduler(
    aws_files: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scheduler]:
    with dask_cluster(tmp_path_factory.mktemp("cluster"), workers=request.param) as found:
        yield found


@pytest.fixture
def cluster(scheduler: Scheduler) -> Iterator[Cluster]:
    with dask.connected(str(scheduler.file)) as found:
        found.wait_for_workers(lambda line: None, lambda: None)
        yield found


def opened_by(url: str) -> OpenedBy:
    return OpenedBy(url, StoreOptions(), EngineOptions())


def on(
    cluster: Cluster,
    url: str,
    copy_piece: Callable[[CopyJob, SentPiece], float] = copy_sent,
    lines: list[str] | None = None,
    done: list[float] | None = None,
) -> Callable[[Copy], Spread]:
    """A run of a copy on a cluster."""

    def spread(copy: Copy) -> Spread:
        return CopyRun(
            cluster,
            opened_by(url),
            copy.new,
            copy.format.name,
            (done if done is not None else []).append,
            (lines if lines is not None else []).append,
            copy_piece,
        )

    return spread


@pytest.mark.parametrize("choices", [Choices(), SERIES], ids=["stored bytes", "values"])
@pytest.mark.parametrize("format_name", ["nczarr-L3", "zarr2", "zarr3"])
def test_pieces_may_be_done_anywhere_in_any_order_twice(
    format_name: str, choices: Choices, source: str, tmp_path: Path
) -> None:
    """Each as plain data, with other objects for both datasets, as in a worker."""
    if format_name == "zarr2":
        source = str(tmp_path / "pure.zarr")
        fill_awkward(source, "zarr2")
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    copied(source, one, format=format_name, choices=choices)

    def spread(copy: Copy) -> Spread:
        def run(target: Target, pieces: Iterator[CopyPiece]) -> None:
            job = CopyJob("t", opened_by(source), copy.new, copy.format.name, target.is_new)
            packed = [serialize((job, sent(piece))) for piece in pieces]
            packed += packed[::2]
            random.Random(1).shuffle(packed)
            for each in packed:
                job_and_piece = deserialize(*each)  # type: ignore[no-untyped-call]  # Dask has no type
                copy_sent(*job_and_piece)
            held.close_all()

        return run

    copied(source, other, format=format_name, choices=choices, spread=spread)
    assert objects(other) == objects(one)


def test_a_copy_on_a_cluster_is_that_of_one_process(
    source: str, scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    words = ["--chunks", "t=7,x=1", "--codecs", "none"]
    assert main(["cp", source, one, *words]) == 0
    assert main(["cp", source, other, *words, "--scheduler", str(scheduler.file)]) == 0
    assert capsys.readouterr().out == ""
    assert objects(other) == objects(one)


@pytest.mark.long
def test_workers_that_the_command_starts_copy_the_same_and_end_with_it(
    source: str, tmp_path: Path
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    words = ["--chunks", "t=7,x=1", "--codecs", "none"]
    assert main(["cp", source, one, *words]) == 0
    done = nczfs_command("cp", source, other, *words, "--workers", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert objects(other) == objects(one)


def test_a_copy_in_two_passes_on_a_cluster_is_that_of_one_process(
    scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, one, other = (str(tmp_path / name) for name in ("source", "one", "other"))
    make_maps(source)
    words = ["--chunks", "t=16,y=4,x=4", "--memory-limit", "8KiB"]
    assert main(["cp", source, one, *words]) == 0
    words += ["--intermediate", str(tmp_path / "middle"), "--scheduler", str(scheduler.file)]
    assert main(["cp", source, other, *words]) == 0
    assert "an intermediate dataset of up to 16KiB is made in" in capsys.readouterr().err
    assert objects(other) == objects(one)
    assert not list((tmp_path / "middle").iterdir())


def test_pieces_that_fail_at_random_are_tried_again(
    source: str, cluster: Cluster, scheduler: Scheduler, tmp_path: Path
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    copied(source, one, choices=SERIES)
    done: list[float] = []
    copied(
        source, other, choices=SERIES, memory_limit_bytes=400,
        spread=on(cluster, source, copy_with_failures, done=done), progress=done.append,
    )  # fmt: skip
    assert list(scheduler.trouble.glob(f"{cluster.token}-*"))
    assert objects(other) == objects(one)
    alone: list[float] = []
    copied(source, str(tmp_path / "third"), choices=SERIES, progress=alone.append)
    assert sum(done) == sum(alone)


def test_what_fails_at_last_is_listed_by_key_and_the_same_command_does_the_rest(
    source: str, cluster: Cluster, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    copied(source, str(one), choices=SERIES)
    lines: list[str] = []
    broken = on(cluster, source, copy_with_broken_pieces, lines)
    with pytest.raises(PiecesFailed, match=r"other: 1 piece could not be copied"):
        copied(source, str(other), choices=SERIES, spread=broken)
    assert f"file://{other}/g/w/0.0: no answer" in lines
    assert all("/g/w/" in line for line in lines)
    assert (other / UNFINISHED).exists()
    copied(source, str(other), choices=SERIES, spread=on(cluster, source))
    assert objects(str(other)) == objects(str(one))


def test_workers_that_are_killed_are_done_without(
    source: str, cluster: Cluster, scheduler: Scheduler, tmp_path: Path
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    copied(source, one, choices=SERIES)
    spread = on(cluster, source, copy_with_killed_workers)
    copied(source, other, choices=SERIES, memory_limit_bytes=400, spread=spread)
    assert len(list(scheduler.trouble.glob(f"{cluster.token}-*"))) == 2
    assert objects(other) == objects(one)


def test_a_scheduler_that_is_killed_ends_a_copy_which_goes_on_elsewhere(
    source: str, tmp_path: Path
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    copied(source, one, choices=SERIES)
    with dask_cluster(tmp_path / "cluster", workers=1) as scheduler:
        (scheduler.trouble / "scheduler").write_text(str(scheduler.pid))
        with dask.connected(str(scheduler.file)) as doomed:
            doomed.wait_for_workers(lambda line: None, lambda: None)
            spread = on(doomed, source, copy_with_killed_scheduler)
            with pytest.raises(ClusterLost):
                copied(source, other, choices=SERIES, memory_limit_bytes=400, spread=spread)
    before = objects(other)
    assert before
    copied(source, other, choices=SERIES)
    assert objects(other) == objects(one)


def test_two_runs_to_one_target_refuse_each_other(
    source: str, cluster: Cluster, scheduler: Scheduler, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = str(tmp_path / "other")
    words = ["cp", source, other, "--chunks", "t=7,x=1", "--codecs", "none"]
    statuses: list[int] = []

    def spread(copy: Copy) -> Spread:
        run = on(cluster, source)(copy)

        def meanwhile(target: Target, pieces: Iterator[CopyPiece]) -> None:
            statuses.append(main([*words, "--scheduler", str(scheduler.file)]))
            run(target, pieces)

        return meanwhile

    copied(source, other, choices=SERIES, spread=spread)
    assert statuses == [1]
    assert "is writing there" in capsys.readouterr().err
    with nczfs.open(other) as root:
        assert np.array_equal(root.variables["plain"][...], np.arange(10))


def test_a_target_on_s3_stands_faults(
    source: str, scheduler: Scheduler, swift_with_faults: Faults, tmp_path: Path
) -> None:
    server = swift_with_faults.server
    url = server.url(server.new_bucket(), "d")
    swift_with_faults.set("status:503 PUT first=6", "lost PUT skip=8 first=2", "close GET first=3")
    words = ["--chunks", "t=7,x=1", "--codecs", "none"]
    assert main(["cp", source, url, *words, "--scheduler", str(scheduler.file)]) == 0
    swift_with_faults.set()
    assert main(["cp", source, str(tmp_path / "one"), *words]) == 0
    assert objects(url) == objects(str(tmp_path / "one"))


def test_stores_that_other_processes_cannot_reach_are_refused(
    source: str, cluster: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="other processes cannot reach it"):
        copied(source, new_url(), spread=on(cluster, source))
    archive = str(tmp_path / "b.zip")
    with pytest.raises(UsageError, match="an archive is written by one process alone"):
        copied(source, archive, spread=on(cluster, source))


def test_what_cannot_be_a_cluster_is_said(
    source: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = str(tmp_path / "b")
    assert main(["cp", source, target, "--scheduler", "x", "--workers", "2"]) == 2
    assert "give one of them" in capsys.readouterr().err
    monkeypatch.setattr(dask, "CONNECT_S", 0.5)
    assert main(["cp", source, target, "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "--scheduler tcp://127.0.0.1:1: " in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
