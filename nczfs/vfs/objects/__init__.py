"""The tree ``objects/``: every key of the store a file, byte for byte.

::

    tree.py        what all nodes share
    store.py       stores and deletes objects, and tells who shows them
    directory.py   a prefix: its entries, and what can be done to them
    file.py        an object
    linking.py     a link is a second object
    live.py        what all open handles of one key share: the staged bytes, and their way out
    attempts.py    what the store was asked to make, without an answer
    handles.py     an open file
    delivered.py   what was read of it, which tells whether a newer version only adds to it
    kept.py        what a flat store cannot keep: modes, owners, times, empty directories
    times.py       what is known of the times that it does keep
    renaming.py    a rename is copies, then deletions
"""

from nczfs.vfs.objects.directory import ObjectsDirectory
from nczfs.vfs.objects.names import NAME_BYTES_MAX, is_file_name
from nczfs.vfs.objects.store import ObjectStore, StoredOptions
from nczfs.vfs.objects.tree import ObjectsOptions, ObjectsTree

__all__ = [
    "NAME_BYTES_MAX",
    "ObjectStore",
    "ObjectsDirectory",
    "ObjectsOptions",
    "ObjectsTree",
    "StoredOptions",
    "is_file_name",
]
