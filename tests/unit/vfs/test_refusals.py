"""What is refused of attributes and declarations: when, and where it is told afterwards."""

from __future__ import annotations

import itertools
import json
import os
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest

from nczfs.errors import BadArgument, BadValue, NczfsError, NotPermitted
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.refusals import MESSAGE_CHARACTERS_MAX, NOTES_MAX, Refusals
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.keys import Prefix, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import find, read
from tests.support.writing import close, mkdir, open_file, rename, unlink, write

_stores = itertools.count()

V, G = "datasets/n.zarr/v", "datasets/n.zarr/g"
COUNT = f"{V}/attributes/count"


@pytest.fixture
def fs() -> Iterator[TreeFileSystem]:
    url = f"memory://refusals{next(_stores)}"
    with open_zmap(Prefixed(open_store(url), parse_prefix("n.zarr")), "w") as root:
        root.create_dimension("x", 4)
        attributes = {"units": "K", "count": np.int16(3)}
        root.create_variable("v", ("x",), "<f4", attributes=attributes)
        root.create_group("g")
    tree = mount_tree(url, options=VfsOptions(read_only=False, allow_delete=True))
    yield tree
    tree.close()


def problems(fs: TreeFileSystem, path: str) -> list[str]:
    found: list[str] = json.loads(read(fs, f"{path}/info.json"))["problems"]
    assert find(fs, f"{path}/info.json").size == len(read(fs, f"{path}/info.json"))
    return found


def sync(fs: TreeFileSystem, path: str) -> None:
    """What ``sync FILE`` does."""
    handle = open_file(fs, path, os.O_RDONLY)
    try:
        fs.fsync(handle, data_only=False)
    finally:
        close(fs, handle)


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("count", [b"x\n"]),
        ("count", [b"1 ", b"2.5\n"]),
        ("count", [b"12", b"x"]),
        ("count", [b"40000\n"]),
        ("units", [b"a\xff"]),
        ("_FillValue", [b"none\n"]),
        ("_FillValue", [b"1 2\n"]),
        ("new", [b"\xe9 "]),
    ],
)
def test_a_text_that_can_never_become_the_attribute_is_refused_by_the_write(
    fs: TreeFileSystem, name: str, pieces: list[bytes]
) -> None:
    """SEMANTICS W9, W25."""
    flags = os.O_WRONLY | os.O_TRUNC | os.O_CREAT
    handle = open_file(fs, f"{V}/attributes/{name}", flags)
    *taken, refused = pieces
    offset = sum(map(len, taken))
    for start, piece in zip(itertools.accumulate(map(len, taken), initial=0), taken, strict=False):
        fs.write(handle, start, piece)
    with pytest.raises(BadValue, match=f"'{name}'"):
        fs.write(handle, offset, refused)
    if not taken:
        fs.flush(handle)
    fs.release(handle)
    (problem,) = problems(fs, V)
    assert problem.endswith(f"(what was written last to attributes/{name} was refused)")
    assert f"'{name}'" in problem
    assert read(fs, COUNT) == b"3\n"
    assert read(fs, f"{V}/attributes/units") == b"K\n"


def test_a_write_elsewhere_than_at_the_end_is_judged_by_what_is_known(fs: TreeFileSystem) -> None:
    """SEMANTICS W9."""
    handle = open_file(fs, COUNT, os.O_RDWR | os.O_TRUNC)
    fs.write(handle, 3, b"56\n")  # nobody knows yet what will stand before it
    fs.write(handle, 0, b"7 8")
    close(fs, handle)
    assert read(fs, COUNT) == b"7 856\n"
    handle = open_file(fs, COUNT)
    fs.write(handle, 2, b"9")
    with pytest.raises(BadValue):
        fs.write(handle, 1, b"x")
    with pytest.raises(BadValue):
        close(fs, handle)
    assert read(fs, COUNT) == b"7 856\n"


@pytest.mark.parametrize("again", ["from the start", "truncated", "behind"])
def test_of_a_text_with_a_refused_piece_nothing_is_stored_unless_it_is_begun_anew(
    fs: TreeFileSystem, again: str
) -> None:
    """SEMANTICS W9."""
    handle = open_file(fs, COUNT, os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"1\n")
    with pytest.raises(BadValue):
        fs.write(handle, 2, b"x\n")
    if again == "behind":
        fs.write(handle, 2, b"4\n")
        with pytest.raises(BadValue):
            close(fs, handle)
        assert read(fs, COUNT) == b"3\n"
        return
    if again == "truncated":
        fs.setattr(find(fs, COUNT).ino, AttributeChanges(size=0), handle)
    fs.write(handle, 0, b"5\n")
    close(fs, handle)
    assert read(fs, COUNT) in (b"5\n", b"5 4\n")
    assert problems(fs, V) == []


