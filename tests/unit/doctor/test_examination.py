"""Checks that do not end by themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.doctor import machine
from nczfs.doctor.examination import MachineQuestion, examine_machine
from nczfs.doctor.finding import CheckResult, Grade, well


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_check_that_hangs_is_wrong_and_the_others_follow(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hang() -> CheckResult:
        gate.wait()
        return well("at last")

    monkeypatch.setattr(machine, "device", hang)
    question = MachineQuestion(
        allow_other=False,
        spool_dir=tmp_path,
        cache_dir=str(tmp_path),
        cache_bytes_max=0,
        memory_bytes=1,
        usable_bytes=10,
        connections=1,
        patience_s=1.0,
    )
    found = dict(examine_machine(question))
    assert found["/dev/fuse"].grade is Grade.WRONG
    assert "nothing came for 1 s" in found["/dev/fuse"].text
    assert list(found)[-1] == "proxies"
