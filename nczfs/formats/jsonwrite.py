"""A writer of JSON: strict, on one line, in netcdf-c's style.

The text is raw UTF-8, because netcdf-c does not decode ``\\uXXXX``. Every float has a point or an
exponent, so that a reader without types keeps the kind of number. NaN and infinities are words in
quotes, unless `bare` has made them words without quotes.

A number that was read and is written again keeps its spelling, even a bare NaN: in quotes it would
be a text for a reader without types, so a change elsewhere would change it.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring  # without the checks of the encoder
from typing import Any

import numpy as np

from nczfs.formats.jsontext import Real, Word
from nczfs.model.hierarchy import Json

_INTEGER = re.compile(r"-?(?:0|[1-9]\d*+)\Z")

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def strict(value: Json) -> str:
    """Return the JSON of a value with netcdf-c's blanks: ``{"b": [1,2], "c": 1.50}``."""
    if type(value) is str:  # as most are; no spelling to keep
        return encode_basestring(value)
    match value:
        case Real():
            return value.text
        case Word():
            # An integer that is too long to be converted is read as a word.
            return str(value) if _INTEGER.match(value) else _quoted(str(value))
        case float():
            return repr(value) if math.isfinite(value) else _quoted(_word(value))
        case list():
            return "[" + ",".join([strict(item) for item in value]) + "]"
        case dict():
            members = [f"{encode_basestring(name)}: {strict(item)}" for name, item in value.items()]
            return "{" + ", ".join(members) + "}"
        case int() if not isinstance(value, bool):
            return int.__repr__(value)  # without the encoder, which takes ten times as long
        case _:
            return _quoted(value)


def bare(value: Json) -> Json:
    """Return the value with bare words for NaN and infinities: not JSON, but numbers."""
    match value:
        case float() if not math.isfinite(value):
            return Real(_word(value))
        case list():
            return [bare(item) for item in value]
        case dict():
            return {name: bare(item) for name, item in value.items()}
        case _:
            return value


def shortest(number: float, dtype: np.dtype[Any]) -> Json:
    """Return a float with the fewest digits that read back to it in its type."""
    if not math.isfinite(number):
        return _word(number)
    short = float(str(dtype.type(number)))
    # Readers round that double again, so in principle it may end at a neighbour.
    return Real(repr(short if dtype.type(short) == number else float(number)))


def _word(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"
