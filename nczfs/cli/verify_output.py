"""The output of ``nczfs verify``: lines as results come, or one JSON document."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict
from types import TracebackType
from typing import Any, TextIO

from tqdm import tqdm

from nczfs.messages import size_text
from nczfs.model.printing import printable
from nczfs.tools.verify.digests import Digest
from nczfs.tools.verify.findings import Counts, Finding


class Output(ABC):
    """A receiver of results, each as soon as it is known. A context manager."""

    @abstractmethod
    def finding(self, finding: Finding) -> None:
        """Report something that is not as it should be."""

    @abstractmethod
    def hole(self, path: str, chunk: str) -> None:
        """Report a chunk that was never written."""

    @abstractmethod
    def digest(self, digest: Digest) -> None:
        """Report a checksum, or why there is none."""

    @abstractmethod
    def summary(self, counts: Counts) -> None:
        """Report what was verified."""

    def __enter__(self) -> Output:
        return self

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Lines(Output):
    """One line per result on stdout; counts and remarks on stderr.

    Parameters
    ----------
    findings_are_results : otherwise they go to stderr, and stdout has only the results.
    """

    def __init__(self, *, findings_are_results: bool) -> None:
        self._findings = sys.stdout if findings_are_results else sys.stderr

    def finding(self, finding: Finding) -> None:
        _say(finding.line, self._findings)

    def hole(self, path: str, chunk: str) -> None:
        print(printable(f"{path} {chunk}"))  # not flushed one by one: there may be very many

    def digest(self, digest: Digest) -> None:
        if digest.trouble:
            _say(printable(f"error {digest.path}: {digest.trouble}"), sys.stderr)
        else:
            _say(printable(f"{digest.value}  {digest.path}"), sys.stdout)

    def summary(self, counts: Counts) -> None:
        before = f", {counts.chunks_before} verified before" if counts.chunks_before else ""
        _say(
            f"nczfs: {_counted(counts.variables, 'variable')}, {_counted(counts.chunks, 'chunk')} "
            f"({size_text(counts.stored_bytes)}){before}: {_counted(counts.errors, 'error')}, "
            f"{_counted(counts.notes, 'note')}",
            sys.stderr,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            sys.stdout.flush()


class JsonOutput(Output):
    """One JSON object, written piece by piece, so that a million results take no memory.

    Its last members are ``complete``, false when an error ended the run, and the counts.

    Parameters
    ----------
    lists : the names of its lists, in the order in which they are filled.
    """

    def __init__(self, *lists: str) -> None:
        self._waiting = list(lists)
        self._list = ""
        self._is_empty = True
        self._counts: dict[str, Any] = {}

    def finding(self, finding: Finding) -> None:
        members = {
            "severity": finding.severity.value,
            "kind": finding.kind.value,
            "path": finding.path,
            "key": finding.key,
            "message": finding.message,
        }
        self._add("findings", members)

    def hole(self, path: str, chunk: str) -> None:
        self._add("holes", {"path": path, "chunk": chunk})

    def digest(self, digest: Digest) -> None:
        result = {"error": digest.trouble} if digest.trouble else {"sha256": digest.value}
        self._add("digests", {"path": digest.path, **result})

    def summary(self, counts: Counts) -> None:
        self._counts = asdict(counts)

    def __enter__(self) -> Output:
        sys.stdout.write("{")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is BrokenPipeError:
            return
        if self._waiting:
            self._open(self._waiting[-1])
        self._close()
        rest = json.dumps({"complete": kind is None, **self._counts})
        sys.stdout.write("\n" + rest[1:] + "\n")
        sys.stdout.flush()

    def _add(self, name: str, item: dict[str, str]) -> None:
        self._open(name)
        sys.stdout.write(("" if self._is_empty else ",") + "\n  " + json.dumps(item))
        self._is_empty = False

    def _open(self, name: str) -> None:
        """Open a list; those before it that are not yet there stay empty."""
        while self._list != name:
            self._close()
            self._list = self._waiting.pop(0)
            self._is_empty = True
            sys.stdout.write(f'\n"{self._list}": [')

    def _close(self) -> None:
        if self._list:
            sys.stdout.write("],")


def _say(line: str, file: TextIO) -> None:
    tqdm.write(line, file=file)  # a progress bar may be on the terminal
    file.flush()


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
