"""Pictures in pages: drawn from few chunks when they are asked for, and kept for a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.types import Message

import nczfs
from nczfs import metrics
from nczfs.engine.options import EngineOptions
from nczfs.model.hierarchy import Variable
from nczfs.serve import pictures
from nczfs.serve.answers import Answer
from nczfs.serve.app import PAINTERS, AppOptions, _Pieces
from nczfs.serve.pictures import LIMITS
from nczfs.serve.store import ServedStore
from nczfs.vfs.nodes import Directory
from tests.conftest import ExpectedWarnings
from tests.support.served import DEADLINE_S, Got, Served, served

ANSWERS_MAX, PLACES = 8, 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    with nczfs.open(str(path / "a.zarr"), "w", format="zarr2") as dataset:
        values = np.arange(400 * 40, dtype="f4").reshape(400, 40)
        dataset.create_variable("many", values.shape, "f4", values, chunks=(1, 40))
        for number in range(PLACES + 1):
            dataset.create_variable(f"v{number}", (4,), "i4", np.arange(4) + number)
        dataset.create_variable("bad", (4,), "i4", np.arange(4), chunks=(4,))
        dataset.create_variable("words", (2,), "S4", np.array([b"a", b"b"]))
    (path / "a.zarr/bad/0").write_bytes(b"broken")
    with nczfs.open(str(path / "b.zarr"), "w", format="zarr2") as dataset:
        dataset.create_variable("v", (4,), "i4", np.arange(4))
    (path / "b.zarr/v").rename(path / "only.zarr")
    return path


def _picture_of(got: Got) -> Image.Image:
    assert (got.status, got.headers["content-type"]) == (200, "image/png")
    found = Image.open(BytesIO(got.body))
    assert (found.width, found.height) == (LIMITS.width, LIMITS.height)
    return found


@pytest.mark.parametrize("target", ["a.zarr/words/", "a.zarr/v0", "only.zarr/"])
def test_every_variable_has_a_picture(service: Served, target: str) -> None:
    """SEMANTICS V12."""
    _picture_of(service.get(f"{target}?picture"))


def test_a_picture_is_drawn_from_few_chunks_and_kept(service: Served) -> None:
    """SEMANTICS V12."""
    before = metrics.value("nczfs_chunks_decoded_total")
    got = service.get("a.zarr/many/?picture")
    _picture_of(got)
    drawn = metrics.value("nczfs_chunks_decoded_total")
    assert 1 < drawn - before <= LIMITS.chunks
    assert service.get("a.zarr/many/?picture").body == got.body
    again = service.get("a.zarr/many/?picture", If_None_Match=got.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert again.headers["cache-control"].startswith("private, max-age=")
    assert metrics.value("nczfs_chunks_decoded_total") == drawn


def test_a_request_looks_for_its_variable_once(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    find, digest = ServedStore.variable_of, pictures._digest

    def finding(served_store: ServedStore, directory: Directory) -> Any:
        looked.append("found")
        return find(served_store, directory)

    def digesting(variable: Variable) -> bytes:
        looked.append("digest")
        return digest(variable)

    monkeypatch.setattr(ServedStore, "variable_of", finding)
    monkeypatch.setattr(pictures, "_digest", digesting)
    with served(store) as service:
        for _ in ("drawn", "kept"):
            _picture_of(service.get("a.zarr/v2/?picture"))
            assert looked == ["found", "digest"]
            looked.clear()


def test_a_picture_shows_newer_values_after_a_while(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS V12."""
    with served(store) as service:
        first = service.get("a.zarr/v0/?picture")
        with nczfs.open(str(store / "a.zarr"), "r+") as dataset:
            dataset.variables["v0"][...] = [9, 0, 9, 0]
        assert service.get("a.zarr/v0/?picture").body == first.body
        monkeypatch.setattr(pictures, "KEPT_S", 0.0)
        now = service.get("a.zarr/v0/?picture", If_None_Match=first.headers["etag"])
        _picture_of(now)
        assert now.body != first.body


