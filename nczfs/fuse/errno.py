"""The table of exceptions and their errno."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from nczfs import errors

ERRNO: Mapping[type[Exception], int] = {
    # Stores. "Absent" and "could not ask" differ: only ENOENT may be believed and cached.
    errors.StoreError: errno.EIO,
    errors.NoSuchObject: errno.ENOENT,
    errors.NoContent: errno.ENOENT,
    errors.ObjectExists: errno.EEXIST,
    errors.Conflict: errno.ESTALE,  # what was opened is not there any more
    errors.AccessDenied: errno.EACCES,
    errors.ReferenceRefused: errno.EACCES,
    errors.StoreBusy: errno.EBUSY,
    errors.LeaseNotHeld: errno.EAGAIN,  # unlike a busy archive, it is free again by itself
    errors.ReadOnlyStore: errno.EROFS,
    errors.BadKey: errno.EINVAL,
    errors.KeyTooLong: errno.ENAMETOOLONG,
    errors.KeyNotText: errno.EILSEQ,
    errors.NoSpace: errno.ENOSPC,
    errors.ObjectTooLarge: errno.EFBIG,
    errors.CorruptStore: errno.EIO,
    errors.Unavailable: errno.EIO,
    errors.ServerFailed: errno.EIO,
    errors.OutOfDescriptors: errno.ENFILE,  # EMFILE would be about the program that asks
    errors.DeadlinePassed: errno.ETIMEDOUT,
    # What cannot be decoded never yields values.
    errors.MetadataError: errno.EIO,
    errors.BadMetadata: errno.EIO,
    errors.Unsupported: errno.EIO,  # not EOPNOTSUPP, which programs take for "try another call"
    errors.CodecError: errno.EIO,
    errors.UnknownCodec: errno.EIO,
    errors.CorruptChunk: errno.EIO,
    errors.DatasetError: errno.EIO,
    errors.NotADataset: errno.ENOENT,
    errors.ForeignObjects: errno.ENOTEMPTY,  # of rmdir
    errors.NoSuchNode: errno.ENOENT,
    errors.BadSelection: errno.EINVAL,
    errors.BadValue: errno.EINVAL,
    errors.NameTaken: errno.EEXIST,
    errors.NotWritable: errno.EROFS,
    errors.MissingChunk: errno.EIO,  # the file has a size that covers it, so it is not ENOENT
    errors.StructureChanged: errno.ESTALE,
    # Paths say what POSIX calls them.
    errors.PathError: errno.EIO,
    errors.NoSuchPath: errno.ENOENT,
    errors.NotADirectory: errno.ENOTDIR,
    errors.IsADirectory: errno.EISDIR,
    errors.DirectoryNotEmpty: errno.ENOTEMPTY,
    errors.PathExists: errno.EEXIST,
    errors.NameTooLong: errno.ENAMETOOLONG,
    errors.NotPermitted: errno.EPERM,
    errors.CrossesTrees: errno.EXDEV,
    errors.ReadOnlyMount: errno.EROFS,
    errors.StaleHandle: errno.ESTALE,
    errors.BadHandle: errno.EBADF,
    errors.BadArgument: errno.EINVAL,
    errors.SpoolError: errno.EIO,
    errors.UsageError: errno.EINVAL,
    errors.BadUrl: errno.EINVAL,
}

ORDINARY = frozenset(
    {
        errno.ENOENT,
        errno.EEXIST,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENOTEMPTY,
        errno.EROFS,
        errno.ENAMETOOLONG,
    }
)
"""What programs ask for all day without anything being wrong; not worth a line of the log."""

BY_PATH = frozenset({"open", "create", "mkdir", "unlink", "rmdir", "link"})


def is_ordinary(operation: str, code: int) -> bool:
    """Whether an error is too ordinary for the log.

    The kernel answers ESTALE of what is done by a path by looking that up again.
    """
    return code in ORDINARY or (operation in BY_PATH and code == errno.ESTALE)


def to_errno(error: Exception) -> int:
    """The errno for an exception: that of its nearest class in the table, EIO for strangers.

    Whatever opens a file may find that there is no descriptor left.
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return ERRNO[errors.OutOfDescriptors]
    return next((ERRNO[cls] for cls in type(error).__mro__ if cls in ERRNO), errno.EIO)


def is_expected(error: Exception) -> bool:
    """Whether the table knows the exception; any other is a bug of ours."""
    return any(cls in ERRNO for cls in type(error).__mro__)
