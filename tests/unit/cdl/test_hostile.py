"""Damaged CDL: read, or refused with a line; never anything else, and never with absurd work."""

from __future__ import annotations

import random
import re
from math import prod

import pytest

from nczfs.cdl import tokens as cdl_tokens
from nczfs.cdl.parse import parse_cdl
from nczfs.errors import BadMetadata, Unsupported

TEXT = r"""netcdf damaged\ one {
dimensions:
  t = UNLIMITED ; // (2 currently)
  x = 3 ;
  u = UNLIMITED ; /* none yet */
variables:
  float v(t, x) ;
    v:units = "K\t\"\303\251\"" ;
    v:range = -1.5f, 2.e+10f ;
    v:_FillValue = -999.f ;
    v:_ChunkSizes = 1, 3 ;
    v:_Shuffle = "true" ;
    v:_Filter = "307,9|32015,3" ;
  char c(x, t) ;
  string s(x) ;
  int ragged(t, u) ;
  uint64 big(x) ;
    string big:names = "a", "b" ;
    big:_Codecs = "[{\"id\": \"zlib\", \"level\": 3}]" ;

// global attributes:
    :title = 'T' ;
    :n = 1b, 2US, 0x1F, 010 ;
data:

 v =
  1, 2.5, _,
  NaNf, 1, 2, 3, 4, 5, 6, 7, 8, -Infinityf ;

 c = {"ab"}, {"c"} ;

 s = "one", NIL, _ ;

 ragged = {1, 2, 3}, {4} ;

 big = 18446744073709551615, 1, 2 ;

group: g {
  dimensions:
    x = 2 ;
  variables:
    double w(x, /x) ;
  data:
   w = 1, 2, 3, 4, 5, 6 ;
  } // group g
}
"""
PIECES = re.findall(r"\w+|[^\w\s]|\s+", TEXT)
INSERTED = [
    *"{}();:,=*/\\\"'%@_\0é\n",
    "\udcff",
    "9" * 40,
    "1e999",
    "-",
    "UNLIMITED",
    "99999999999",
    "/*",
    "//",
    "data:",
    "group:",
    "types:",
    "string",
]


def damaged(seed: int) -> str:
    """The text with a few pieces left out, doubled, exchanged or put in."""
    chance = random.Random(seed)
    pieces = list(PIECES)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(pieces))
        match chance.randrange(5):
            case 0:
                del pieces[place]
            case 1:
                pieces.insert(place, chance.choice(pieces))
            case 2:
                pieces[place] = chance.choice(pieces)
            case 3:
                pieces[place] = chance.choice(INSERTED)
            case _:
                pieces.insert(place, chance.choice(INSERTED))
    return "".join(pieces)[: chance.choice([None, None, None, chance.randrange(len(TEXT))])]


def refusal(text: str) -> str | None:
    """Why a text is refused; None: it is read, and so are its values."""
    try:
        cdl = parse_cdl(text, "d.cdl")
    except (BadMetadata, Unsupported) as error:
        return str(error)
    for data in cdl.data.values():
        if prod(data.shape) < 1 << 20:
            assert data.array.shape == data.shape
    return None


@pytest.fixture
def tokens_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list of one number: how many tokens were looked at."""
    count = [0]
    original = cdl_tokens.Scanner.go_on

    def counted(self: cdl_tokens.Scanner, start: int) -> None:
        count[0] += 1
        original(self, start)

    monkeypatch.setattr(cdl_tokens.Scanner, "go_on", counted)
    return count


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_damaged_text_is_read_or_refused(start: int, tokens_read: list[int]) -> None:
    refusals: list[str] = []
    for seed in range(start, start + 100):
        tokens_read[0] = 0
        why = refusal(damaged(seed))
        if why is not None:
            refusals.append(why)
            assert re.match(r"d\.cdl:\d+: [^\n]+\Z", why), seed
        # Each token is looked at once, and once more where an attribute may begin.
        assert tokens_read[0] <= 4 * len(PIECES), seed
    assert 0 < len(refusals) < 100


@pytest.mark.parametrize(
    "text",
    [
        "netcdf a {" + ":a = 1 ;" * 2000 + "}",
        "netcdf a { variables: " + "int v ;" * 2000 + "}",
        "netcdf a { variables: int v ; data: v = " + "{" * 2000 + "1" + "}" * 2000 + "; }",
        "netcdf a { variables: int v ; data: v = " + "'a'," * 2000 + "1 ; }",
        "netcdf a { " + "/**/" * 2000 + "}",
        "netcdf a { " + ":a = 1 ; /*" * 2000 + "}",
        "netcdf a { " + 'variables: char v ; data: v = "' + "\\" * 4000 + '" ; }',
        "netcdf a { " + '"' * 4001 + " }",
        "netcdf a { dimensions: " + "x" * 4000 + " = 1 ; }",
        "netcdf a { dimensions: " + "\\" * 4001 + " = 1 ; }",
        "netcdf a { :a = " + "1" * 4000 + " ; }",
        "netcdf a { :a = " + "1," * 4000 + " ; }",
        "netcdf a { :a = " + "/a" * 4000 + " ; }",
        "netcdf a { variables: int v ; data: v = " + "1 ," * 4000 + " x ; }",
    ],
)
def test_repetition_costs_in_proportion(text: str, tokens_read: list[int]) -> None:
    why = refusal(text)
    assert why is None or len(why) < 200
    assert tokens_read[0] <= 3 * len(text)
