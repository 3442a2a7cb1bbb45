"""Problems of a node that do not prevent reading it."""

from __future__ import annotations

PROBLEMS_MAX = 50  # a document with a million bad names must not become a million messages


class Problems:
    """A collection of messages, each naming its key; only the first `PROBLEMS_MAX` are kept."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._more = 0

    def add(self, message: str) -> None:
        if len(self._messages) < PROBLEMS_MAX:
            self._messages.append(message)
        else:
            self._more += 1

    def as_tuple(self) -> tuple[str, ...]:
        """Return the messages in the order in which they were found."""
        if self._more:
            return (*self._messages, f"and {self._more} more problems")
        return tuple(self._messages)
