"""What is read of the status of a mount, which another version of nczfs may have written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nczfs.cli.mountstatus import FIELDS, OtherVersion, parsed
from tests.unit.cli.test_status import STATUS


def test_what_this_version_reports_is_read_with_fields_of_a_newer_one() -> None:
    status = STATUS | {"of_tomorrow": 1}
    assert parsed("/mnt", json.dumps(status)) == status


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_another_version_does_not_report_is_named(name: str) -> None:
    status = {key: value for key, value in STATUS.items() if key != name}
    with pytest.raises(OtherVersion, match=f"^/mnt: another version .* {name!r} .*`cat /mnt/"):
        parsed("/mnt", json.dumps(status))


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_another_type_is_named(name: str) -> None:
    value: Any = {} if name != "features" else []
    with pytest.raises(OtherVersion, match=f" {name!r} "):
        parsed("/mnt", json.dumps(STATUS | {name: value}))


@pytest.mark.parametrize("document", ["", "[]", "{", "null", '"x"'])
def test_what_is_no_status_at_all_is_an_error(document: str) -> None:
    with pytest.raises(OtherVersion, match=r"^/mnt: its .*status\.json is not a JSON object$"):
        parsed("/mnt", document)
