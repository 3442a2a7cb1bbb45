"""All checks in order. Each one ends, whatever hangs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from nczfs.doctor import content, limits, machine, network, permissions, rate, room
from nczfs.doctor.finding import CheckResult, Grade, doubtful, well, wrong, wrong_by
from nczfs.doctor.permissions import Sample
from nczfs.engine.options import EngineOptions
from nczfs.engine.stores import open_store
from nczfs.errors import DatasetError, NczfsError, NoContent, NotADataset
from nczfs.library.opening import open_url
from nczfs.plaindata import frozen
from nczfs.zmap.base import ZMap
from nczfs.zmap.destination import Destination, destination_of
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.url import parse_url

T = TypeVar("T")


@frozen
class MachineQuestion:
    """What a mount would use of this machine.

    Attributes
    ----------
    memory_bytes, usable_bytes : for caches, and altogether.
    connections : of a store.
    """

    allow_other: bool
    spool_dir: Path
    cache_dir: str | None
    cache_bytes_max: int | None
    memory_bytes: int
    usable_bytes: int
    connections: int
    patience_s: float


@frozen
class StoreQuestion:
    """The store to look at.

    Attributes
    ----------
    writes : whether to write and remove an object.
    patience_s : after which a check is given up.
    """

    url: str
    options: StoreOptions
    engine: EngineOptions
    writes: bool
    patience_s: float


Line = tuple[str, CheckResult]
"""The subject of a check, and what it found."""


def examine_machine(question: MachineQuestion) -> Iterator[Line]:
    """Check what does not depend on a store."""
    checks: dict[str, Callable[[], CheckResult]] = {
        "kernel": machine.kernel,
        "/dev/fuse": machine.device,
        "fusermount3": machine.fusermount,
        "fuse.conf": partial(machine.fuse_conf, allow_other=question.allow_other),
        "read-ahead": machine.read_ahead,
        "descriptors": partial(limits.descriptors, question.connections),
        "memory": partial(limits.memory, question.memory_bytes, question.usable_bytes),
        "spool": partial(room.spool, question.spool_dir),
        "cache": partial(room.cache, question.cache_dir, question.cache_bytes_max),
        "proxies": network.proxies,
    }
    for subject, check in checks.items():
        yield subject, _found(check, question.patience_s)


def examine_store(question: StoreQuestion) -> Iterator[Line]:
    """Check a store, from the way to it to the dataset in it.

    What is behind something wrong is not checked.
    """
    patience_s = question.patience_s
    try:
        destination = destination_of(parse_url(question.url), question.options)
        zmap = open_store(question.url, question.options)
    except NczfsError as error:
        yield "store", wrong_by(error)
        return
    try:
        for lines in (
            () if destination is None else _way(destination, patience_s),
            () if destination is None else _bucket(destination, patience_s),
            _objects(zmap, question),
            _dataset(question),
        ):
            is_wrong = False
            for subject, finding in lines:
                yield subject, finding
                is_wrong = is_wrong or finding.grade is Grade.WRONG
            if is_wrong:
                return
    finally:
        with suppress(NczfsError):
            _ended(zmap.close, patience_s)


def _way(destination: Destination, patience_s: float) -> Iterator[Line]:
    yield "proxy", network.way(destination)
    if not destination.proxy:  # which looks names up, and speaks TLS for us or lets it pass
        for subject, check in (("name", network.name), ("TLS", network.encryption)):
            finding = _found(partial(check, destination), patience_s)
            yield subject, finding
            if finding.grade is Grade.WRONG:
                return
    answer = _ended(partial(network.answer, destination), patience_s)
    if answer is None:
        yield "server", _late(patience_s)
        return
    finding, headers = answer
    yield "server", finding
    if finding.grade is not Grade.WRONG:
        yield "clock", network.clock(destination, headers)


def _bucket(destination: Destination, patience_s: float) -> Iterator[Line]:
    bucket = destination.bucket
    if bucket is None:
        return
    for subject, check in (
        ("credentials", permissions.credentials),
        ("region", permissions.region),
    ):
        finding = _found(partial(check, bucket), patience_s)
        yield subject, finding
        if finding.grade is Grade.WRONG:
            return


def _objects(zmap: ZMap, question: StoreQuestion) -> Iterator[Line]:
    patience_s = question.patience_s
    listed = _ended(partial(_listing, zmap), patience_s)
    if listed is None:
        yield "listing", _late(patience_s)
        return
    finding, sample = listed
    yield "listing", finding
    if finding.grade is not Grade.WRONG and sample is not None:
        reading = _found(partial(permissions.reading, zmap, sample), patience_s)
        yield "reading", reading
        if reading.grade is not Grade.WRONG and not zmap.features.near:
            yield "latency", _found(partial(rate.latency, zmap, sample), patience_s)
            yield "throughput", _found(partial(rate.throughput, zmap, sample), patience_s)
    if question.writes:
        writing = _found(partial(permissions.writing, zmap), patience_s)
        yield "writing", writing
        if writing.grade is not Grade.WRONG:
            yield "conditions", _found(partial(permissions.conditions, zmap), patience_s)


def _listing(zmap: ZMap) -> tuple[CheckResult, Sample | None]:
    try:
        return permissions.listing(zmap)
    except NczfsError as error:
        return wrong_by(error), None


def _dataset(question: StoreQuestion) -> Iterator[Line]:
    found = _ended(partial(_content, question), question.patience_s)
    yield from [("dataset", _late(question.patience_s))] if found is None else found


def _content(question: StoreQuestion) -> list[Line]:
    try:
        dataset = open_url(question.url, store_options=question.options, options=question.engine)
    except (NotADataset, NoContent):
        return [
            ("dataset", well("none at this place itself; a mount shows those below it")),
        ]
    except NczfsError as error:
        return [("dataset", wrong_by(error))]
    with dataset:
        try:
            seen = content.survey(dataset)
            return [
                ("dataset", content.kind(dataset, seen)),
                ("metadata", content.soundness(seen)),
                (
                    "largest chunk",
                    content.largest_chunk(seen, question.engine.memory_limit_bytes),
                ),
                ("consolidated", content.consolidation(dataset, seen)),
            ]
        except DatasetError as error:
            return [("dataset", doubtful(str(error)))]
        except NczfsError as error:
            return [("dataset", wrong_by(error))]


def _found(check: Callable[[], CheckResult], patience_s: float) -> CheckResult:
    """Return what a check finds, or that it does not end."""
    try:
        found = _ended(check, patience_s)
    except (NczfsError, OSError) as error:
        return wrong_by(error)
    return _late(patience_s) if found is None else found


def _late(patience_s: float) -> CheckResult:
    return wrong(f"nothing came for {patience_s:.0f} s", "see whether the disk or the server hangs")


def _ended(function: Callable[[], T], patience_s: float) -> T | None:
    """Return the result of a function; None if it does not end in time.

    It then goes on in its thread, which does not keep the process from ending.
    """
    outcome: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((function(), None))
        except Exception as error:  # noqa: BLE001 - raised again by the caller's thread
            outcome.put((None, error))

    threading.Thread(target=run, name="nczfs-doctor", daemon=True).start()
    try:
        result, error = outcome.get(timeout=patience_s)
    except queue.Empty:
        return None
    if error is not None:
        raise error
    return result
