"""Stores that are zip archives.

::

    store.py       ZipZMap: an archive that is an object of any store, to read
    local.py       LocalZipZMap: an archive that is a file, to read and to write
    creating.py    new archives; compact.py archives without unused space
    growing.py     the crash-safe growing of an archive; tail.py its side file; recovery.py what
                   remains of an interrupted commit; locking.py one writer; disk.py system calls
    view.py        members by key, with changes since the index was read
    members.py     reading members; points.py places to continue from; inflate.py the methods
    index.py       the central directory; ends.py where it is; indexcache.py indexes on disk
    records.py     the bytes of headers and entries
"""

from nczfs.zmap.zip.store import ZipZMap

__all__ = ["ZipZMap"]
