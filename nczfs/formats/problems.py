"""Problems of a node that do not prevent reading it, and which of them leave attributes out."""

from __future__ import annotations

PROBLEMS_MAX = 50  # a document with a million bad names must not become a million messages


class Problems:
    """A collection of messages, each naming its key; only the first `PROBLEMS_MAX` are kept."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._omissions: list[str] = []
        self._more = 0

    def add(self, message: str, *, is_omission: bool = False) -> None:
        """Add a message; `is_omission`: attributes that are stored are shown nowhere."""
        if is_omission and len(self._omissions) < PROBLEMS_MAX:
            self._omissions.append(message)
        if len(self._messages) < PROBLEMS_MAX:
            self._messages.append(message)
        else:
            self._more += 1

    @property
    def omissions(self) -> tuple[str, ...]:
        """The messages that attributes are left out."""
        return tuple(self._omissions)

    def as_tuple(self) -> tuple[str, ...]:
        """Return the messages in the order in which they were found."""
        if self._more:
            return (*self._messages, f"and {self._more} more problems")
        return tuple(self._messages)
