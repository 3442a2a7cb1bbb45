"""The pages of the service in a real browser, without a screen.

The picture of the page in docs/serve.md is made by this test: `NCZFS_SCREENSHOT=docs/serve.png`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nczfs.cli.demo import SAMPLE
from nczfs.serve.pictures import LIMITS
from tests.support.served import DEADLINE_S, served

pytestmark = pytest.mark.long


def _browse(url: str, profile: Path, *options: str) -> str:
    command = [
        *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--disable-dev-shm-usage", "--force-device-scale-factor=1", "--window-size=1000,1800"),
        *("--virtual-time-budget=20000", f"--user-data-dir={profile}", "--enable-logging=stderr"),
        *options,
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    refused = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert refused == []
    return done.stdout


def test_a_browser_shows_the_page_of_a_dataset_with_its_pictures(tmp_path: Path) -> None:
    """SEMANTICS V10 and V12."""
    shot = tmp_path / "page.png"
    with served(SAMPLE) as service:
        _browse(f"{service.url}ostia.zarr/", tmp_path / "profile", f"--screenshot={shot}")
        page = _browse(f"{service.url}ostia.zarr/", tmp_path / "profile", "--dump-dom")
    assert re.search(r'<a href="/ostia.zarr/ostia.nc">', page)
    with Image.open(shot) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    # The rest of the page is white, black and grey; maps are colourful.
    coloured = (pixels.max(axis=2) - pixels.min(axis=2)) > 40
    assert coloured.sum() > LIMITS.width * LIMITS.height // 10
    if target := os.environ.get("NCZFS_SCREENSHOT"):
        with Image.open(shot) as image:
            image.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(
                target, optimize=True
            )
