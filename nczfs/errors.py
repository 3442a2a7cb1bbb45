"""The one family of exceptions, and what each of them says happened.

::

    NczfsError
    ├── StoreError                 a store (zmap) could not do what was asked of a key
    │   ├── NoSuchObject           the store said that the key does not exist
    │   ├── NoContent              the key is only a prefix, or the store holds nothing
    │   ├── ObjectExists           the key exists and must not
    │   ├── Conflict               the object is not the version that the caller named
    │   ├── AccessDenied           the store refuses us
    │   │   └── ReferenceRefused       we refuse to follow a reference that leads elsewhere
    │   ├── StoreBusy              another process is writing, where only one can
    │   │   └── LeaseNotHeld       another process is writing the dataset just now (transient)
    │   ├── ReadOnlyStore          our own configuration, or the kind of store, refuses writes
    │   ├── BadKey                 the text is not a key (``KeyTooLong``: over 1024 bytes;
    │   │                          ``KeyNotText``: no UTF-8, which all keys of the store are)
    │   ├── NoSpace                the store is full, or a quota is reached
    │   ├── ObjectTooLarge         over a limit of the store or a configured size
    │   ├── CorruptStore           the container itself is broken (a torn zip archive)
    │   ├── Unavailable            could not ask: no connection, 5xx, throttled (transient)
    │   │   └── ServerFailed           the server says that it is broken, each time it is asked
    │   ├── OutOfDescriptors       could not ask: no file can be opened any more (transient)
    │   └── DeadlinePassed         could not ask in time (transient)
    ├── MetadataError              a metadata document does not say what it must
    │   ├── BadMetadata            broken JSON, a wrong type, an absurd size
    │   └── Unsupported            well-formed, but not something this version reads
    ├── CodecError                 chunk bytes cannot become values
    │   ├── UnknownCodec           no such codec is installed
    │   └── CorruptChunk           truncated, checksum wrong, more bytes than the chunk has
    ├── DatasetError               a question an open dataset cannot answer
    │   ├── NotADataset            nothing at that place is a group or an array
    │   ├── ForeignObjects         objects that are no part of the dataset are in the way
    │   ├── NoSuchNode             no group, variable, dimension or attribute of that name
    │   ├── BadSelection           an index that the variable does not have or we do not support
    │   ├── BadValue               a value that the type of a variable or attribute cannot hold
    │   ├── NameTaken              a group, variable or dimension of that name is there
    │   ├── NotWritable            it was opened for reading, or its format cannot change so
    │   ├── MissingChunk           never written, and the user asked for an error instead of fill
    │   └── StructureChanged       shape, dtype or codecs changed under an open handle
    ├── PathError                  the mounted tree cannot do what was asked of a path
    │   ├── NoSuchPath  NotADirectory  IsADirectory  DirectoryNotEmpty  PathExists  NameTooLong
    │   ├── NotPermitted           the operation has no meaning for this file
    │   ├── CrossesTrees           a rename from one tree of the mount into the other
    │   ├── ReadOnlyMount          the mount is read-only
    │   ├── StaleHandle            what the handle was opened on is gone
    │   ├── BadHandle  BadArgument
    ├── SpoolError                 a file of unsaved data is torn, or does not fit the store
    └── UsageError                 the user asked for something that does not exist or fit
        └── BadUrl                 a URL that names no store
"""

from __future__ import annotations

from typing import ClassVar


class NczfsError(Exception):
    """Base of all errors that nczfs raises on purpose.

    The message names the key, variable or path, and where possible the remedy.
    """

    transient: ClassVar[bool] = False
    """Whether the same call may succeed later without anybody changing anything."""


class StoreError(NczfsError):
    """A store could not do what was asked of a key."""


class NoSuchObject(StoreError):
    """The store said that the key does not exist; never raised when it could not be asked."""


class NoContent(StoreError):
    """The key is only a prefix of others, or the store holds nothing at all."""


class ObjectExists(StoreError):
    """The key exists, and the caller asked that it must not."""


