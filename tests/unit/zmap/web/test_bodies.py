"""Bodies of answers arrive whole, and large ones are in memory once."""

from __future__ import annotations

import tracemalloc

import pytest

from nczfs.errors import Unavailable
from nczfs.zmap.web import attempts
from nczfs.zmap.web.bodies import ONE_BUFFER_MIN
from tests.support.s3_script import KEY, Serve
from tests.support.scripted import Asked, Reply

MIB = 1 << 20


def answer(body: bytes, announced: int | None = None) -> Reply:
    size = len(body) if announced is None else announced
    headers = {"ETag": '"e"', "Content-Range": f"bytes 0-{size - 1}/{size}"}
    return Reply(206, body, headers | {"Content-Length": str(size)})


@pytest.mark.parametrize("size", [1, ONE_BUFFER_MIN - 1, ONE_BUFFER_MIN, MIB + 1, 5 * MIB])
def test_a_body_of_any_size_is_what_was_sent(serve: Serve, size: int) -> None:
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    server, open_bucket = serve(lambda asked: answer(body))
    zmap = open_bucket()
    for _ in range(3):
        blob = zmap.read(KEY)
        assert bytes(blob.data) == body
    assert len({asked.port for asked in server.asked}) == 1


def test_a_large_body_is_in_memory_once(serve: Serve) -> None:
    body = bytes(24 * MIB)
    _, open_bucket = serve(lambda asked: answer(body))
    zmap = open_bucket()
    tracemalloc.start()
    try:
        blob = zmap.read(KEY)
        assert tracemalloc.get_traced_memory()[1] < 26 * MIB
    finally:
        tracemalloc.stop()
    assert blob.data == body


def test_a_large_body_that_ends_early_is_read_again_and_never_shown(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPTS", 3)
    body = bytes(range(256)) * 4096
    answers = [answer(body[:300_000], len(body)), answer(body)]

    def script(asked: Asked) -> Reply:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    _, open_bucket = serve(script)
    zmap = open_bucket(attempt_timeout_s=2.0)
    assert zmap.read(KEY).data == body
    answers[:] = [answer(body[:-1], len(body))]
    with pytest.raises(Unavailable, match=KEY):
        zmap.read(KEY)
