"""Memory for decoded data: used again only by whoever said that nothing of it is kept."""

from __future__ import annotations

import threading

from nczfs.codecs import buffers


def test_without_a_block_every_array_is_its_own() -> None:
    one, other = buffers.empty(1000), buffers.empty(1000)
    one[:] = 1
    other[:] = 2
    assert (one == 1).all()


def test_within_a_block_arrays_are_apart_and_the_next_block_has_them_again() -> None:
    with buffers.reused():
        first = [buffers.empty(1000), buffers.empty(2000)]
        first[0][:], first[1][:] = 1, 2
        assert (first[0] == 1).all()
    with buffers.reused():
        again = buffers.empty(900)
        assert again.ctypes.data == first[0].ctypes.data
        again[:] = 3
    assert (first[1] == 2).all()
    assert buffers.empty(1000).ctypes.data != first[0].ctypes.data


def test_each_thread_has_its_own() -> None:
    with buffers.reused():
        mine = buffers.empty(1000)
        mine[:] = 1

    def other() -> None:
        with buffers.reused():
            buffers.empty(1000)[:] = 2

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert (mine == 1).all()


def test_large_arrays_are_never_kept() -> None:
    with buffers.reused():
        large = buffers.empty(buffers.REUSED_BYTES_MAX + 1)
    with buffers.reused():
        assert buffers.empty(large.nbytes).ctypes.data != large.ctypes.data
