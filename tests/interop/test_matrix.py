"""What nczfs writes, every program reads, and the reverse: values and metadata, case by case.

What a program refuses or reads differently stands in matrix/known.py in its own words; the tests
hold that it is neither more nor less than that.
"""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.matrix.cases import CASES
from tests.interop.matrix.compare import differences
from tests.interop.matrix.known import DIFFERENCES, REFUSALS, WRITERS_REFUSE
from tests.interop.matrix.model import Case
from tests.interop.matrix.readers import READERS, Reader, Store
from tests.interop.matrix.rules import NCZFS, Rule
from tests.interop.matrix.table import table
from tests.interop.matrix.writers import OURS, WRITERS, Writer

Stored = Callable[[Writer, Case], Store]


def applying(rules: tuple[Rule, ...], writer: str, reader: str, case: str) -> list[Rule]:
    return [rule for rule in rules if rule.covers(writer, reader, case)]


def refused(writer: Writer, case: Case) -> list[Rule]:
    return applying(WRITERS_REFUSE, writer.name, "", case.name)


READ = [
    (writer, reader, case)
    for writer in WRITERS
    for reader in READERS
    for case in CASES
    if (writer in OURS or reader.name == NCZFS) and not refused(writer, case)
]
NOT_WRITTEN = [(writer, case) for writer in OURS for case in CASES if refused(writer, case)]


def name_of(value: Writer | Reader | Case) -> str:
    return value.name.replace(" ", "-")


@pytest.fixture(scope="module", autouse=True)
def asyncio_is_quiet() -> Iterator[None]:
    """zarr-python leaves what failed beside the first failure to the garbage collector.

    It would report it in the middle of anything, of the report of a failed test too.
    """
    logger = logging.getLogger("asyncio")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    gc.collect()
    logger.setLevel(level)


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Where a writer stored a case; written once."""
    made: dict[tuple[str, str], Store] = {}
    top = tmp_path_factory.mktemp("matrix")

    def store_of(writer: Writer, case: Case) -> Store:
        key = (writer.name, case.name)
        if key not in made:
            path = top / name_of(writer) / case.name
            path.parent.mkdir(exist_ok=True)
            writer.write(case, path)
            made[key] = Store(path, writer.is_nczarr)
        return made[key]

    return store_of


@pytest.mark.parametrize(("writer", "reader", "case"), READ, ids=name_of)
def test_what_one_program_writes_another_reads(
    writer: Writer, reader: Reader, case: Case, stored: Stored
) -> None:
    store = stored(writer, case)
    if refusals := applying(REFUSALS, writer.name, reader.name, case.name):
        (rule,) = refusals
        with pytest.raises(Exception, match=rule.words):
            reader.read(store)
        return
    found = differences(case, reader.read(store), writer.lacks)
    rules = applying(DIFFERENCES, writer.name, reader.name, case.name)
    unknown = [line for line in found if not any(re.search(rule.words, line) for rule in rules)]
    assert unknown == []
    learnt = [r.words for r in rules if not any(re.search(r.words, line) for line in found)]
    assert learnt == [], "no longer so: the entry in matrix/known.py is out of date"


@pytest.mark.parametrize(("writer", "case"), NOT_WRITTEN, ids=name_of)
def test_what_nczfs_does_not_write_it_refuses_in_words(
    writer: Writer, case: Case, tmp_path: Path
) -> None:
    (rule,) = refused(writer, case)
    with pytest.raises(Exception, match=rule.words):
        writer.write(case, tmp_path / "d")


def test_the_page_on_interoperability_shows_the_matrix() -> None:
    page = Path(__file__).parents[2] / "docs" / "interoperability.md"
    assert table() in page.read_text(), "run python -m tests.interop.matrix.table, and paste"
