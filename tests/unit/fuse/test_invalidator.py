"""The thread that tells the kernel what to forget."""

from __future__ import annotations

import threading
from contextlib import suppress
from errno import EPERM

import pyfuse3
import pytest

from nczfs.fuse import invalidator as invalidator_module
from nczfs.fuse.invalidator import PAGES_WAITING_BYTES_MAX, PATIENCE_S, Invalidator
from nczfs.vfs.base import InodeNo
from tests.conftest import ExpectedWarnings


class Kernel:
    """Stands for pyfuse3; takes notes only while it is let."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.error: OSError | None = None

    def invalidate_inode(self, ino: int) -> None:
        self._take(ino)

    def invalidate_entry(self, parent: int, name: bytes) -> None:
        self._take((parent, name))

    def notify_store(self, ino: int, offset: int, data: bytes) -> None:
        self._take((ino, offset, bytes(data)))

    def _take(self, what: object) -> None:
        self.entered.set()
        assert self.open.wait(120)
        self.told.append(what)
        if self.error is not None:
            raise self.error


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(pyfuse3, "invalidate_inode", kernel.invalidate_inode)
    monkeypatch.setattr(pyfuse3, "invalidate_entry", kernel.invalidate_entry)
    monkeypatch.setattr(pyfuse3, "notify_store", kernel.notify_store)
    return kernel


def finish(invalidator: Invalidator, kernel: Kernel, count: int) -> None:
    deadline = threading.Event()
    for _ in range(500):
        if len(kernel.told) >= count:
            break
        deadline.wait(0.01)
    invalidator.stop()


def test_notes_reach_the_kernel_in_order(kernel: Kernel) -> None:
    invalidator = Invalidator()
    invalidator.start()
    invalidator.invalidate_inode(InodeNo(7))
    invalidator.invalidate_entry(InodeNo(1), b"name")
    finish(invalidator, kernel, 2)
    assert kernel.told == [7, (1, b"name")]


def test_nobody_waits_for_the_kernel_and_equal_notes_are_told_once(kernel: Kernel) -> None:
    invalidator = Invalidator()
    kernel.open.clear()
    invalidator.start()
    invalidator.invalidate_inode(InodeNo(1))
    assert kernel.entered.wait(120)
    for _ in range(1000):
        invalidator.invalidate_inode(InodeNo(2))
    kernel.open.set()
    finish(invalidator, kernel, 2)
    assert kernel.told == [1, 2]


def test_what_is_noted_before_the_start_is_told_after_it(kernel: Kernel) -> None:
    invalidator = Invalidator()
    invalidator.invalidate_inode(InodeNo(3))
    assert kernel.told == []
    invalidator.start()
    finish(invalidator, kernel, 1)
    assert kernel.told == [3]


def test_the_queue_is_bounded_and_says_so_once(
    kernel: Kernel, expected_warnings: ExpectedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    expected_warnings.add("too many invalidations")
    invalidator = Invalidator(capacity=10)
    for number in range(100):
        invalidator.invalidate_inode(InodeNo(number))
    invalidator.start()
    finish(invalidator, kernel, 10)
    assert kernel.told == list(range(90, 100))
    assert len(caplog.records) == 1


def test_what_the_kernel_does_not_know_is_no_error(kernel: Kernel) -> None:
    kernel.error = FileNotFoundError()
    invalidator = Invalidator()
    invalidator.start()
    invalidator.invalidate_inode(InodeNo(1))
    invalidator.invalidate_inode(InodeNo(2))
    finish(invalidator, kernel, 2)
    assert kernel.told == [1, 2]


def test_a_refusal_is_logged_and_the_thread_goes_on(
    kernel: Kernel, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("refused an invalidation")
    kernel.error = OSError(EPERM, "no")
    invalidator = Invalidator()
    invalidator.start()
    invalidator.invalidate_inode(InodeNo(1))
    invalidator.invalidate_inode(InodeNo(2))
    finish(invalidator, kernel, 2)
    assert kernel.told == [1, 2]


def test_a_change_ends_when_what_was_noted_in_it_is_told(kernel: Kernel) -> None:
    invalidator = Invalidator()
    invalidator.start()
    with invalidator.changing():
        for number in range(1000):
            invalidator.invalidate_inode(InodeNo(number))
    assert kernel.told == list(range(1000))
    invalidator.stop()


def test_what_needs_a_lock_of_the_change_is_told_after_it_and_holds_nothing_up(
    kernel: Kernel,
) -> None:
    invalidator = Invalidator()
    invalidator.start()
    with invalidator.changing([(InodeNo(1), b"gone")], [InodeNo(5)]):
        invalidator.invalidate_entry(InodeNo(1), b"beside")
        invalidator.invalidate_entry(InodeNo(5), b"below")
        invalidator.invalidate_entry(InodeNo(2), b"elsewhere")
        invalidator.invalidate_inode(InodeNo(1))
    assert kernel.told[:2] == [(2, b"elsewhere"), 1]
    finish(invalidator, kernel, 4)
    assert kernel.told[2:] == [(1, b"beside"), (5, b"below")]


def test_what_the_kernel_changes_by_itself_is_told_only_if_that_failed(kernel: Kernel) -> None:
    invalidator = Invalidator()
    invalidator.start()
    with invalidator.changing([(InodeNo(1), b"gone")]):
        invalidator.invalidate_entry(InodeNo(1), b"gone")
    with suppress(OSError), invalidator.changing([(InodeNo(1), b"kept")]):
        invalidator.invalidate_entry(InodeNo(1), b"kept")
        raise OSError
    finish(invalidator, kernel, 1)
    assert kernel.told == [(1, b"kept")]


def test_a_kernel_that_is_busy_holds_up_a_change_for_a_moment_only(kernel: Kernel) -> None:
    invalidator = Invalidator()
    kernel.open.clear()
    invalidator.start()
    with invalidator.changing():
        invalidator.invalidate_inode(InodeNo(1))
    with invalidator.changing():
        invalidator.invalidate_inode(InodeNo(2))
    assert kernel.told == []
    kernel.open.set()
    finish(invalidator, kernel, 2)
    assert kernel.told == [1, 2]


def test_a_write_waits_for_notes_of_other_files_and_those_of_its_own_wait_for_it(
    kernel: Kernel,
) -> None:
    invalidator = Invalidator()
    invalidator.start()
    with invalidator.writing(InodeNo(7)) as settle:
        invalidator.invalidate_inode(InodeNo(7))  # whose pages the kernel holds meanwhile
        invalidator.invalidate_inode(InodeNo(8))
        settle()
        assert kernel.told == [8]
        invalidator.invalidate_inode(InodeNo(9))
    assert kernel.told[:2] == [8, 9]
    finish(invalidator, kernel, 3)
    assert kernel.told == [8, 9, 7]


def test_a_write_has_patience_until_changed_pages_of_other_files_are_written_back(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W68."""
    monkeypatch.setattr(invalidator_module, "WRITE_BACK_S", 120.0)
    invalidator = Invalidator()
    invalidator.start()
    kernel.open.clear()
    with invalidator.writing(InodeNo(7)) as settle:
        invalidator.invalidate_inode(InodeNo(8))
        assert kernel.entered.wait(120)
        threading.Timer(3 * PATIENCE_S, kernel.open.set).start()
        settle()
        assert kernel.told == [8]
    invalidator.stop()


