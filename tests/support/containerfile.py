"""The steps of a Containerfile, done in bare Debian systems."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BARE_SYSTEM = REPOSITORY / "tests/tools/bare-system"
_SUITES = {"debian:12-slim": "bookworm"}


@dataclass(slots=True)
class Image:
    """What one FROM begins.

    Attributes
    ----------
    root : the directory of its system.
    entrypoint : the words that begin each command.
    """

    root: Path
    entrypoint: list[str] = field(default_factory=list)

    def run(self, *words: str) -> str:
        """Run a command in its system. Returns what it prints."""
        command = [str(BARE_SYSTEM), str(self.root), *_way_to_packages(), *words]
        pipe = subprocess.PIPE
        done = subprocess.run(
            command, stdout=pipe, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout[-5000:]}"
        return done.stdout


def build(path: Path, work: Path) -> Image:
    """Do all steps of a Containerfile whose context is the repository.

    Parameters
    ----------
    work : a directory for the systems, which take about a gigabyte.

    Returns
    -------
    Image : the last one.
    """
    images: dict[str, Image] = {}
    image = Image(work)
    for instruction, rest in _instructions(path.read_text("utf-8")):
        match instruction:
            case "FROM":
                name, _, stage = rest.partition(" AS ")
                image = images[stage] = Image(work / f"image-{len(images)}")
                make_system(_SUITES[name], image.root)
            case "RUN":
                image.run("DEBIAN_FRONTEND=noninteractive", "sh", "-ec", rest)
            case "COPY":
                _copy(shlex.split(rest), image, images)
            case "ENTRYPOINT":
                image.entrypoint = json.loads(rest)
            case _:
                raise NotImplementedError(instruction)
    return image


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            instruction, _, rest = line.partition(" ")
            yield instruction, rest.strip()


def make_system(suite: str, root: Path) -> None:
    """Make a bare Debian."""
    command = ["debootstrap", "--variant=minbase", suite, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    if certificates := _pip_setting("cert"):
        (root / "etc/ssl").mkdir(exist_ok=True)
        shutil.copy(certificates, root / "etc/ssl/authorities.pem")


def _copy(words: list[str], image: Image, images: dict[str, Image]) -> None:
    context = REPOSITORY
    if words[0].startswith("--from="):
        context = images[words.pop(0).removeprefix("--from=")].root
    *patterns, to = words
    target = image.root / to.lstrip("/")
    for pattern in patterns:
        found = list(context.glob(pattern.lstrip("/")))
        assert found, pattern
        for path in found:
            if path.is_dir():
                shutil.copytree(path, target)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)


def _way_to_packages() -> Iterator[str]:
    """What a system needs here to get packages of Python: variables of its own environment."""
    if _pip_setting("cert"):
        yield "PIP_CERT=/etc/ssl/authorities.pem"
    for name in ("index-url", "default-timeout"):
        if value := _pip_setting(name):
            yield f"PIP_{name.replace('-', '_').upper()}={value}"


def _pip_setting(name: str) -> str:
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.check_output(command, text=True)
    found = [line.partition("=")[2] for line in listed.splitlines() if f".{name}=" in line]
    return found[-1].strip("'") if found else ""