def test_what_cannot_be_drawn_is_told(service: Served, expected_warnings: ExpectedWarnings) -> None:
    """SEMANTICS V12."""
    expected_warnings.add("bad")
    assert service.get("a.zarr/bad/?picture").status == 502
    for target in ("a.zarr/?picture", "?picture", "a.zarr/a.nc?picture", "none/?picture"):
        assert service.get(target).status == 404


def test_pages_have_no_pictures_without_the_libraries(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS V12."""
    assert "<img" in service.get("a.zarr/").text
    assert "<img" in service.get("a.zarr/v0/").text
    monkeypatch.setattr("nczfs.serve.pages.is_available", lambda: False)
    monkeypatch.setattr(pictures, "is_available", lambda: False)
    assert "<img" not in service.get("a.zarr/").text
    assert "<img" not in service.get("a.zarr/v0/").text
    assert service.get("a.zarr/v0/?picture").status == 404


def test_a_picture_is_drawn_anew_when_an_attribute_changes(store: Path) -> None:
    with served(store, options=EngineOptions(metadata_ttl_s=0)) as service:
        first = service.get("a.zarr/v1/?picture").body
        (store / "a.zarr/v1/.zattrs").write_text(
            '{"long_name": "another", "_ARRAY_DIMENSIONS": ["x"]}'
        )
        assert service.get("a.zarr/v1/?picture").body != first


def test_values_do_not_wait_for_pictures(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEMANTICS V12."""
    gate, begun, answered = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def waiting(*_words: Any, **_more: Any) -> bytes:
        begun.release()
        assert gate.wait(DEADLINE_S)
        return b"drawn"

    found: list[int] = []

    def ask(service: Served, number: int) -> None:
        found.append(service.get(f"a.zarr/v{number}/?picture").status)
        answered.release()

    with served(store, AppOptions(answers_max=ANSWERS_MAX)) as service:
        kept = service.get("a.zarr/words/?picture")
        monkeypatch.setattr("nczfs.pictures.picture.variable_picture", waiting)
        numbers = range(PLACES + 1)
        asking = [threading.Thread(target=ask, args=(service, number)) for number in numbers]
        try:
            for thread in asking:
                thread.start()
            for _ in range(PAINTERS):
                assert begun.acquire(timeout=DEADLINE_S)
            assert answered.acquire(timeout=DEADLINE_S)
            assert found == [503]
            assert service.get("a.zarr/v0/values.raw").status == 200
            assert service.get("a.zarr/words/?picture").body == kept.body
            tag = kept.headers["etag"]
            assert service.get("a.zarr/words/?picture", If_None_Match=tag).status == 304
        finally:
            gate.set()
            for thread in asking:
                thread.join(DEADLINE_S)
    assert sorted(found) == [200] * PLACES + [503]


def test_a_client_that_leaves_takes_no_second_thread() -> None:
    gate, begun = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        begun.set()
        assert gate.wait(DEADLINE_S)
        yield b"late"

    async def receive() -> Message:
        await asyncio.to_thread(begun.wait, DEADLINE_S)
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        pass

    async def leave() -> int:
        with ThreadPoolExecutor(2) as workers:
            answer = _Pieces(Answer((), "text/plain"), b"first", pieces(), workers)
            sending = asyncio.create_task(answer({"type": "http", "path": "/"}, receive, send))
            try:
                await asyncio.to_thread(begun.wait, DEADLINE_S)
                for _ in range(100):  # turns of the loop, in which the answer gives up
                    await asyncio.sleep(0.001)
                other = asyncio.wrap_future(workers.submit(int))
                return await asyncio.wait_for(other, DEADLINE_S / 4)
            finally:
                gate.set()
                await sending

    assert asyncio.run(leave()) == 0
