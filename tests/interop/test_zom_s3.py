"""Hierarchies of the Zarr Object Model in a bucket."""

from __future__ import annotations

from uuid import uuid4

import pytest

from nczfs.errors import NameTaken
from nczfs.zom import ArrayV2, GroupV2, create, from_store, to_v3
from tests.support.servers import S3Server

X = ArrayV2((4,), (2,), "<i4", 0, attributes={"units": "m"})
TREE = GroupV2({"g": GroupV2({f"x{i}": X for i in range(2)})}, {"t": 1})


@pytest.mark.long
def test_what_was_made_in_a_bucket_is_found_there(swift: S3Server) -> None:
    tree, other = to_v3(TREE), to_v3(GroupV2({}))
    bucket = f"zom-{uuid4().hex[:12]}"
    swift.client().create_bucket(Bucket=bucket)
    url = swift.url(bucket, "a.zarr")
    create(url, tree)
    assert from_store(url).node == tree
    assert create(url, tree) == 0
    with pytest.raises(NameTaken):
        create(url, other)
    create(url, other, overwrite=True)
    assert from_store(url).node == other
