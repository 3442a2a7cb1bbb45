"""The properties of every byte layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczfs.engine.options import Tally
from nczfs.errors import BadValue, NotPermitted
from nczfs.views.layout import Layout
from nczfs.views.reader import read_at, read_if_cached
from nczfs.views.segments import Literal, Run
from nczfs.views.writer import settled, write_at

# Each class of a view runs the same tests with its own fixture.
_SHARED = (HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)


class LayoutSuite(ABC):
    """The properties of a layout; a test class for a view adds only its fixture.

    After each write the first contents are written again, so that each example begins with them.
    """

    @pytest.fixture
    @abstractmethod
    def layout(self) -> Layout:
        """Return a layout of at least one byte."""

    @pytest.fixture
    def whole(self, layout: Layout) -> bytes:
        return bytes(read_at(layout, 0, layout.size, Tally()))

    @pytest.fixture
    def other(self, layout: Layout, whole: bytes) -> bytes:
        """Other valid content of the layout: here the elements of each run in reverse."""
        parts: list[bytes] = []
        offset = 0
        for segment in layout.segments:
            part = whole[offset : offset + segment.size]
            offset += segment.size
            if isinstance(segment, Run):
                cells = np.frombuffer(part, np.uint8).reshape(-1, segment.form.width)
                part = cells[::-1].tobytes()
            parts.append(part)
        return b"".join(parts)

    def test_a_read_of_it_all_has_its_size(self, layout: Layout, whole: bytes) -> None:
        assert len(whole) == layout.size > 0

    @settings(suppress_health_check=_SHARED, deadline=None)
    @given(data=st.data())
    def test_pieces_tile_any_range_without_gap_or_overlap(
        self, layout: Layout, data: st.DataObject
    ) -> None:
        start = data.draw(st.integers(0, layout.size))
        stop = data.draw(st.integers(start, layout.size + 10))
        pieces = list(layout.pieces(start, stop))
        assert sum(piece.stop - piece.start for piece in pieces) == min(stop, layout.size) - start
        for piece in pieces:
            assert 0 <= piece.start < piece.stop <= piece.segment.size
        for before, after in pairwise(pieces):
            assert before.stop == before.segment.size
            assert after.start == 0

    @settings(suppress_health_check=_SHARED, deadline=None)
    @given(data=st.data())
    def test_any_two_reads_that_cover_a_range_equal_one_read_of_it(
        self, layout: Layout, whole: bytes, data: st.DataObject
    ) -> None:
        start = data.draw(st.integers(0, layout.size))
        middle = data.draw(st.integers(start, layout.size))
        stop = data.draw(st.integers(middle, layout.size + 10))
        first = bytes(read_at(layout, start, middle - start, Tally()))
        second = bytes(read_at(layout, middle, stop - middle, Tally()))
        assert first + second == whole[start:stop]

    @settings(suppress_health_check=_SHARED, deadline=None)
    @given(data=st.data())
    def test_what_is_in_memory_reads_the_same_from_there(
        self, layout: Layout, whole: bytes, data: st.DataObject
    ) -> None:
        start = data.draw(st.integers(0, layout.size))
        stop = data.draw(st.integers(start, layout.size + 10))
        found = read_if_cached(layout, start, stop - start, 0.0)
        assert found is not None
        assert bytes(found) == whole[start:stop]

    @settings(suppress_health_check=_SHARED, deadline=None)
    @given(data=st.data())
    def test_what_is_written_in_pieces_is_read_back_and_nothing_else_changes(
        self, layout: Layout, whole: bytes, other: bytes, data: st.DataObject
    ) -> None:
        start = settled(layout, 0, data.draw(st.integers(0, layout.size)))
        stop = settled(layout, start, data.draw(st.integers(start, layout.size)))
        middle = settled(layout, start, data.draw(st.integers(start, stop)))
        write_at(layout, start, other[start:middle])
        write_at(layout, middle, other[middle:stop])
        read = bytes(read_at(layout, 0, layout.size, Tally()))
        write_at(layout, 0, whole)
        assert read == whole[:start] + other[start:stop] + whole[stop:]
        assert bytes(read_at(layout, 0, layout.size, Tally())) == whole

    def test_literal_bytes_can_only_be_written_over_by_themselves(
        self, layout: Layout, whole: bytes
    ) -> None:
        write_at(layout, 0, whole)
        offset = 0
        for segment in layout.segments:
            if isinstance(segment, Literal):
                for place in (offset, offset + segment.size - 1):
                    wrong = bytes([whole[place] ^ 1])
                    with pytest.raises(NotPermitted, match=f"byte {place} "):
                        write_at(layout, place, wrong)
            offset += segment.size
        assert bytes(read_at(layout, 0, layout.size, Tally())) == whole

    def test_a_write_that_is_refused_changes_nothing(
        self, layout: Layout, whole: bytes, other: bytes
    ) -> None:
        offset = 0
        for segment in layout.segments:
            if isinstance(segment, Run) and not segment.form.is_binary:
                torn = bytearray(other[: offset + segment.size])
                torn[-1] = ord("x")
                with pytest.raises(BadValue):
                    write_at(layout, 0, bytes(torn))
            offset += segment.size
        assert bytes(read_at(layout, 0, layout.size, Tally())) == whole
