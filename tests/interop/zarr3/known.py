"""What programs refuse, and what they read differently, each in the program's own words.

The tables are exact both ways: what is not in them must not happen, and what is in them must. A
program that has learnt something makes a test fail; its entry is then to be removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.interop.zarr3.arrays import Array
from tests.interop.zarr3.cases import CHAINS, LAYOUTS
from tests.interop.zarr3.elements import ELEMENTS
from tests.interop.zarr3.programs import NCZFS, TENSORSTORE, ZARR


@dataclass(frozen=True, slots=True)
class Rule:
    """Something known of arrays that have all of some properties.

    Attributes
    ----------
    what : the arrays, in the words of the page.
    tags : properties of the arrays; of each tuple they have one.
    words : a regular expression, found in the error, or in what tells of other values.
    writer, reader : None: every one.
    """

    what: str
    tags: tuple[tuple[str, ...], ...]
    words: str
    writer: str | None = None
    reader: str | None = None

    def covers(self, array: Array, writer: str, reader: str | None) -> bool:
        return (
            self.writer in (None, writer)
            and self.reader in (None, reader)
            and all(not tags_of(array, writer).isdisjoint(tags) for tags in self.tags)
        )


def tags_of(array: Array, writer: str) -> frozenset[str]:
    """The properties of an array that a program has stored: nczfs makes documents of its own."""
    if writer != NCZFS:
        return array.tags
    spelled = {"struct": "structured", "r24": "raw_bytes", "repeated names": ""}
    if array.element.name == "bool" and array.chain.name == "packbits" and array.is_plain:
        spelled["packbits"] = "numcodecs.packbits"  # which packs the same, and zarr-python has
    return frozenset(spelled.get(tag, tag) for tag in array.tags)


NAMES = tuple(element.name for element in ELEMENTS)
SMALL = tuple(element.name for element in ELEMENTS if element.kind == "small")
SHARDED = tuple(layout.name for layout in LAYOUTS if layout.levels)
VOID = ("structured", "raw_bytes")

# -- zarr-python -----------------------------------------------------------------------------------

ZARR_TYPES = ("r24", "struct", *SMALL)
ZARR_CODECS = ("packbits", "bitround", "cast_value", "scale_offset", "reshape")
ZARR_REFUSES = (
    Rule(
        "data types `r24`, `struct`, and all of `ml_dtypes`",
        (ZARR_TYPES,),
        "No Zarr data type found",
    ),
    Rule("the registered codecs", (ZARR_CODECS,), "Unknown codec: "),
    Rule(
        "`transpose` before shards that are not square",
        (("transposed shards",),),
        r"needs to be divisible by the shard's inner `chunk_shape`",
    ),
    Rule(
        "`structured` and `raw_bytes` in shards",
        (VOID, SHARDED),
        "unhashable type: 'writeable void",
    ),
)

# -- tensorstore -----------------------------------------------------------------------------------

TENSORSTORE_LACKS = (
    *("string", "bytes", "fixed_length_utf32", "null_terminated_bytes"),
    *("numpy.datetime64", "numpy.timedelta64", "uint2", "uint4", "float6_e2m3fn", "float6_e3m2fn"),
    *("float8_e4m3", "complex_float16", "complex_bfloat16"),
)
TENSORSTORE_CODECS = (
    *ZARR_CODECS,
    *(chain.name for chain in CHAINS if chain.name.startswith("numcodecs.")),
)
TENSORSTORE_REFUSES = (
    Rule(
        "data types of text, bytes and time, `uint2`, `uint4`, `float6_*`, `float8_e4m3`, small "
        "complex numbers",
        (TENSORSTORE_LACKS,),
        "data type is not one of the supported data types",
    ),
    Rule(
        "the registered codecs, and those of numcodecs",
        (TENSORSTORE_CODECS,),
        "is not registered",
    ),
    Rule(
        "compressed shards",
        (("compressed shards",),),
        "Sharding codec .* is not compatible with subsequent bytes -> bytes codecs",
    ),
    Rule("`r24` with a fill value as the specification has it", (("r24",),), "Expected base64"),
    Rule("records, as a whole", (("struct", "structured"),), 'Must specify a "field"'),
    Rule(
        "two dimensions of one name",
        (("repeated names",),),
        'Expected "dimension_names" of|Dimension label.* not unique',
    ),
)

# -- all -------------------------------------------------------------------------------------------

WRITERS_REFUSE = (
    *(replace(rule, writer=ZARR) for rule in ZARR_REFUSES),
    *(replace(rule, writer=TENSORSTORE) for rule in TENSORSTORE_REFUSES),
    Rule(
        "texts and bytes of variable length with `codecs=` that name `transpose` or shards",
        (("string", "bytes"), ("transpose", *(n for n in SHARDED if n != "shards"))),
        "cannot follow 'vlen-utf8'|Zarr v3 has no codec '(transpose|sharding_indexed)'",
        writer=NCZFS,
    ),
)

READERS_REFUSE = (
    *(replace(rule, reader=ZARR) for rule in ZARR_REFUSES),
    *(replace(rule, reader=TENSORSTORE) for rule in TENSORSTORE_REFUSES),
)

DIFFERENCES = (
    Rule(
        "texts and bytes of variable length behind `transpose`: stored in the wrong order",
        (("string", "bytes"), ("transpose",)),
        "values",
        writer=ZARR,
    ),
    Rule(
        "NaN other than the usual one as a fill value of floats: written as `NaN`",
        (("float16", "float32", "float64"), ("fill odd",)),
        "values",
        writer=ZARR,
    ),
    Rule(
        "NaN other than the usual one as a fill value of `float16`: read as the usual one",
        (("float16",), ("fill odd",)),
        "values",
        reader=ZARR,
    ),
    Rule(
        "a scalar of `bytes`: without the NULs at its end",
        (("bytes",), ("no dimension",)),
        "values",
        reader=ZARR,
    ),
    Rule(
        "`float8_e8m0fnu`: another fill value",
        (("float8_e8m0fnu",),),
        "values",
        reader=TENSORSTORE,
    ),
)
RAW_BYTES = Rule(
    "`raw_bytes`: taken for single bytes; with a fill value the process ends",
    (("raw_bytes",),),
    "Check failed: it != last range size mismatch",
)
NOT_TRIED = (replace(RAW_BYTES, writer=TENSORSTORE), replace(RAW_BYTES, reader=TENSORSTORE))
