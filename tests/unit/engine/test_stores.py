"""What opening a store makes of documents of datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczfs.engine.stores import open_store
from nczfs.errors import BadUrl


@pytest.mark.parametrize("name", [".zattrs", ".zarray", ".zmetadata"])
def test_a_document_of_a_dataset_is_not_taken_for_references(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"title": "would pass for an object that is stored inline"}')
    with pytest.raises(BadUrl, match=f"document of a Zarr dataset; give its directory, {tmp_path}"):
        open_store(str(tmp_path / name))
