"""Which programs root may be made to run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nczfs.cli import install_helper, main


def test_only_root_may(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert main.main(["install-helper"]) == 2
    assert "only root may write to /sbin: sudo " in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("change", ["owner", "mode", "none"])
def test_programs_that_others_can_change_are_refused(
    change: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = tmp_path / "programs"
    sbin = tmp_path / "sbin"
    programs.mkdir()
    sbin.mkdir()
    for name in ("nczfs", "mount.nczfs", "umount.nczfs"):
        (programs / name).touch()
    monkeypatch.setattr(install_helper, "DIRECTORY", sbin)
    monkeypatch.setattr(sys, "argv", [str(programs / "nczfs")])
    monkeypatch.setattr(sys, "prefix", str(programs))
    monkeypatch.setattr(install_helper, "__file__", str(programs / "nczfs"))
    if change == "owner":
        os.chown(programs / "mount.nczfs", 12345, -1)
    elif change == "mode":
        programs.chmod(0o777)
    refused = main.main(["install-helper"])
    if change == "none":
        assert refused == 0
    else:
        assert refused == 2
        assert "users other than root can change it" in capsys.readouterr().err
        assert list(sbin.iterdir()) == []
    assert main.main(["install-helper", "--force"]) == 0
    assert (sbin / "mount.nczfs").readlink() == programs / "mount.nczfs"
