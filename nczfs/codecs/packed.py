"""The nesting and number of members of msgpack data, checked before anything is built from them.

The msgpack library allocates as many members as a list claims, and those of the lists within.
"""

from __future__ import annotations

from typing import Final

_COUNTED: Final = b"\xdc\xdd\xde\xdf"  # heads of lists and maps that can claim more than 15 members

# For the first byte of a value: the bytes of its content, and the bytes of a number after it that
# gives the length of more content.
_CONTENT: Final = {
    0xC4: (0, 1), 0xC5: (0, 2), 0xC6: (0, 4),  # bin
    0xC7: (1, 1), 0xC8: (1, 2), 0xC9: (1, 4),  # ext
    0xCA: (4, 0), 0xCB: (8, 0),  # float
    0xCC: (1, 0), 0xCD: (2, 0), 0xCE: (4, 0), 0xCF: (8, 0),  # unsigned
    0xD0: (1, 0), 0xD1: (2, 0), 0xD2: (4, 0), 0xD3: (8, 0),  # signed
    0xD4: (2, 0), 0xD5: (3, 0), 0xD6: (5, 0), 0xD7: (9, 0), 0xD8: (17, 0),  # fixext
    0xD9: (0, 1), 0xDA: (0, 2), 0xDB: (0, 4),  # str
}  # fmt: skip
_MEMBERS: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def fault(data: bytes, *, depth_max: int, members_max: int) -> str | None:
    """Return in words what msgpack data have too much of; None: nothing.

    Parameters
    ----------
    depth_max : levels of nested lists and maps.
    members_max : of all lists and maps together; the keys of a map count, too.
    """
    heads = sum(data.count(head) for head in _COUNTED)
    if heads <= 1 and len(data) <= members_max:
        return None
    position = members = 0
    left = [1]  # values still to come in each list or map that is open
    while left and position < len(data):
        first = data[position]
        position += 1
        left[-1] -= 1
        count = 0
        if first in _MEMBERS:
            size, each = _MEMBERS[first]
            count = each * int.from_bytes(data[position : position + size], "big")
            position += size
        elif 0x80 <= first < 0xA0:
            count = (first & 15) * (2 if first < 0x90 else 1)
        elif 0xA0 <= first < 0xC0:
            position += first & 31
        elif first in _CONTENT:
            content, size = _CONTENT[first]
            position += content + size + int.from_bytes(data[position : position + size], "big")
        members += count
        if members > members_max:
            return f"have more than {members_max} members"
        if count:
            left.append(count)
            if len(left) - 1 > depth_max:
                return f"are nested more than {depth_max} levels deep"
        while left and not left[-1]:
            left.pop()
    return None
