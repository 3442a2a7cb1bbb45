"""The JSON Schema of hierarchies, judged by a validator of others."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from nczfs.zom import ArrayV2, GroupV2, GroupV3, Node, json_of, schema, to_v3
from tests.support.zom import nodes

VALIDATOR = jsonschema.Draft202012Validator(schema())


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
def test_a_hierarchy_is_valid_in_the_schema_of_its_version(node: Node) -> None:
    value = json_of(node)
    VALIDATOR.validate(value)
    other = jsonschema.Draft202012Validator(schema(5 - node.zarr_format))
    assert not other.is_valid(value)


def test_the_schemas_are_schemas() -> None:
    for version in (None, 2, 3):
        jsonschema.Draft202012Validator.check_schema(schema(version))


ARRAY = json_of(ArrayV2((4,), (2,), "<i4"))
ARRAY_3 = json_of(to_v3(ArrayV2((4,), (2,), "<i4")))


@pytest.mark.parametrize(
    "wrong",
    [
        ARRAY | {"shape": [-1]},
        ARRAY | {"order": "Z"},
        ARRAY | {"surprise": 1},
        ARRAY | {"filters": {}},
        ARRAY_3 | {"codecs": []},
        ARRAY_3 | {"surprise": 1},
        ARRAY_3 | {"storage_transformers": None},
        ARRAY_3 | {"fill_value": None},
        json_of(GroupV2({})) | {"members": {"a/b": ARRAY}},
        json_of(GroupV3({})) | {"members": {"__x": ARRAY_3}},
        json_of(GroupV3({})) | {"members": {"x": ARRAY}},
    ],
)
def test_what_is_wrong_is_invalid(wrong: Any) -> None:
    assert not VALIDATOR.is_valid(wrong)
