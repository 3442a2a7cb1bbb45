"""The table of exceptions and their errno."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from nczfs import errors

ERRNO: Mapping[type[Exception], int] = {
    # Stores. A missing key differs from an unreachable store: only ENOENT may be cached.
    errors.StoreError: errno.EIO,
    errors.NoSuchObject: errno.ENOENT,
    errors.NoContent: errno.ENOENT,
    errors.NamesUnknown: errno.EIO,
    errors.ObjectExists: errno.EEXIST,
    errors.Conflict: errno.ESTALE,  # the opened object is not there any more
    errors.AccessDenied: errno.EACCES,
    errors.ReferenceRefused: errno.EACCES,
    errors.StoreBusy: errno.EBUSY,
    errors.LeaseNotHeld: errno.EAGAIN,  # unlike a busy archive, it becomes free by itself
    errors.ReadOnlyStore: errno.EROFS,
    errors.BadKey: errno.EINVAL,
    errors.KeyTooLong: errno.ENAMETOOLONG,
    errors.KeyNotText: errno.EILSEQ,
    errors.NoSpace: errno.ENOSPC,
    errors.ObjectTooLarge: errno.EFBIG,
    errors.TooManyNodes: errno.EFBIG,
    errors.CorruptStore: errno.EIO,
    errors.Unavailable: errno.EIO,
    errors.ServerFailed: errno.EIO,
    errors.OutOfDescriptors: errno.ENFILE,  # EMFILE would be about the calling program
    errors.DeadlinePassed: errno.ETIMEDOUT,
    # Undecodable chunks never yield values.
    errors.MetadataError: errno.EIO,
    errors.BadMetadata: errno.EIO,
    errors.Unsupported: errno.EIO,  # not EOPNOTSUPP, which makes programs try another call
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
    errors.MissingChunk: errno.EIO,  # not ENOENT, because the file's size covers it
    errors.StructureChanged: errno.ESTALE,
    # Paths have the errno that POSIX gives them.
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
    errors.ClusterError: errno.EIO,
    errors.ClusterLost: errno.EIO,
    errors.PiecesFailed: errno.EIO,
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
"""Errors that programs cause all day without anything being wrong; not worth a line of the log."""

BY_PATH = frozenset({"open", "create", "mkdir", "unlink", "rmdir", "link"})


def is_ordinary(operation: str, code: int) -> bool:
    """Return whether an error is too ordinary for the log.

    After ESTALE on an operation by path, the kernel looks the path up again.
    """
    return code in ORDINARY or (operation in BY_PATH and code == errno.ESTALE)


def to_errno(error: Exception) -> int:
    """Return the errno of an exception: that of its nearest class in the table, otherwise EIO.

    Anything that opens a file may find that no descriptor is left.
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return ERRNO[errors.OutOfDescriptors]
    return next((ERRNO[cls] for cls in type(error).__mro__ if cls in ERRNO), errno.EIO)


def is_expected(error: Exception) -> bool:
    """Return whether the table has the exception; any other is a bug in nczfs."""
    return any(cls in ERRNO for cls in type(error).__mro__)
