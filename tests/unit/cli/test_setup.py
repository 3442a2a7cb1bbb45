"""scripts/setup in a clone where an earlier one was interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts/setup", tmp_path / "scripts")
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def set_up(clone: Path, **environment: str) -> str:
    """What it says. Without an index pip ends at once: .venv is made, and stays empty."""
    ended = subprocess.run(
        ["scripts/setup", "--runtime"],
        cwd=clone,
        env=os.environ | {"PYTHON": sys.executable} | (environment or {"PIP_NO_INDEX": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stderr


def version_of_pip(clone: Path) -> str:
    command: list[str | Path] = [clone / ".venv/bin/python", "-m", "pip", "--version"]
    return subprocess.check_output(command, text=True)


def test_an_environment_without_pip_is_made_again(clone: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(clone / ".venv")], check=True
    )
    said = set_up(clone)
    assert "making the virtual environment" in said
    assert "No module named pip" not in said
    assert version_of_pip(clone).startswith("pip ")


def test_an_environment_with_a_part_of_pip_is_made_again(clone: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", clone / ".venv"], check=True)
    (record,) = clone.glob(".venv/lib/python*/site-packages/pip-*/RECORD")
    record.unlink()
    assert "making the virtual environment" in set_up(clone)
    assert version_of_pip(clone).startswith("pip ")
    assert "making the virtual environment" not in set_up(clone)


def test_ctrl_c_while_the_environment_is_made_prints_no_traceback(clone: Path) -> None:
    with subprocess.Popen(
        ["scripts/setup", "--runtime"],
        cwd=clone,
        env=os.environ | {"PIP_NO_INDEX": "1", "PYTHON": sys.executable},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as setup:
        assert setup.stderr is not None
        while not (clone / ".venv/bin/python").exists():
            assert setup.poll() is None
            time.sleep(0.01)
        os.killpg(setup.pid, signal.SIGINT)
        said = setup.stderr.read()
    assert setup.returncode == 128 + signal.SIGINT
    assert "setup: interrupted; the next run continues\n" in said
    assert "Traceback" not in said


def test_a_certificate_that_pip_does_not_trust_is_explained(clone: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = tmp_path / "certificate"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=127.0.0.1"]
        command += ["-keyout", str(certificate), "-out", str(certificate)]
        subprocess.run(command, check=True, capture_output=True)
        context.load_cert_chain(certificate)

        def answer() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with suppress(OSError), context.wrap_socket(client, server_side=True):
                        pass

        threading.Thread(target=answer, daemon=True).start()
        index = f"https://127.0.0.1:{listener.getsockname()[1]}/simple"
        said = set_up(clone, PIP_INDEX_URL=index, PIP_RETRIES="0", PIP_CONFIG_FILE=os.devnull)
        listener.shutdown(socket.SHUT_RDWR)
    assert "PIP_CERT=FILE scripts/setup" in said
