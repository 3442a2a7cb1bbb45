"""What is made of the answer 403 where the option leaves it open."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from nczfs.errors import Unavailable
from nczfs.zmap.forbidden import AGAIN_S, Forbidden
from nczfs.zmap.keys import Key
from tests.conftest import ExpectedWarnings

DOCUMENT, CHUNK, MISSING = Key("v/.zarray"), Key("v/0"), Key("v/1")


class Store:
    """What a store gives out, and how often it was asked."""

    def __init__(self) -> None:
        self.given = {DOCUMENT, CHUNK}
        self.hides = True
        self.now_s = 0.0
        self.asked: Counter[str] = Counter()
        self.answers = threading.Event()
        self.answers.set()
        self.forbidden = Forbidden("auto", "store", self._gives, self._hides, lambda: self.now_s)

    def _gives(self, key: Key) -> bool:
        self.asked[key] += 1
        self.answers.wait(120)
        return key in self.given

    def _hides(self, key: Key) -> bool:
        self.asked["nobody"] += 1
        return self.hides


@pytest.fixture
def store(expected_warnings: ExpectedWarnings) -> Store:
    expected_warnings.add("store: 403 counts as")
    return Store()


def test_where_nothing_was_read_nothing_is_known(store: Store) -> None:
    assert not store.forbidden.means_absent(MISSING)
    assert not store.asked
    store.forbidden.note_read(DOCUMENT)
    assert store.forbidden.means_absent(MISSING)


def test_a_store_that_closes_is_noticed_after_a_moment_and_one_that_opens_too(
    store: Store,
) -> None:
    store.forbidden.note_read(DOCUMENT)
    for given in ({DOCUMENT}, set(), {DOCUMENT}):
        store.given = given
        assert store.forbidden.means_absent(MISSING) is bool(given)
        assert store.forbidden.is_absent is bool(given)
        store.now_s += AGAIN_S


def test_a_store_that_tells_the_absent_hides_nothing(store: Store) -> None:
    store.hides = False
    store.forbidden.note_read(DOCUMENT)
    assert not store.forbidden.means_absent(MISSING)


def test_an_object_that_was_deleted_says_nothing(store: Store) -> None:
    for key in (DOCUMENT, MISSING, CHUNK):
        store.forbidden.note_read(key)
    store.given = {DOCUMENT}
    assert store.forbidden.means_absent(MISSING)
    assert store.asked == {CHUNK: 1, DOCUMENT: 1, "nobody": 1}


def test_many_threads_ask_once(store: Store) -> None:
    store.forbidden.note_read(DOCUMENT)
    store.answers.clear()
    with ThreadPoolExecutor(32) as pool:
        said = [pool.submit(store.forbidden.means_absent, MISSING) for _ in range(32)]
        store.answers.set()
        assert all(future.result() for future in said)
    assert store.asked == {DOCUMENT: 1, "nobody": 1}


def test_a_question_without_an_answer_is_asked_again_and_meanwhile_the_error_of_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: Key) -> bool:
        raise Unavailable("no connection")

    failing = Forbidden("auto", "store", fail, fail, lambda: store.now_s)
    failing.note_read(DOCUMENT)
    for _ in range(2):
        with pytest.raises(Unavailable):
            failing.means_absent(MISSING)


def test_it_is_told_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.forbidden.note_read(DOCUMENT)
    for given in ({DOCUMENT}, set(), {DOCUMENT}):
        store.given = given
        store.forbidden.means_absent(MISSING)
        store.now_s += AGAIN_S
    assert caplog.text.count("--forbidden-is-absent no") == 1