class Conflict(StoreError):
    """The object is not (any more) the version that the caller named; nothing was changed."""


class AccessDenied(StoreError):
    """The store refuses: no permission, or no valid credentials."""


class ReferenceRefused(AccessDenied):
    """A document refers to what nobody allowed it to."""


class StoreBusy(StoreError):
    """Another process, which the message names, is writing to a store that takes one writer."""


class LeaseNotHeld(StoreBusy):
    """Another process, which the message names, holds the lease of the dataset."""

    transient = True


class ReadOnlyStore(StoreError):
    """Our configuration or the kind of store rules out writing."""


class BadKey(StoreError):
    """The text is not a key."""


class KeyTooLong(BadKey):
    """A key has at most 1024 bytes (the limit of S3)."""


class KeyNotText(BadKey):
    """The key is bytes that are not UTF-8, and the keys of the store are text."""


class NoSpace(StoreError):
    """The store is full or a quota is reached."""


class ObjectTooLarge(StoreError):
    """The object would pass a limit of the store or a configured size."""


class CorruptStore(StoreError):
    """The container of the objects is itself broken."""


class Unavailable(StoreError):
    """The store could not be asked: no connection, server error, throttled."""

    transient = True


class ServerFailed(Unavailable):
    """The server answered each time that it failed (500), which may be for this key alone."""


class OutOfDescriptors(StoreError):
    """The store could not be asked: this process, or the machine, has no descriptor left."""

    transient = True


class DeadlinePassed(StoreError):
    """The store did not answer in time."""

    transient = True


class MetadataError(NczfsError):
    """A metadata document does not describe a node that we can show."""


class BadMetadata(MetadataError):
    """A document is broken: not JSON, a wrong type, an impossible size."""


class Unsupported(MetadataError):
    """A document is well-formed, and asks for what this version does not read."""


class CodecError(NczfsError):
    """Chunk bytes cannot become values, or values chunk bytes."""


class UnknownCodec(CodecError):
    """A codec of the chain is not installed, or refused on purpose."""


class CorruptChunk(CodecError):
    """The chunk is truncated, fails its checksum or decodes to a wrong size."""


class DatasetError(NczfsError):
    """A question that an open dataset cannot answer."""


class NotADataset(DatasetError):
    """Nothing at that place is a group or an array."""


class ForeignObjects(DatasetError):
    """A dataset cannot be removed or replaced: objects that are no part of it lie below it."""


class NoSuchNode(DatasetError):
    """No group, variable, dimension or attribute has that name."""


class BadSelection(DatasetError):
    """An index is out of range, or of a kind that is not supported."""


class BadValue(DatasetError):
    """A value is outside of the range of its type, too long, or of another kind."""


class NameTaken(DatasetError):
    """A group, variable or dimension of that name is there already."""


class NotWritable(DatasetError):
    """The dataset was opened for reading, or cannot be changed in that way."""


class MissingChunk(DatasetError):
    """A chunk was never written and the user asked for an error instead of fill values."""


class StructureChanged(DatasetError):
    """Shape, dtype or codecs changed under an open handle."""


class PathError(NczfsError):
    """The mounted tree cannot do what was asked of a path."""


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
    """A name has at most 255 bytes."""


class NotPermitted(PathError):
    """The operation has no meaning for this file."""


class CrossesTrees(PathError):
    """A rename from one tree of the mount into the other: copy instead."""


class ReadOnlyMount(PathError):
    """The mount is read-only."""


class StaleHandle(PathError):
    """The object that the handle was opened on was replaced or deleted."""


class BadHandle(PathError):
    """No open file has that handle."""


class BadArgument(PathError):
    """An argument is outside its range."""


class SpoolError(NczfsError):
    """A file of unsaved data is torn, or does not fit what the store has."""


class UsageError(NczfsError):
    """The user asked for something that does not exist or does not fit."""


class BadUrl(UsageError):
    """The URL names no store that nczfs knows."""
