"""A store that is a directory tree: the key ``a/b`` is the file ``root/a/b``.

::

    store       a directory as a map
    replacing   one object replaced or deleted, under the lock of its directory
    temporary   a file before it is an object; filling       its contents
    walking     the files in a directory, and below it
    leftovers   what dead writers leave: temporary files, directories without keys
    rooted      descriptors that cannot leave the root; versions       which file is which object
    locking     locks between processes; casing       file systems that fold names
"""

from __future__ import annotations

from nczfs.zmap.directory.leftovers import TEMPORARY
from nczfs.zmap.directory.store import DirectoryZMap

__all__ = ["TEMPORARY", "DirectoryZMap"]
