"""The options of the disk cache, as a mount takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczfs.cli import main
from nczfs.cli.sources import read_words


def test_a_cache_directory_that_cannot_be_used_is_refused_before_mounting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mnt").mkdir()
    absent = tmp_path / "absent"
    words = ["mount", str(tmp_path), str(tmp_path / "mnt"), "--cache-dir", str(absent)]
    assert main.main(words) == 2
    error = capsys.readouterr().err
    assert error == (
        f"nczfs: --cache-dir {absent}: not a writable directory; create it or name another one\n"
    )


@pytest.mark.parametrize("word", ["cache_dir", "cache", "use_cache"])
def test_the_words_of_others_for_the_cache_directory_are_understood(word: str) -> None:
    assert read_words([f"{word}=/scratch,max_cache_size=1GiB"]).options == {
        "cache-dir": "/scratch",
        "max-cache-size": "1GiB",
    }
