"""What a mount has not stored yet, in words. The facts are those of ``.nczfs/status.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from nczfs.messages import counted, size_text

Status: TypeAlias = Mapping[str, Any]

ANSWER_S = 3.0
"""A store that does not answer for so long is called silent."""


def silence_text(status: Status) -> str:
    """Describe that the store does not answer; "": it does."""
    silent_s = status["silent_s"]
    return f"has not answered for {silent_s:.0f} s" if silent_s >= ANSWER_S else ""


def unsaved_text(status: Status) -> str:
    """Describe what was written and is not stored yet; "": nothing."""
    counts = ((status["unsaved_chunks"], "chunk"), (status["unsaved_files"], "file"))
    parts = [counted(number, noun) for number, noun in counts if number]
    if number := status["unsaved_metadata"]:
        parts.append(f"the metadata of {counted(number, 'dataset')}")
    text = " and ".join(parts)
    return f"{text} ({size_text(status['dirty_bytes'])})" if status["dirty_bytes"] else text


def ending_text(status: Status) -> str:
    """Describe what a mount that is ending waits for, and where the rest goes."""
    silence = silence_text(status)
    because = f" (the store {silence})" if silence else ""
    if unsaved := unsaved_text(status):
        words = [f"waiting for {unsaved} to be stored{because}"]
        if status["unsaved_chunks"] or status["unsaved_files"]:
            words.append(
                f"what the store does not take is kept in {status['spool']}, and `nczfs recover`"
                " puts it back"
            )
        if status["unsaved_metadata"]:
            words.append("other changes of metadata are lost if the store does not take them")
        return "; ".join(words)
    return f"waiting for requests to the store that are under way{because}"
