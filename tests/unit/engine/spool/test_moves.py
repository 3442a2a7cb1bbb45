"""What the log says of the moves of nodes: as much as what is not stored needs, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.engine.spool import log
from nczfs.engine.spool.contents import LogContents, logs_in
from nczfs.engine.spool.space import Spool, Survives
from nczfs.zmap.keys import Prefix

V, X, Y = Prefix("v"), Prefix("x"), Prefix("y")


@pytest.fixture(params=[Survives.NOTHING, Survives.KILL])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path, "memory://store", survives=request.param)
    yield spool
    spool.close()


def begun(spool: Spool, name: str) -> Path:
    path = spool.new_path(name)
    spool.moves.begin(path)
    return path


def move(spool: Spool, prefix: Prefix, goal: Prefix) -> None:
    with spool.moves.renaming(prefix, goal), spool.moves.moving(prefix, goal):
        pass


def size(spool: Spool) -> int:
    return sum(path.stat().st_size for path in logs_in(spool.directory))


def moves(spool: Spool) -> list[tuple[Prefix, Prefix]]:
    contents = LogContents(logs_in(spool.directory))
    assert contents.problem == ""
    return [contents.moves[number] for number in sorted(contents.moves)]


def test_a_rename_that_nothing_has_to_follow_leaves_nothing(spool: Spool) -> None:
    move(spool, V, X)
    with spool.moves.renaming(V, X):
        pass
    assert size(spool) == 0
    assert spool.directory.exists() is (spool.survives is not Survives.NOTHING)


def test_moves_are_said_as_long_as_an_entry_is_older(spool: Spool) -> None:
    first = begun(spool, "v")
    move(spool, V, X)
    second = begun(spool, "v")
    move(spool, X, Y)
    assert moves(spool) == [(V, X), (X, Y)]
    spool.moves.end(second)
    spool.moves.end(second)
    assert moves(spool) == [(V, X), (X, Y)]
    spool.moves.end(first)
    assert size(spool) == 0


def test_a_later_file_of_the_log_says_moves_again_which_chunks_in_the_log_have_made(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begun(spool, "v")
    move(spool, V, X)
    second = begun(spool, "v")
    move(spool, X, Y)
    monkeypatch.setattr(log, "FILE_BYTES", 1)
    spool.log.note({"is": "grown", "key": "v", **GROWN})
    assert "log.1" not in [path.name for path in logs_in(spool.directory)]
    assert moves(spool) == [(V, X), (X, Y)]
    assert set(LogContents(logs_in(spool.directory)).grown) == {"v"}
    spool.moves.end(first)
    spool.log.note({"is": "grown", "key": "v", **GROWN})
    assert moves(spool) == [(X, Y)]
    spool.moves.end(second)


def test_an_entry_that_is_begun_in_a_rename_makes_the_log_say_so(spool: Spool) -> None:
    with spool.moves.renaming(V, X):
        path = begun(spool, "v")
        assert LogContents(logs_in(spool.directory)).renaming == {V: X}
    assert LogContents(logs_in(spool.directory)).renaming == {}
    with spool.moves.renaming(V, X):
        assert LogContents(logs_in(spool.directory)).renaming == {V: X}
        spool.moves.end(path)
    assert LogContents(logs_in(spool.directory)).renaming == {}


GROWN = {
    "index": [0],
    "unit": [0],
    "origin": [0],
    "shape": [8],
    "chunk_shape": [4],
    "typestr": "<i4",
    "codecs": "x",
}
