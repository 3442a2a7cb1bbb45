"""The JSON text of a hierarchy: strict JSON within limits, in and out."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from json.encoder import encode_basestring  # without the checks of the encoder
from typing import NoReturn

import numpy as np

from nczfs.errors import BadMetadata
from nczfs.formats.jsontext import DEPTH_MAX, DIGITS_MAX
from nczfs.formats.zom.nodes import Node
from nczfs.formats.zom.reading import Notice, read, unheard
from nczfs.formats.zom.writing import json_of
from nczfs.messages import shown
from nczfs.model import jsonshape
from nczfs.model.hierarchy import Json


@dataclass(frozen=True, slots=True)
class TextLimits:
    """What a text may have.

    With these, whatever is refused is refused in about a second of one processor and 256MiB: a
    member can take 250 bytes, and a tiny group eight microseconds.

    Attributes
    ----------
    bytes_max : also of a half of the text's characters in memory, where each takes as many bytes as
        the widest one does.
    depth_max : what reads and walks a hierarchy recurses.
    """

    bytes_max: int = 32 << 20
    members_max: int = 1 << 19  # 10,000 arrays of several dimensions have 400,000
    depth_max: int = DEPTH_MAX
    nodes_max: int = 1 << 16


LIMITS = TextLimits()


def loads(
    data: bytes | str,
    where: str = "",
    *,
    strict: bool = False,
    notice: Notice = unheard,
    limits: TextLimits = LIMITS,
) -> Node:
    """Read a hierarchy from its JSON.

    Parameters
    ----------
    where : what messages begin with, such as the name of a file.
    strict : refuse what the drafts of the model got wrong, instead of correcting it.
    notice : takes a line about each correction.

    Raises
    ------
    BadMetadata : it is not JSON, it exceeds a limit, or it is no hierarchy. The message begins with
        the JSON pointer of the place, which is the error's `pointer`, too.
    """
    try:
        value = parse(data, limits)
        return read(value, strict=strict, notice=notice, nodes_max=limits.nodes_max)
    except BadMetadata as error:
        if not where:
            raise
        raise BadMetadata(f"{where}: {error}", error.pointer) from error


def dumps(node: Node) -> str:
    """Return the JSON of a hierarchy, with the members of groups by name.

    Each member of a node and each attribute has a line, so that programs that compare lines tell
    what differs.
    """
    lines: list[str] = []
    _node_lines(json_of(node, is_explicit=True), "", "", lines)
    return _printable("\n".join(lines))


def spelled(value: Json, *, indent: int | None = 2) -> str:
    """Return the text of JSON, in which nothing controls a terminal."""
    return _printable(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent))


def _node_lines(node: dict[str, Json], before: str, margin: str, lines: list[str]) -> None:
    """Add the lines of a node; `before` precedes its first brace."""
    lines.append(f"{before}{{")
    inner = f"{margin}  "
    for name, value in node.items():
        start = f"{inner}{encode_basestring(name)}: "
        if name == "members" and isinstance(value, dict) and value:
            lines.append(f"{start}{{")
            for member, each in value.items():
                assert isinstance(each, dict)
                start = f"{inner}  {encode_basestring(member)}: "
                _node_lines(each, start, f"{inner}  ", lines)
                lines[-1] += ","
            lines[-1] = lines[-1][:-1]
            lines.append(f"{inner}}},")
        elif name == "attributes" and isinstance(value, dict) and value:
            lines.append(f"{start}{{")
            for key, each in value.items():
                lines.append(f"{inner}  {encode_basestring(key)}: {_line(each)},")
            lines[-1] = lines[-1][:-1]
            lines.append(f"{inner}}},")
        else:
            lines.append(f"{start}{value if type(value) is int else _line(value)},")
    lines[-1] = lines[-1][:-1]
    lines.append(f"{margin}}}")


_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _printable(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def parse(data: bytes | str, limits: TextLimits = LIMITS) -> Json:
    """Parse strict JSON, in which no object has a name twice. Raises BadMetadata."""
    if isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError as error:
            raise BadMetadata(f"character {error.start} is no character of Unicode") from error
    if len(data) > limits.bytes_max:
        raise BadMetadata(f"{len(data)} bytes are not read (max {limits.bytes_max})")
    width = _width(data)
    if len(data) * width > 2 * limits.bytes_max:
        beyond = f"{len(data)} bytes with characters of {width} bytes each in memory"
        raise BadMetadata(f"{beyond} are not read (max {2 * limits.bytes_max // width})")
    wrong = jsonshape.fault(data, depth_max=limits.depth_max, members_max=limits.members_max)
    if wrong:
        raise BadMetadata(f"the text {wrong}")
    try:
        text = data.decode("utf-8-sig")
        _check_surrogates(text)
        value: Json = json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_constant,
        )
    except UnicodeDecodeError as error:
        raise BadMetadata(f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadMetadata(f"not JSON at {place}: {error.msg}") from error
    return value


# C1, and what turns the direction of text; JSON escapes C0 itself.
_CONTROL = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _width(data: bytes) -> int:
    """Return how many bytes each character of a text in UTF-8 takes when it is decoded."""
    highest = int(np.frombuffer(data, np.uint8).max(initial=0))
    return 1 if highest < _TWO_BYTES else 2 if highest < _FOUR_BYTES else 4


_TWO_BYTES, _FOUR_BYTES = 0xC4, 0xF0  # first bytes of U+0100 and U+10000


def _check_surrogates(text: str) -> None:
    if "\\ud" not in text and "\\uD" not in text:
        return
    for escape in _ESCAPES.finditer(text):
        if escape["half"]:
            raise BadMetadata(f"character {escape.start()}: {escape[0]} is half of a character")


def _members(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        double = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadMetadata(f"an object has the member {shown(double)} more than once")
    return found


def _integer(text: str) -> Json:
    if len(text) > DIGITS_MAX:
        raise BadMetadata(f"a number of {len(text)} digits is not read (max {DIGITS_MAX})")
    return int(text)


def _real(text: str) -> Json:
    number = float(text)
    if not math.isfinite(number):
        raise BadMetadata(f"the number {shown(text)} is beyond all floats")
    return number


def _constant(text: str) -> NoReturn:
    raise BadMetadata(f"{text} is not JSON; as a fill value it is a text")
