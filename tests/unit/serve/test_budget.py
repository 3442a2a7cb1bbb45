"""The memory of answers that are being sent."""

from __future__ import annotations

from nczfs.serve.budget import BLOCK_BYTES_MAX, BUDGET_BYTES, COPIES, Budget


def test_few_answers_have_large_blocks_and_many_take_no_more_memory() -> None:
    """SEMANTICS V6."""
    sizes = [_block_bytes(running) for running in range(1, 65)]
    assert sizes[0] == BLOCK_BYTES_MAX
    assert sizes == sorted(sizes, reverse=True)
    assert COPIES * sum(sizes) < 4 * BUDGET_BYTES


def _block_bytes(running: int) -> int:
    budget = Budget()
    budget.running = running
    return budget.block_bytes
