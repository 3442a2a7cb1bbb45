"""Elements that are put over what the store has: what is different, and what is there already."""

from __future__ import annotations

import numpy as np

from nczfs.engine.spool.basis import Basis, sent
from nczfs.engine.spool.overlay import Written, differs, may_replace
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap

KEY = Key("v/0")


def test_elements_differ_to_the_bit() -> None:
    one = np.array([[1.0, np.nan], [0.0, 2.0]])
    other = np.array([[1.0, np.nan], [-0.0, 3.0]])
    assert differs(one, other).tolist() == [[False, False], [True, True]]


def test_elements_of_variable_length_differ_where_any_of_theirs_does() -> None:
    one, other = np.empty((2, 2), object), np.empty((2, 2), object)
    for index, (a, b) in enumerate([("a", "a"), ("a", "b"), ([1, 2], [1, 2]), ([1], [1, 2])]):
        one.flat[index], other.flat[index] = np.array(a), np.array(b)
    assert differs(one, other).tolist() == [[False, True], [False, True]]


def test_elements_are_there_already_in_an_object_that_has_all_of_them() -> None:
    zmap = MemoryZMap()
    zmap.write(KEY, b"sent")
    flags, values = np.ones(3, bool), np.zeros(3)
    done = Written((0,), flags, values, Basis(), (sent([b"sent"]),))
    other = Written((0,), flags, values, Basis(), (sent([b"else"]),))
    stat = zmap.stat(KEY)
    assert done.is_done(zmap, stat)
    assert not done.is_done(zmap, None)
    assert not other.is_done(zmap, stat)


def test_an_object_may_be_replaced_that_is_not_newer_than_what_was_written() -> None:
    zmap = MemoryZMap()
    zmap.write(KEY, b"there")
    stat = zmap.stat(KEY)
    timeless = stat._replace(mtime_ns=None)
    assert stat.stored_ns is not None
    before, after = stat.stored_ns, stat.stored_ns + 1
    assert [may_replace(zmap, stat, Basis(written_ns)) for written_ns in (before, after)] == [
        False,
        True,
    ]
    assert not may_replace(zmap, timeless, Basis(after))
    assert may_replace(zmap, timeless, Basis(before, (Version("0"), stat.version)))
    assert may_replace(zmap, timeless, Basis(before, sent=(sent([b"there"]),)))
    assert not may_replace(zmap, timeless, Basis(before, sent=(sent([b"other"]),)))


def test_what_was_removed_is_written_anew_where_nothing_was_or_nothing_is_known() -> None:
    zmap = MemoryZMap()
    assert may_replace(zmap, None, Basis(1))
    assert may_replace(zmap, None, Basis(1, (ABSENT, Version("1"))))
    assert not may_replace(zmap, None, Basis(1, (Version("1"),)))
