"""Batches are every item once, in order, few enough a thread, and made when asked for."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.arrays.batches import BATCHES_PER_THREAD, ITEMS_MAX, batches


@given(st.integers(0, 300), st.integers(1, 8))
def test_every_item_is_in_one_share_and_no_thread_waits_long_for_another(
    count: int, threads: int
) -> None:
    found = list(batches(range(count), threads))
    assert [item for batch in found for item in batch] == list(range(count))
    sizes = {len(batch) for batch in found}
    assert max(sizes, default=1) <= max(1, min(ITEMS_MAX, count // (BATCHES_PER_THREAD * threads)))
    assert len(found) <= max(2 * BATCHES_PER_THREAD * threads, -(-count // ITEMS_MAX))


def test_items_are_asked_for_when_a_share_is() -> None:
    class Counted:
        asked = 0

        def __len__(self) -> int:
            return 10_000

        def __iter__(self) -> Iterator[int]:
            for item in range(10_000):
                self.asked += 1
                yield item

    items = Counted()
    assert next(batches(items, 4)) == list(range(ITEMS_MAX))
    assert items.asked == ITEMS_MAX
