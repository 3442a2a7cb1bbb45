"""What the files of a log say, in the order in which they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.chunks import KeptChunk
from nczfs.engine.spool.contents import LogContents, chunks_of, logs_in
from nczfs.engine.spool.log import BEFORE, FORMAT
from nczfs.engine.spool.records import Bytes, packed
from nczfs.zmap.base import Version

HEADING = {"is": "log", "format": FORMAT, "url": "memory://s"}
CHUNK = {
    "index": [1],
    "unit": [1],
    "origin": [4],
    "shape": [8],
    "chunk_shape": [4],
    "typestr": "<i4",
    "codecs": "x",
}
NAMED = {"is": "chunk", "number": 7, "key": "g/v", "name": "g/v/1", **CHUNK}
BASIS = {"is": "basis", "key": "g/v", "unit": [1], "written_ns": 5, "versions": ["a"]}
WROTE = {"is": "wrote", "number": 7, "start": [1], "stop": [3], "written_ns": 30}
AT = {"key": "g/v", "index": [1]}
MOVED = {"is": "moved", "from": "g", "to": "h"}
DTYPE = np.dtype("<i4")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path) -> Path:
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def said(directory: Path, number: int, *documents: dict[str, Any]) -> None:
    data = b"".join(b"".join(packed(document, _values(document))) for document in documents)
    (directory / f"{BEFORE}{number}").write_bytes(data)


def _values(document: dict[str, Any]) -> Bytes | None:
    """Elements that are ten times their place in the chunk."""
    if document["is"] != "wrote":
        return None
    return (10 * np.arange(document["start"][0], document["stop"][0], dtype=DTYPE)).view(np.uint8)


def read(directory: Path, *documents: dict[str, Any]) -> LogContents:
    said(directory, 1, HEADING, *documents)
    contents = LogContents(logs_in(directory))
    assert contents.problem == ""
    return contents


def kept(contents: LogContents) -> dict[str, KeptChunk]:
    """The chunks and lengths, by the prefix of their array."""
    return {entry.key: entry for _, entry in chunks_of(contents, {}, "memory://s")}


def voided(contents: LogContents) -> list[str]:
    """What records will say when the entries are put back."""
    voiding = (entry.voiding for _, entry in chunks_of(contents, {}, "memory://s"))
    return [each["is"] for each in voiding if each is not None]


def test_files_come_in_the_order_of_their_numbers(directory: Path) -> None:
    for number in (2, 10, 9, 1):
        said(directory, number)
    (directory / f"{BEFORE}old").touch()
    assert [path.name for path in logs_in(directory)] == ["log.1", "log.2", "log.9", "log.10"]


def test_a_file_that_does_not_name_what_was_mounted_leaves_it_as_it_was(directory: Path) -> None:
    """Such as that of `nczfs recover`."""
    said(directory, 1, HEADING)
    said(directory, 2, {"is": "log", "format": FORMAT}, {"is": "placed", "key": "v"})
    contents = LogContents(logs_in(directory))
    assert (contents.url, contents.problem, contents.is_whole) == ("memory://s", "", True)
    assert contents.placed == {"v"}


@pytest.mark.parametrize("before", [[], [HEADING]], ids=["first", "second"])
def test_where_a_file_cannot_be_understood_is_said(
    directory: Path, before: list[dict[str, Any]]
) -> None:
    said(directory, 1, *before)
    start = (directory / f"{BEFORE}1").stat().st_size
    said(directory, 1, *before, {"is": "cake"})
    assert (
        f"log.1: cannot be understood from byte {start} on: "
        in LogContents(logs_in(directory)).problem
    )


def test_a_chunk_has_what_was_written_to_it_upon_what_it_was_written(directory: Path) -> None:
    contents = read(directory, NAMED, BASIS, WROTE, {**WROTE, "start": [3], "stop": [4]})
    entry = kept(contents)["g/v"]
    assert entry.flags().tolist() == [False, True, True, True]
    assert entry.values(DTYPE)[1:].tolist() == [10, 20, 30]
    assert (entry.basis.versions, entry.basis.written_ns) == ((Version("a"),), 30)
    assert entry.voiding == {"is": "stored", **AT, "index": (1,)}
    assert contents.basis("g/v", (0,)) == Basis(int(contents.written_at * 1e9))


def test_what_was_retracted_does_not_count(directory: Path) -> None:
    """It does where it is written again, and elsewhere it was never known."""
    retracted = {"is": "retracted", **AT, "start": [0], "stop": [2]}
    elsewhere = {**retracted, "key": "g/w"}
    again = {**WROTE, "start": [0], "stop": [1]}
    assert kept(read(directory, elsewhere, retracted, NAMED, WROTE))["g/v"].flags().sum() == 2
    contents = read(directory, NAMED, WROTE, retracted)
    assert kept(contents)["g/v"].flags().tolist() == [False, False, True, False]
    contents = read(directory, NAMED, WROTE, retracted, again)
    assert kept(contents)["g/v"].flags().tolist() == [True, False, True, False]
    shorter = read(directory, NAMED, WROTE, {**retracted, "shape": [7]})
    assert kept(shorter)["g/v"].details.shape == (7,)
    nonsense = {**retracted, "stop": [5]}
    said(directory, 1, HEADING, NAMED, WROTE, nonsense)
    assert "is not in a chunk of (4,)" in LogContents(logs_in(directory)).problem


def test_what_was_stored_is_not_kept(directory: Path) -> None:
    assert kept(read(directory, NAMED, WROTE, {"is": "stored", **AT})) == {}
    assert set(kept(read(directory, NAMED, WROTE, {"is": "stored", **AT, "index": [0]}))) == {"g/v"}


def test_what_was_renamed_has_its_new_name_with_its_basis_and_length(directory: Path) -> None:
    grown = {"is": "grown", **CHUNK, "key": "g/v", "shape": [9]}
    renaming = {"is": "renaming", "from": "g", "to": "h"}
    contents = read(directory, NAMED, BASIS, WROTE, grown, renaming, MOVED)
    assert (set(contents.chunks), set(contents.grown)) == ({("h/v", (1,))}, {"h/v"})
    assert contents.basis("h/v", (1,)).versions == (Version("a"),)
    assert contents.renaming == {}
    neighbour = {**NAMED, "key": "gg/v", "number": 8}
    contents = read(directory, neighbour, {**WROTE, "number": 8}, MOVED)
    assert set(kept(contents)) == {"gg/v"}


def test_while_a_node_is_renamed_what_is_below_it_knows_both_names(directory: Path) -> None:
    renaming = {"is": "renaming", "from": "g", "to": "h"}
    contents = read(directory, NAMED, WROTE, renaming)
    entry = kept(contents)["g/v"]
    assert contents.completed(entry).renaming == ("g", "h")
    stays = read(directory, NAMED, WROTE, renaming, {"is": "stays", "from": "g"})
    assert stays.completed(entry).renaming is None
    elsewhere = read(directory, NAMED, WROTE, {**renaming, "from": "g/w"})
    assert elsewhere.completed(entry).renaming is None


def test_records_have_a_certain_place_since_that_was_said(directory: Path) -> None:
    basis = {**BASIS, "appended_from": 5}
    contents = read(directory, NAMED, basis, WROTE, {"is": "placed", "key": "g/w"})
    entry = kept(contents)["g/v"]
    assert contents.completed(entry).basis.appended_from == 5
    contents = read(directory, NAMED, basis, WROTE, {"is": "placed", "key": "g/v"})
    assert contents.completed(entry).basis.appended_from is None


def test_a_length_is_kept_by_itself_until_it_is_settled(directory: Path) -> None:
    """Where a chunk says it as well, it is kept with that alone."""
    grown = {"is": "grown", **CHUNK, "key": "g/v"}
    entry = kept(read(directory, grown))["g/v"]
    assert not entry.flags().any()
    assert entry.details.shape == (8,)
    assert entry.voiding == {"is": "settled", **AT, "index": (1,)}
    assert kept(read(directory, grown, {"is": "settled", "key": "g/v"})) == {}
    of_chunk = read(directory, NAMED, WROTE, grown)
    assert voided(of_chunk) == ["stored"]
    longer = read(directory, NAMED, WROTE, {**grown, "shape": [9]})
    assert voided(longer) == ["stored", "settled"]


def test_what_was_written_to_another_array_of_the_name_does_not_count(directory: Path) -> None:
    other = {**NAMED, "number": 8, "codecs": "y"}
    contents = read(directory, NAMED, WROTE, other, {**WROTE, "number": 8, "start": [2]})
    assert kept(contents)["g/v"].flags().tolist() == [False, False, True, False]
    longer = {**NAMED, "number": 8, "shape": [12]}
    contents = read(directory, NAMED, WROTE, longer, {**WROTE, "number": 8, "start": [2]})
    assert kept(contents)["g/v"].flags().tolist() == [False, True, True, False]
    assert kept(contents)["g/v"].details.shape == (12,)


@pytest.mark.parametrize(
    ("wrote", "what"),
    [
        ({**WROTE, "number": 6}, "KeyError(6)"),
        ({**WROTE, "stop": [5]}, "is not in a chunk of (4,)"),
        ({**WROTE, "start": [3]}, "0 bytes for 0 elements"),
        ({"is": "log", "format": "old"}, f"format 'old' instead of {FORMAT}"),
    ],
)
def test_what_cannot_be_of_a_chunk_is_said(
    directory: Path, wrote: dict[str, Any], what: str
) -> None:
    """What stands before it is kept."""
    said(directory, 1, HEADING, NAMED, WROTE, wrote)
    contents = LogContents(logs_in(directory))
    assert what in contents.problem
    assert kept(contents)["g/v"].flags().tolist() == [False, True, True, False]
