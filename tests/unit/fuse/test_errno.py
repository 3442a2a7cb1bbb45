"""The errno table."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from nczfs import errors
from nczfs.errors import NczfsError
from nczfs.fuse.errno import ERRNO, is_expected, to_errno


def subclasses(cls: type[Exception]) -> Iterator[type[Exception]]:
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
        yield from subclasses(child)


@pytest.mark.parametrize("cls", sorted(set(subclasses(NczfsError)), key=str))
def test_every_error_has_a_deliberate_errno(cls: type[Exception]) -> None:
    assert cls in ERRNO


def test_no_error_says_that_a_call_does_not_exist() -> None:
    # The kernel would switch the call off for the life of the mount.
    assert errno.ENOSYS not in ERRNO.values()


def test_only_a_definite_answer_of_the_store_is_absence() -> None:
    absent = {cls for cls, code in ERRNO.items() if code == errno.ENOENT}
    assert absent == {
        errors.NoSuchObject,
        errors.NoContent,
        errors.NotADataset,
        errors.NoSuchNode,
        errors.NoSuchPath,
    }


def test_an_error_of_a_plugin_takes_the_errno_of_its_base() -> None:
    class Quota(errors.NoSpace):
        pass

    assert to_errno(Quota("full")) == errno.ENOSPC


def test_what_no_store_can_hold_is_told_from_a_full_one() -> None:
    assert to_errno(errors.ObjectTooLarge("6 TiB")) == errno.EFBIG


def test_a_stranger_is_an_input_output_error() -> None:
    assert to_errno(ZeroDivisionError()) == errno.EIO
    assert not is_expected(ZeroDivisionError())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_daemon_without_descriptors_says_so_wherever_it_met_it(number: int) -> None:
    assert to_errno(OSError(number, "no more")) == errno.ENFILE
    assert to_errno(errors.OutOfDescriptors("no more")) == errno.ENFILE
    assert to_errno(OSError(errno.EPIPE, "broken")) == errno.EIO