def test_what_only_the_close_can_judge_is_told_by_the_problems_and_by_sync(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS W25."""
    of_group = problems(fs, "datasets/n.zarr")
    sync(fs, COUNT)
    handle = open_file(fs, COUNT, os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"2.5")  # 2.5e1 would do
    with pytest.raises(BadValue):
        close(fs, handle)
    assert problems(fs, V) == [
        "attribute 'count': short cannot hold fractions (what was written last to attributes/count "
        "was refused)"
    ]
    assert problems(fs, "datasets/n.zarr") == of_group
    with pytest.raises(BadArgument, match="cannot hold fractions"):
        sync(fs, COUNT)
    sync(fs, f"{V}/attributes/units")
    write(fs, COUNT, b"4\n")
    assert problems(fs, V) == []
    sync(fs, COUNT)


@pytest.mark.parametrize("end", ["refresh", "unlink", "rename", "objects"])
def test_nothing_is_told_any_more_when_the_file_is_another(fs: TreeFileSystem, end: str) -> None:
    """SEMANTICS W25."""
    with pytest.raises(BadValue):
        write(fs, COUNT, b"x\n")
    assert len(problems(fs, V)) == 1
    match end:
        case "refresh":
            fs.refresh(V)
        case "unlink":
            unlink(fs, COUNT)
        case "rename":
            rename(fs, COUNT, f"{V}/attributes/number")
        case "objects":
            write(fs, "objects/n.zarr/v/.zattrs", read(fs, "objects/n.zarr/v/.zattrs") + b" ")
    assert problems(fs, V) == []


WRONG = [
    b'{"shape": [2], "dtype": "float12"}\n',
    b"{}\n",
    b"[1]\n",
    b"[",
    b'{"shape": [2] "dtype"',
    b'{"shape": [5], "dtype": "<f4", "dimensions": ["x"]}',
    b'{"shape": [2], "dtype": "<f4", "codecs": [{"id": "nope"}]}',
]


@pytest.mark.parametrize("data", WRONG)
@pytest.mark.parametrize("cut", [0, 1])
def test_a_document_that_is_complete_and_wrong_is_refused_by_the_write(
    fs: TreeFileSystem, data: bytes, cut: int
) -> None:
    """SEMANTICS W13, W25."""
    handle = open_file(fs, f"{G}/info.json", os.O_WRONLY | os.O_TRUNC)
    cut = cut if data.startswith(b"{") else 0
    fs.write(handle, 0, data[:cut])
    with pytest.raises(BadArgument, match=r"^/g/info\.json: ") as refused:
        fs.write(handle, cut, data[cut:])
    fs.release(handle)
    (problem,) = problems(fs, G)
    assert problem == f"{refused.value} (what was written last to info.json was refused)"
    with pytest.raises(BadArgument):
        sync(fs, f"{G}/info.json")
    write(fs, f"{G}/info.json", b'{"shape": [2], "dtype": "<f4"}')
    assert problems(fs, G) == []
    sync(fs, f"{G}/info.json")


def test_a_document_that_ends_too_early_is_refused_by_the_close(fs: TreeFileSystem) -> None:
    """SEMANTICS W13, W25."""
    with pytest.raises(BadArgument, match="not JSON at character"):
        write(fs, f"{G}/info.json", b'{"shape": [2], "dtype": "<f4"')
    assert len(problems(fs, G)) == 1


def test_only_an_empty_group_says_so_too(fs: TreeFileSystem) -> None:
    """SEMANTICS W13."""
    mkdir(fs, f"{G}/inner")
    with pytest.raises(NotPermitted):
        write(fs, f"{G}/info.json", b'{"shape": [2], "dtype": "<f4"}')
    assert "empty" in problems(fs, G)[0]


def test_notes_are_bounded_and_told_once() -> None:
    changed: list[str] = []
    refusals = Refusals(changed.append)
    for number in range(NOTES_MAX + 5):
        refusals.note(Prefix(f"v{number}"), "info.json", "no" * MESSAGE_CHARACTERS_MAX)
    assert refusals.of(Prefix("v4")) == ()
    assert len(refusals.of(Prefix("v5"))[0]) < MESSAGE_CHARACTERS_MAX + 100
    del changed[:]
    revision = refusals.revision
    refusals.note(Prefix("v9"), "info.json", "no" * MESSAGE_CHARACTERS_MAX)
    refusals.settle(Prefix("v9"), "values.raw")
    assert (changed, refusals.revision) == ([], revision)
    refusals.settle(Prefix("v9"), "info.json")
    assert changed == ["v9"]
    assert refusals.revision != revision


def test_a_write_that_is_refused_again_is_no_moment_taken_for_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks why it was refused takes no lock."""
    refusals, place = Refusals(lambda _: None), Prefix("v")
    found: list[str | None] = []

    class Notes(OrderedDict[tuple[Prefix, str], str]):
        def __setitem__(self, key: tuple[Prefix, str], why: str) -> None:
            found.append(refusals.why(place, "info.json"))
            super().__setitem__(key, why)

    refusals.note(place, "info.json", "no")
    monkeypatch.setattr(refusals, "_notes", Notes(refusals._notes))
    found.clear()
    refusals.note(place, "info.json", "no again")
    assert found == ["no"]
    assert refusals.why(place, "info.json") == "no again"


def test_other_errors_than_refusals_are_not_noted() -> None:
    refusals = Refusals(lambda _: None)
    file = refusals.file(lambda: Prefix("v"), "info.json")
    with pytest.raises(NczfsError), file.noted():
        raise NczfsError("the store is gone")
    file.check()
