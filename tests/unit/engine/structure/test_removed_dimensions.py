"""Dimensions that no document holds, after their group was removed."""

from __future__ import annotations

import pytest

from nczfs.errors import NoSuchNode
from nczfs.library.api import Group
from nczfs.library.opening import open_zmap
from nczfs.zmap.memory import MemoryZMap


@pytest.mark.parametrize("metadata_format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_the_dimensions_of_a_group_go_with_it(metadata_format: str, *, is_stored: bool) -> None:
    with open_zmap(MemoryZMap(), "w", format=metadata_format) as dataset:
        dataset.create_group("g/h")
        for path in ("g", "g/h"):
            group = dataset[path]
            assert isinstance(group, Group)
            group.create_dimension("t", None)
            group.create_dimension("x", 7)
            group.create_variable("v", ("t", "x"), "i4")
        dataset.create_dimension("other", 4)
        if is_stored:
            dataset.sync()
        dataset.editor.remove("g")
        dataset.create_group("g/h")
        groups = [dataset["g"], dataset["g/h"]]
        for group in groups:
            assert isinstance(group, Group)
            for name in ("t", "x"):
                with pytest.raises(NoSuchNode, match="no dimension"):
                    group.create_variable("w", (name,), "i4")
        for group in groups:
            assert isinstance(group, Group)
            group.create_dimension("t", None)
            group.create_dimension("x", 5)
            assert group.create_variable("w", ("t", "x"), "i4").shape == (0, 5)
            assert group.create_variable("u", ("other",), "i4").shape == (4,)
