"""Going on after an interruption: nothing is read twice, and nothing is believed that changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczfs.engine.dataset import Engine
from nczfs.errors import Unavailable, UsageError
from nczfs.tools.verify.findings import Finding
from nczfs.tools.verify.state import VerifyState
from nczfs.tools.verify.subject import subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from tests.support.verifying import CountedStore, edit


def run_with_state(store: ZMap, engine: Engine, path: Path) -> tuple[list[Finding], int, int]:
    with VerifyState(path, store.name) as state:
        run = Verification(subject_of(store, engine), state)
        return list(run.run()), run.counts.chunks, run.counts.chunks_before


def test_a_store_that_fails_is_no_finding_and_costs_no_work_twice(
    store: CountedStore, engine: Engine, tmp_path: Path
) -> None:
    store.reads_left = 12
    with pytest.raises(Unavailable):
        run_with_state(store, engine, tmp_path / "state")
    # What was under way when the store failed may be read again, and nothing else.
    first, store.reads_left = set(store.chunks_read), None
    store.chunks_read.clear()
    found, chunks, before = run_with_state(store, engine, tmp_path / "state")
    assert found == []
    assert chunks + before == 23
    assert chunks == len(store.chunks_read)
    assert before >= 1
    assert first | set(store.chunks_read) == {
        str(stat.key) for stat in store.list(ROOT) if stat.key[-1].isdigit()
    }


def test_a_finished_verification_reads_nothing_again(
    store: CountedStore, engine: Engine, tmp_path: Path
) -> None:
    run_with_state(store, engine, tmp_path / "state")
    store.chunks_read.clear()
    assert run_with_state(store, engine, tmp_path / "state") == ([], 0, 23)
    assert store.chunks_read == []


def test_what_was_replaced_or_wrong_is_looked_at_again(
    store: CountedStore, engine: Engine, tmp_path: Path
) -> None:
    store.write(parse_key("y/1"), b"bad")
    found, _, _ = run_with_state(store, engine, tmp_path / "state")
    assert [f.key for f in found] == ["y/1"]
    store.chunks_read.clear()
    store.write(parse_key("v/0.0"), b"bad too")
    found, _, _ = run_with_state(store, engine, tmp_path / "state")
    assert sorted(f.key for f in found) == ["v/0.0", "y/1"]
    assert sorted(store.chunks_read) == ["v/0.0", "y/1"]


def test_chunks_are_read_again_when_the_array_became_another(
    store: CountedStore, engine: Engine, tmp_path: Path
) -> None:
    run_with_state(store, engine, tmp_path / "state")
    store.chunks_read.clear()
    edit("v/.zarray", dtype="<f8")(store)
    found, _, _ = run_with_state(store, Engine(), tmp_path / "state")
    assert len(found) == len(store.chunks_read) == 4


def test_a_state_file_belongs_to_one_dataset(tmp_path: Path) -> None:
    with VerifyState(tmp_path / "state", "memory://one"):
        pass
    with pytest.raises(UsageError, match="verification of memory://one; name another file"):
        VerifyState(tmp_path / "state", "memory://two")


def test_a_file_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which are longer than the head of a database " * 9)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"notes\.txt: not a state file"):
        VerifyState(path, "memory://one")
    assert path.read_bytes() == before
