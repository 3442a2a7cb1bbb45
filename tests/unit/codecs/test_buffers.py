"""Memory for decoded data: used again only by callers that keep nothing of it."""

from __future__ import annotations

import threading

import numpy as np

from nczfs.codecs import buffers
from nczfs.codecs.buffers import Scratch


def test_without_a_block_every_array_is_its_own() -> None:
    one, other = buffers.empty(1000), buffers.empty(1000)
    one[:] = 1
    other[:] = 2
    assert (one == 1).all()


def test_within_a_block_arrays_are_apart_and_the_next_block_has_them_again() -> None:
    scratch = Scratch()
    with scratch.reused():
        first = [buffers.empty(1000), buffers.empty(2000)]
        first[0][:], first[1][:] = 1, 2
        assert (first[0] == 1).all()
    with scratch.reused():
        again = buffers.empty(900)
        assert again.ctypes.data == first[0].ctypes.data
        again[:] = 3
    assert (first[1] == 2).all()
    assert buffers.empty(1000).ctypes.data != first[0].ctypes.data


def test_a_thread_without_a_block_and_one_with_its_own_memory_have_other_arrays() -> None:
    with Scratch().reused():
        mine = buffers.empty(1000)
        mine[:] = 1

        def other() -> None:
            buffers.empty(1000)[:] = 2
            with Scratch().reused():
                buffers.empty(1000)[:] = 3

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (mine == 1).all()


def test_the_memory_goes_from_thread_to_thread() -> None:
    scratch = Scratch()
    found = []

    def decode() -> None:
        with scratch.reused():
            found.append(buffers.empty(1000).ctypes.data)

    decode()
    thread = threading.Thread(target=decode)
    thread.start()
    thread.join()
    assert found[0] == found[1]


def test_large_arrays_are_never_kept() -> None:
    scratch = Scratch()
    with scratch.reused():
        large = buffers.empty(buffers.REUSED_BYTES_MAX + 1)
    with scratch.reused():
        assert buffers.empty(large.nbytes).ctypes.data != large.ctypes.data


def test_a_block_gives_its_target_away_once_and_only_for_data_of_its_size() -> None:
    scratch, target = Scratch(), np.zeros(1000, np.uint8)
    with scratch.reused():
        scratch.restart(target)
        assert buffers.empty(999).ctypes.data != target.ctypes.data
        assert buffers.empty(1000).ctypes.data == target.ctypes.data
        buffers.empty(1000)[:] = 1
        scratch.restart(target)
    with scratch.reused():
        buffers.empty(1000)[:] = 1
    assert not target.any()


def test_within_a_block_the_memory_is_reused_from_each_restart_on() -> None:
    scratch = Scratch()
    with scratch.reused():
        first = buffers.empty(1000).ctypes.data
        scratch.restart()
        assert buffers.empty(1000).ctypes.data == first
