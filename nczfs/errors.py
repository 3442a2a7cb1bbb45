"""The exceptions of nczfs, and what each of them means.

::

    NczfsError
    ├── StoreError                 a store (zmap) could not complete an operation
    │   ├── NoSuchObject           the store said that the key does not exist
    │   ├── NoContent              the key is only a prefix, or the store is empty
    │   ├── ObjectExists           the key exists but must not
    │   ├── Conflict               the object is not the version that the caller gave
    │   ├── AccessDenied           the store denies access
    │   │   └── ReferenceRefused       a reference leads to a place that is not allowed
    │   ├── StoreBusy              another process is writing, and the store takes one writer
    │   │   └── LeaseNotHeld       another process is writing the dataset (transient)
    │   ├── ReadOnlyStore          the configuration, or the kind of store, forbids writing
    │   ├── BadKey                 the text is not a key (``KeyTooLong``: over 1024 bytes;
    │   │                          ``KeyNotText``: not UTF-8, as the store requires)
    │   ├── NoSpace                the store is full, or a quota is exceeded
    │   ├── ObjectTooLarge         larger than the store or the configuration permits
    │   │   └── TooManyNodes           a group has more members than may be read together
    │   ├── CorruptStore           the container is broken (a torn zip archive)
    │   ├── NamesUnknown           the store cannot list what is there
    │   ├── Unavailable            the store cannot be reached, or fails (transient)
    │   │   └── ServerFailed           the server reports a failure each time
    │   ├── OutOfDescriptors       no file descriptor is free (transient)
    │   └── DeadlinePassed         the store did not answer in time (transient)
    ├── MetadataError              a metadata document cannot be used
    │   ├── BadMetadata            broken JSON, a wrong type, an impossible size
    │   └── Unsupported            well-formed, but not supported
    ├── CodecError                 the bytes of a chunk cannot be decoded
    │   ├── UnknownCodec           the codec is not installed or not allowed
    │   └── CorruptChunk           truncated, a wrong checksum, or a wrong size
    ├── DatasetError               an open dataset cannot do what was requested
    │   ├── NotADataset            there is no group or array at that place
    │   ├── ForeignObjects         objects that belong to no dataset are in the way
    │   ├── NoSuchNode             no group, variable, dimension or attribute has that name
    │   ├── BadSelection           an index that is out of range or not supported
    │   ├── BadValue               a value that does not fit the type of a variable or attribute
    │   ├── NameTaken              a group, variable or dimension of that name exists
    │   ├── NotWritable            opened for reading, or the format cannot be changed this way
    │   ├── MissingChunk           never written, and --missing-chunks error is set
    │   └── StructureChanged       shape, dtype or codecs changed under an open handle
    ├── PathError                  the mount cannot do what was requested of a path
    │   ├── NoSuchPath  NotADirectory  IsADirectory  DirectoryNotEmpty  PathExists  NameTooLong
    │   ├── NotPermitted           this file does not support the operation
    │   ├── CrossesTrees           a rename from one tree of the mount to the other
    │   ├── ReadOnlyMount          the mount is read-only
    │   ├── StaleHandle            the object behind the handle was replaced or deleted
    │   ├── BadHandle  BadArgument
    ├── ClusterError               work on a cluster could not be completed
    │   ├── ClusterLost            the scheduler has ended, or cannot be reached
    │   └── PiecesFailed           some pieces failed, also when they were tried again
    ├── SpoolError                 a file of unsaved data is damaged, or does not fit the store
    └── UsageError                 an argument or option is wrong
        └── BadUrl                 the URL names no store
"""

from __future__ import annotations

from typing import ClassVar


class NczfsError(Exception):
    """Base class of the errors that nczfs raises.

    The message names the key, variable or path, and the remedy if there is one.
    """

    transient: ClassVar[bool] = False
    """Whether the same call may succeed later although nothing was changed."""


class StoreError(NczfsError):
    """A store could not complete an operation."""


class NoSuchObject(StoreError):
    """The store said that the key does not exist. Never raised if the store did not answer."""


class NamesUnknown(StoreError):
    """The store cannot list what is there. Objects of known names may still be read."""


class NoContent(StoreError):
    """The key is only a prefix of other keys, or the store is empty."""


class ObjectExists(StoreError):
    """The key exists, and the caller required that it does not."""


class Conflict(StoreError):
    """The object is not the version that the caller gave. Nothing was changed."""


class AccessDenied(StoreError):
    """The store denies access: no permission, or no valid credentials."""


