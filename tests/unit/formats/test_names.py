from __future__ import annotations

import pytest

from nczfs.errors import UsageError
from nczfs.formats.names import NAME_BYTES_MAX
from nczfs.formats.naming import checked_name


@pytest.mark.parametrize(
    "name", ["t", "2m temperature", "_FillValue", "é", "漢字", "a.b", "a-b+c", "x" * NAME_BYTES_MAX]
)
def test_names_of_netcdf_are_taken(name: str) -> None:
    assert checked_name(name) == name


def test_a_name_is_brought_into_normal_form_c() -> None:
    assert checked_name("Stro\u0308m") == "Str\u00f6m"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        ("a/b", "it contains a slash"),
        ("a\tb", "it contains a control character"),
        ("a\x7f", "it contains a control character"),
        ("a ", "it ends with a blank"),
        (" a", "it does not begin with a letter, a digit or an underscore"),
        ("..", "it does not begin with a letter, a digit or an underscore"),
        ("-a", "it does not begin with a letter, a digit or an underscore"),
        (".zarray", "such names are reserved by the format"),
        (".nczgroup", "such names are reserved by the format"),
        (".nczfs", "such names are reserved by the format"),
        ("zarr.json", "such names are reserved by the format"),
        ("a\udcff", "it is not UTF-8"),
        ("é" * (NAME_BYTES_MAX // 2 + 1), f"it has more than {NAME_BYTES_MAX} bytes"),
    ],
)
def test_what_cannot_be_a_name_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be a name: {reason}$"):
        checked_name(name)
