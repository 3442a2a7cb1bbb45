"""What holds for every byte layout, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczfs.engine.options import Tally
from nczfs.views.layout import Layout
from nczfs.views.reader import read_at, read_if_cached


class LayoutSuite(ABC):
    """The promises of a layout; a test class for a view holds its fixture and nothing else."""

    @pytest.fixture
    @abstractmethod
    def layout(self) -> Layout:
        """A layout of at least one byte."""

    @pytest.fixture
    def whole(self, layout: Layout) -> bytes:
        return bytes(read_at(layout, 0, layout.size, Tally()))

    def test_a_read_of_it_all_has_its_size(self, layout: Layout, whole: bytes) -> None:
        assert len(whole) == layout.size > 0

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
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

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
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

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(data=st.data())
    def test_what_is_in_memory_reads_the_same_from_there(
        self, layout: Layout, whole: bytes, data: st.DataObject
    ) -> None:
        start = data.draw(st.integers(0, layout.size))
        stop = data.draw(st.integers(start, layout.size + 10))
        found = read_if_cached(layout, start, stop - start, 0.0)
        assert found is not None
        assert bytes(found) == whole[start:stop]
