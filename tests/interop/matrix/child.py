"""The netCDF package in a process of its own: netcdf-c ends it on what it does not understand."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, cast

from tests.interop.matrix.model import Observed, Refused
from tests.interop.matrix.netcdf import read_netcdf


class NetcdfProcess:
    """Reads datasets in another process, started when first needed and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def read(self, url: str) -> Observed:
        """What netCDF4-python reads. Raises Refused with its error, or with the process's end."""
        process = self._running()
        try:
            pickle.dump(url, pipe(process.stdin))
            pipe(process.stdin).flush()
            answer = pickle.load(pipe(process.stdout))
        except (EOFError, BrokenPipeError):
            raise Refused(self._epitaph(process)) from None
        if isinstance(answer, Refused):
            raise answer
        return cast(Observed, answer)

    def close(self) -> None:
        if self._process is not None:
            pipe(self._process.stdin).close()
            self._process.wait()
            pipe(self._process.stdout).close()
        if self._stderr is not None:
            self._stderr.close()
        self._process = self._stderr = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd=Path(__file__).parents[3],
            )
        return self._process

    def _epitaph(self, process: subprocess.Popen[bytes]) -> str:
        assert self._stderr is not None
        code = process.wait()
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace").strip()
        self.close()
        return f"{signal.Signals(-code).name if code < 0 else code}: {words}"


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    while True:
        try:
            url = pickle.load(requests)
        except EOFError:
            return
        answer: Any
        try:
            answer = read_netcdf(url)
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker is told
            answer = Refused(f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    # What the C library prints is not an answer.
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, stream)
