"""What the log says of a request that was refused."""

from __future__ import annotations

import errno

import pytest
import trio
from pyfuse3 import FUSEError

from nczfs.errors import BadArgument
from nczfs.fuse.answers import answers
from tests.conftest import ExpectedWarnings


class Refusing:
    @answers
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        raise BadArgument(f"not {len(buf)} bytes at {off} of {fh}")

    @answers
    async def unlink(self, parent: int, name: bytes) -> None:
        raise BadArgument(f"{parent} keeps what it has")


def test_it_has_names_and_nothing_of_what_was_written(
    expected_warnings: ExpectedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    expected_warnings.add("EINVAL")
    refusing = Refusing()
    with pytest.raises(FUSEError) as told:
        trio.run(refusing.write, 3, 8, b"private")
    assert told.value.errno == errno.EINVAL
    with pytest.raises(FUSEError):
        trio.run(refusing.unlink, 1, b"name")
    assert [record.getMessage() for record in caplog.records] == [
        "write(3, 8): EINVAL: not 7 bytes at 8 of 3",
        "unlink(1, b'name'): EINVAL: 1 keeps what it has",
    ]
