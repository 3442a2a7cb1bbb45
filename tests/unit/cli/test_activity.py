"""Rates between two looks at a mount."""

from __future__ import annotations

import os
from pathlib import Path

from nczfs.cli.activity import Look, activity, counted
from nczfs.fuse.programs import OpenedFile, opened_files


def test_counters_are_summed_over_stores_and_kept_apart_by_operation() -> None:
    text = """# TYPE nczfs_store_requests counter
nczfs_store_requests_total{store="s3",operation="read"} 3.0
nczfs_store_requests_total{store="http",operation="read"} 4.0
nczfs_store_requests_total{store="s3",operation="list"} 1.0
nczfs_store_requests_created{store="s3",operation="list"} 1.7e9
# TYPE nczfs_cache_hits counter
nczfs_cache_hits_total 5.0
# TYPE nczfs_dirty_bytes gauge
nczfs_dirty_bytes 9.0
"""
    assert counted(text) == {
        ("nczfs_store_requests", "read"): 7.0,
        ("nczfs_store_requests", "list"): 1.0,
        ("nczfs_cache_hits", ""): 5.0,
    }


def opened(position: int, descriptor: int = 3) -> OpenedFile:
    return OpenedFile(1, "ncks", descriptor, "f", position, writes=False)


def test_rates_are_per_second_and_never_negative() -> None:
    hits, misses = ("nczfs_cache_hits", ""), ("nczfs_cache_misses", "")
    before = Look(10.0, {hits: 100.0, misses: 50.0}, b"{}", (opened(1000),))
    after = Look(12.0, {hits: 130.0, misses: 60.0}, b"{}", (opened(5000), opened(7, 4)))
    found = activity(before, after)
    assert (found.chunks_asked, found.hit_share) == (20.0, 0.75)
    assert [each.rate for each in found.files] == [2000.0, 0.0]
    # Mounted anew in between, and read from the beginning again.
    again = activity(after, Look(14.0, {hits: 1.0}, b"{}", (opened(0),)))
    assert (again.chunks_asked, again.hit_share) == (0.0, None)
    assert again.files[0].rate == 0.0


def test_open_files_are_those_below_the_directory(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "inside").touch()
    with (tmp_path / "in/a b").open("wb") as file, (tmp_path / "inside").open():
        file.write(b"12345")
        file.flush()
        (found,) = opened_files(str(tmp_path / "in"))
    assert (found.pid, found.path, found.position, found.writes) == (os.getpid(), "a b", 5, True)