def test_a_change_before_the_start_or_after_the_stop_waits_for_nothing(kernel: Kernel) -> None:
    invalidator = Invalidator()
    with invalidator.changing():
        invalidator.invalidate_inode(InodeNo(1))
    invalidator.start()
    finish(invalidator, kernel, 1)
    with invalidator.changing():
        invalidator.invalidate_inode(InodeNo(2))
    assert kernel.told == [1]


def test_nothing_is_told_after_the_stop(kernel: Kernel) -> None:
    invalidator = Invalidator()
    invalidator.start()
    invalidator.stop()
    invalidator.invalidate_inode(InodeNo(1))
    assert kernel.told == []


def test_pages_are_put_while_their_ticket_is_valid(kernel: Kernel) -> None:
    invalidator = Invalidator()
    invalidator.start()
    ticket = invalidator.page_ticket(InodeNo(7))
    assert invalidator.put_pages(ticket, 4096, b"pages")
    finish(invalidator, kernel, 1)
    assert kernel.told == [(7, 4096, b"pages")]


def test_an_invalidation_that_is_noted_after_bytes_were_read_keeps_them_from_being_put(
    kernel: Kernel,
) -> None:
    invalidator = Invalidator()
    ticket = invalidator.page_ticket(InodeNo(7))
    other = invalidator.page_ticket(InodeNo(8))
    assert invalidator.put_pages(ticket, 0, b"old")  # waits for the start
    assert invalidator.put_pages(other, 0, b"other")
    invalidator.invalidate_inode(InodeNo(7))
    assert not invalidator.put_pages(ticket, 4096, b"old")
    assert invalidator.put_pages(invalidator.page_ticket(InodeNo(7)), 0, b"new")
    invalidator.start()
    finish(invalidator, kernel, 3)
    assert kernel.told == [7, (8, 0, b"other"), (7, 0, b"new")]