class ReferenceRefused(AccessDenied):
    """A document refers to a place that is not allowed."""


class StoreBusy(StoreError):
    """The store takes one writer, and another process, named in the message, is writing."""


class LeaseNotHeld(StoreBusy):
    """Another process, named in the message, holds the lease of the dataset."""

    transient = True


class ReadOnlyStore(StoreError):
    """The configuration, or the kind of store, forbids writing."""


class BadKey(StoreError):
    """The text is not a key."""


class KeyTooLong(BadKey):
    """The key has more than 1024 bytes, the limit of S3, or a name that the store cannot have."""


class KeyNotText(BadKey):
    """The key is not UTF-8, but the keys of the store are text."""


class NoSpace(StoreError):
    """The store is full, or a quota is exceeded."""


class ObjectTooLarge(StoreError):
    """The object is larger than the store or the configuration permits."""


class TooManyNodes(ObjectTooLarge):
    """A group has more groups and variables below it than may be read together."""


class CorruptStore(StoreError):
    """The container of the objects is broken."""


class Unavailable(StoreError):
    """The store cannot be reached, reports a failure, or throttles requests."""

    transient = True


class ServerFailed(Unavailable):
    """The server answered each time that it failed (500), which may be for this key alone."""


class OutOfDescriptors(StoreError):
    """This process, or the machine, has no file descriptor left."""

    transient = True


class DeadlinePassed(StoreError):
    """The store did not answer in time."""

    transient = True


class MetadataError(NczfsError):
    """A metadata document does not describe a node that can be shown.

    Attributes
    ----------
    pointer : the JSON pointer of what is wrong, where one is known; "" is the whole document.
    """

    def __init__(self, message: str = "", pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class BadMetadata(MetadataError):
    """A document is broken: not JSON, a wrong type, an impossible size."""


class Unsupported(MetadataError):
    """A document is well-formed, but needs something that nczfs does not support."""


class CodecError(NczfsError):
    """The bytes of a chunk cannot be decoded, or its values cannot be encoded."""


class UnknownCodec(CodecError):
    """A codec of the chain is not installed or not allowed."""


class CorruptChunk(CodecError):
    """The chunk is truncated, fails its checksum, or decodes to a wrong size."""


class DatasetError(NczfsError):
    """An open dataset cannot do what was requested."""


class NotADataset(DatasetError):
    """There is no group or array at that place."""


class ForeignObjects(DatasetError):
    """A dataset is not removed or replaced: objects below it belong to no dataset."""


class NoSuchNode(DatasetError):
    """No group, variable, dimension or attribute has that name."""


class BadSelection(DatasetError):
    """An index is out of range or not supported."""


class BadValue(DatasetError):
    """A value is out of the range of its type, too long, or of another kind."""


class NameTaken(DatasetError):
    """A group, variable or dimension of that name exists already."""


class NotWritable(DatasetError):
    """The dataset was opened for reading, or cannot be changed in this way."""


class MissingChunk(DatasetError):
    """A chunk was never written, and the user requested an error instead of fill values."""


class StructureChanged(DatasetError):
    """Shape, dtype or codecs changed under an open handle."""


class PathError(NczfsError):
    """The mount cannot do what was requested of a path."""


class NoSuchPath(PathError):
    """Nothing has that name."""


class NotADirectory(PathError):
    """A component of the path is not a directory."""


class IsADirectory(PathError):
    """A file was expected."""


class DirectoryNotEmpty(PathError):
    """The directory still has entries."""


class PathExists(PathError):
    """The name is taken."""


class NameTooLong(PathError):
    """The name has more than 255 bytes."""


class NotPermitted(PathError):
    """This file does not support the operation."""


class CrossesTrees(PathError):
    """A rename from one tree of the mount to the other, where only a copy is possible."""


class ReadOnlyMount(PathError):
    """The mount is read-only."""


class StaleHandle(PathError):
    """The object behind the handle was replaced or deleted."""


class BadHandle(PathError):
    """No open file has that handle."""


class BadArgument(PathError):
    """An argument is outside its range."""


class ClusterError(NczfsError):
    """Work on a cluster could not be completed; the same command continues it."""


class ClusterLost(ClusterError):
    """The scheduler has ended, or cannot be reached any more."""


class PiecesFailed(ClusterError):
    """Some pieces of the work failed, also when they were tried again."""


class SpoolError(NczfsError):
    """A file of unsaved data is damaged, or does not fit the store."""


class UsageError(NczfsError):
    """An argument or option is wrong."""


class BadUrl(UsageError):
    """The URL names no store that nczfs knows."""
