"""What was wrong with a node and did not prevent reading it."""

from __future__ import annotations

PROBLEMS_MAX = 50  # a document of a million bad names must not become a million messages


class Problems:
    """Collects messages, each naming its key; only the first `PROBLEMS_MAX` are kept."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._more = 0

    def add(self, message: str) -> None:
        if len(self._messages) < PROBLEMS_MAX:
            self._messages.append(message)
        else:
            self._more += 1

    def as_tuple(self) -> tuple[str, ...]:
        """The messages in the order in which they were found."""
        if self._more:
            return (*self._messages, f"and {self._more} more problems")
        return tuple(self._messages)


def shown(value: object) -> str:
    """A value from a document as it stands in a message: on one line, and short."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"about 2^{value.bit_length() - 1}"  # Python refuses to print very long ones
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
