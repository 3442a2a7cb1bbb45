"""How many keys one request deletes, by the pace of the server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, cast

import pytest

from nczfs.zmap.keys import Key
from nczfs.zmap.s3.batch import BATCH_S, FIRST_KEYS, LEAST_KEYS, BatchDeletion
from nczfs.zmap.s3.messages import Call, S3Answer
from nczfs.zmap.s3.transport import S3Transport


class SlowServer:
    """A transport to a server that takes a time for each key, by a clock of its own."""

    def __init__(self, key_s: float, answer_s: float = 0.1) -> None:
        self.key_s = key_s
        self.answer_s = answer_s
        self.now = 0.0
        self.sent: list[list[str]] = []
        self.took_s: list[float] = []

    def call(self, call: Call, fault: Callable[[S3Answer], str]) -> S3Answer:
        objects: list[Any] = call.parameters["Delete"]["Objects"]
        self.sent.append([item["Key"] for item in objects])
        self.took_s.append(self.answer_s + self.key_s * len(objects))
        self.now += self.took_s[-1]
        return S3Answer(200, {})

    def deletion(self) -> BatchDeletion:
        return BatchDeletion(cast(S3Transport, self), lambda: self.now)


def delete(deletion: BatchDeletion, count: int) -> list[str]:
    keys = [Key(str(number)) for number in range(count)]
    assert list(deletion.delete(iter(keys))) == []
    return [str(key) for key in keys]


def test_a_quick_server_deletes_a_thousand_keys_a_request_from_the_second_on() -> None:
    server = SlowServer(key_s=0.001)
    keys = delete(server.deletion(), 2300)
    assert list(map(len, server.sent)) == [FIRST_KEYS, 1000, 1000, 200]
    assert list(chain.from_iterable(server.sent)) == keys


@pytest.mark.parametrize("key_s", [0.01, 0.06, 0.2])
def test_a_slow_server_gets_no_more_keys_than_it_deletes_in_a_few_seconds(key_s: float) -> None:
    """Swift deletes one key after the other, and answers when all are gone."""
    server = SlowServer(key_s)
    keys = delete(server.deletion(), 1050)
    assert list(chain.from_iterable(server.sent)) == keys
    assert max(server.took_s[1:]) <= BATCH_S + server.answer_s
    assert min(server.took_s[1:-1]) > BATCH_S / 2


def test_the_pace_is_known_to_the_next_deletion() -> None:
    server = SlowServer(key_s=0.001)
    deletion = server.deletion()
    delete(deletion, 500)
    server.sent.clear()
    delete(deletion, 1000)
    assert list(map(len, server.sent)) == [1000]


def test_a_few_keys_do_not_make_the_next_batch_smaller() -> None:
    server = SlowServer(key_s=0.001, answer_s=0.5)
    deletion = server.deletion()
    delete(deletion, 2)
    delete(deletion, FIRST_KEYS)
    assert list(map(len, server.sent)) == [2, FIRST_KEYS]


def test_one_slow_answer_does_not_end_batches() -> None:
    server = SlowServer(key_s=0.001, answer_s=60.0)
    deletion = server.deletion()
    delete(deletion, 2)
    server.answer_s = 0.1
    delete(deletion, 1000)
    assert list(map(len, server.sent)) == [2, LEAST_KEYS, 363, 627]
