"""The memory of answers that are being sent: few large blocks, or many small ones."""

from __future__ import annotations

from typing import Final

BLOCK_BYTES_MIN: Final = 256 << 10
BLOCK_BYTES_MAX: Final = 4 << 20
BUDGET_BYTES: Final = 64 << 20

COPIES: Final = 5
"""Blocks that an answer holds: begun, made, being sent, in the frame of HTTP, in the socket."""


class Budget:
    """The size of the blocks of answers, by how many of these there are when one begins.

    Large blocks are faster: each costs a change of threads. The n-th answer gets an n-th of the
    budget, so that 64 answers hold less than four times the budget together.

    Attributes
    ----------
    running : the number of answers; only the event loop changes it.
    """

    def __init__(self) -> None:
        self.running = 0

    @property
    def block_bytes(self) -> int:
        """The bytes of each block of an answer that begins now."""
        share = BUDGET_BYTES // (COPIES * max(1, self.running))
        return max(BLOCK_BYTES_MIN, min(share, BLOCK_BYTES_MAX))