def test_an_invalidation_is_sent_after_pages_that_the_kernel_is_taking(kernel: Kernel) -> None:
    invalidator = Invalidator()
    kernel.open.clear()
    invalidator.start()
    assert invalidator.put_pages(invalidator.page_ticket(InodeNo(7)), 0, b"old")
    assert kernel.entered.wait(120)
    with invalidator.changing():
        invalidator.invalidate_inode(InodeNo(7))
    kernel.open.set()
    finish(invalidator, kernel, 2)
    assert kernel.told == [(7, 0, b"old"), 7]


def test_who_voids_tickets_waits_for_pages_that_the_kernel_is_taking(kernel: Kernel) -> None:
    invalidator = Invalidator()
    kernel.open.clear()
    invalidator.start()
    ticket = invalidator.page_ticket(InodeNo(7))
    assert invalidator.put_pages(ticket, 0, b"old")
    assert kernel.entered.wait(120)
    assert invalidator.put_pages(ticket, 4096, b"dropped")
    voided = threading.Thread(target=lambda: kernel.told.append(_void(invalidator, 7)))
    voided.start()
    kernel.open.set()
    voided.join(120)
    finish(invalidator, kernel, 2)
    # "voided" comes last, unless the kernel was busy beyond all patience: then it forgets the file.
    assert kernel.told[0] == (7, 0, b"old") or kernel.told[-1] == 7
    assert (7, 4096, b"dropped") not in kernel.told


def _void(invalidator: Invalidator, ino: int) -> str:
    invalidator.void_pages(InodeNo(ino))
    return "voided"


def test_a_kernel_that_is_busy_with_pages_forgets_them_later_if_they_are_voided(
    kernel: Kernel,
) -> None:
    invalidator = Invalidator()
    kernel.open.clear()
    invalidator.start()
    assert invalidator.put_pages(invalidator.page_ticket(InodeNo(7)), 0, b"old")
    assert kernel.entered.wait(120)
    invalidator.void_pages(InodeNo(7))
    kernel.open.set()
    finish(invalidator, kernel, 2)
    assert kernel.told == [(7, 0, b"old"), 7]


def test_pages_that_wait_are_bounded(kernel: Kernel) -> None:
    invalidator = Invalidator()
    ticket = invalidator.page_ticket(InodeNo(7))
    piece = bytes(PAGES_WAITING_BYTES_MAX // 4)
    assert [invalidator.put_pages(ticket, 0, piece) for _ in range(6)] == [True] * 4 + [False] * 2
    invalidator.invalidate_inode(InodeNo(7))
    ticket = invalidator.page_ticket(InodeNo(7))
    assert invalidator.put_pages(ticket, 0, piece)  # those of a void ticket are forgotten


def test_pages_that_the_kernel_does_not_take_are_no_error(kernel: Kernel) -> None:
    kernel.error = FileNotFoundError()
    invalidator = Invalidator()
    invalidator.start()
    ticket = invalidator.page_ticket(InodeNo(7))
    assert invalidator.put_pages(ticket, 0, b"one")
    assert invalidator.put_pages(ticket, 4096, b"two")
    finish(invalidator, kernel, 2)
    assert kernel.told == [(7, 0, b"one"), (7, 4096, b"two")]
