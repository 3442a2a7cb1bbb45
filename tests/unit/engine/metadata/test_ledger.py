"""What is kept of metadata keeps to its budget."""

from __future__ import annotations

import threading

import pytest

from nczfs.engine.metadata.ledger import ENTRY_BYTES, LIMIT_BYTES_LEAST, Ledger, Shelf

LIMIT = 100 << 20
STEP = (10 << 20) - ENTRY_BYTES


@pytest.fixture
def claims() -> list[int]:
    return []


@pytest.fixture
def ledger(claims: list[int]) -> Ledger:
    return Ledger(LIMIT, claims.append)


@pytest.fixture
def shelf(ledger: Ledger) -> Shelf[str, object]:
    return Shelf(ledger)


def test_what_is_put_is_there_until_it_is_taken(shelf: Shelf[str, object], ledger: Ledger) -> None:
    shelf.put("a", 1, 1000)
    shelf.put("b", None, 0)
    assert (shelf.get("a"), shelf.get("b"), shelf.get("c")) == (1, None, None)
    assert sorted(shelf) == ["a", "b"]
    assert ledger.used_bytes == 1000 + 2 * ENTRY_BYTES
    assert shelf.pop("a") == 1
    assert shelf.pop("a") is None
    assert ledger.used_bytes == ENTRY_BYTES


def test_a_value_is_replaced_with_its_bytes(shelf: Shelf[str, object], ledger: Ledger) -> None:
    shelf.put("a", 1, 1000)
    shelf.put("a", 2, 10)
    assert shelf.get("a") == 2
    assert ledger.used_bytes == 10 + ENTRY_BYTES
    shelf.grow("a", 90)
    shelf.grow("gone", 90)
    assert ledger.used_bytes == 100 + ENTRY_BYTES


def test_the_budget_that_it_is_a_part_of_hears_of_every_byte(
    shelf: Shelf[str, object], ledger: Ledger, claims: list[int]
) -> None:
    for number in range(30):
        shelf.put(str(number % 17), number, STEP)
    shelf.pop("3")
    shelf.discard(["5", "gone", "6"])
    assert sum(claims) == ledger.used_bytes
    assert (shelf.get("5"), shelf.get("6")) == (None, None)
    shelf.clear()
    assert sum(claims) == ledger.used_bytes == 0
    assert max(claims) == STEP + ENTRY_BYTES


def test_what_was_not_looked_at_for_longest_goes_first(
    ledger: Ledger, shelf: Shelf[str, object]
) -> None:
    other: Shelf[str, object] = Shelf(ledger)
    for number in range(10):
        (shelf if number % 2 else other).put(str(number), number, STEP)
    assert other.get("0") == 0
    assert shelf.get("3") == 3
    shelf.put("new", "new", 3 * STEP)
    assert {*shelf, *other} == {"0", "3", "5", "6", "7", "8", "9", "new"}
    assert ledger.used_bytes <= LIMIT


def test_one_large_entry_is_kept_beside_the_others(
    ledger: Ledger, shelf: Shelf[str, object]
) -> None:
    shelf.put("small", 1, 1000)
    shelf.put("large", 2, 3 * LIMIT)
    for number in range(100):
        shelf.put(str(number), number, STEP)
    assert shelf.get("large") == 2
    shelf.put("larger", 3, 4 * LIMIT)
    assert shelf.get("large") is None
    assert shelf.get("larger") == 3
    assert ledger.used_bytes <= 5 * LIMIT + ENTRY_BYTES
    shelf.pop("larger")
    assert ledger.used_bytes <= LIMIT


def test_there_is_a_least_budget() -> None:
    assert Ledger(0).limit_bytes == LIMIT_BYTES_LEAST


def test_threads_may_use_it_at_a_time(ledger: Ledger, claims: list[int]) -> None:
    shelves: list[Shelf[int, int]] = [Shelf(ledger) for _ in range(3)]

    def use(seed: int) -> None:
        for number in range(3000):
            shelf = shelves[(seed + number) % 3]
            shelf.put(number % 50, number, (number * 7919 % 40) << 20)
            shelf.get((number + 1) % 50)
            shelf.grow((number + 2) % 50, 1 << 20)
            if number % 5 == 0:
                shelf.pop((number + 3) % 50)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.used_bytes == sum(claims)
    for each in shelves:
        each.clear()
    assert ledger.used_bytes == 0
