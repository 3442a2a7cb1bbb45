"""The bar that long commands show on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from nczfs.cli.progress import progress_bar
from tests.support.waiting import until

MIB = 1 << 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def drawn(self) -> list[str]:
        return [text for text in self.getvalue().split("\r") if text.strip()]


def test_a_bar_shows_speed_and_time_left_and_moves_without_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(100 * MIB, "B") as advance:
        advance(10 * MIB)
        until(lambda: any("MiB/s" in text and "10.0M/100M" in text for text in terminal.drawn()))
        before = len(terminal.drawn())
        until(lambda: len(terminal.drawn()) >= before + 2)
        shown = terminal.drawn()[-1]
    assert " 10%|" in shown
    elapsed, _, left = shown.rpartition("[")[2].partition(",")[0].partition("<")
    assert elapsed.count(":") == left.count(":") == 1


def test_a_bar_shows_a_total_that_becomes_known_later(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(None, " chunks") as bar:
        assert bar.is_shown
        bar.expect(40)
        bar(10)
        until(lambda: any(" 25%|" in text and "10.0/40.0" in text for text in terminal.drawn()))


def test_without_a_terminal_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with progress_bar(MIB, "B") as advance:
        assert not advance.is_shown
        advance(MIB)
    assert file.getvalue() == ""
