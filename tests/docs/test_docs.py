"""What can be typed, read and met is in the documents, and the documents are whole."""

from __future__ import annotations

import argparse
import ast
import errno
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from nczfs import metrics
from nczfs.cli.main import COMMANDS
from nczfs.cli.options import OPTIONS, OTHERS_WORDS, Option
from nczfs.engine.chunks.loaded import Footprint
from nczfs.fuse.errno import ERRNO
from nczfs.vfs.control import ControlDirectory
from nczfs.vfs.conversing import Said
from nczfs.views import catalog

REPOSITORY = Path(__file__).parents[2]

# Where this repository may be worked on; no user has such a place.
PLACES_OF_OTHERS = ("/" + "work/", "/." + "library")


@cache
def files() -> tuple[Path, ...]:
    """All files of the repository that are, or could be, under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:  # an unpacked archive
        parts = [*REPOSITORY.glob("*"), *REPOSITORY.glob("[!.]*/**/*")]
        return tuple(path for path in parts if path.is_file())
    paths = (REPOSITORY / name.decode() for name in listed.stdout.split(b"\0") if name)
    return tuple(path for path in paths if path.is_file())


def page(name: str) -> str:
    return (REPOSITORY / name).read_text("utf-8")


@cache
def all_pages() -> str:
    return "\n".join(path.read_text("utf-8") for path in files() if path.suffix == ".md")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_its_own_options(name: str) -> None:
    text = page("docs/OPTIONS.md")
    (row,) = re.findall(rf"^\| `nczfs {name}\b.*", text, re.MULTILINE)
    parser = argparse.ArgumentParser(add_help=False)
    COMMANDS[name].add_arguments(parser)
    words = [word for action in parser._actions for word in action.option_strings]
    assert [word for word in words if not re.search(rf"`{word}\b", row)] == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_has_a_row_with_its_variables(option: Option) -> None:
    text = page("docs/OPTIONS.md")
    (row,) = re.findall(rf"^\|[^|]*`--{option.name}[ `].*", text, re.MULTILINE)
    assert f"`{option.variable}`" in row
    assert option.short is None or f"`-{option.short}`" in row
    assert option.is_flag or option.metavar is None or f"`--{option.name} " in row
    assert [name for name, _ in option.fallbacks if f"`{name}`" not in row] == []


def test_no_option_is_documented_that_is_not_there() -> None:
    known = {option.name for option in OPTIONS} | {"config", "name", "help-store", "version"}
    for command in COMMANDS.values():
        parser = argparse.ArgumentParser(add_help=False)
        command.add_arguments(parser)
        for action in parser._actions:
            known |= {word.lstrip("-") for word in action.option_strings}
    text = page("docs/OPTIONS.md")
    assert set(re.findall(r"`--([a-z-]+)", text)) - known - {"help"} == set()


def test_words_of_other_programs_are_documented() -> None:
    text = page("docs/OPTIONS.md")
    assert [word for word in OTHERS_WORDS if not re.search(rf"`{word}=?`", text)] == []


KINDS = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram"}


def test_every_metric_has_a_row_with_its_kind_and_labels() -> None:
    rows = re.findall(r"^\| `(nczfs_\w+)` \| ([^|]*) \|", page("docs/METRICS.md"), re.MULTILINE)
    found = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            kind = KINDS[type(metric).__name__]
            found[metric._name] = kind + (f" by {labels}" if labels else "")
    assert dict(rows) == found


def test_every_virtual_file_is_documented() -> None:
    text = page("docs/VIEWS.md")
    names = [
        *catalog.VARIABLE_VIEWS,
        catalog.ZOM,
        catalog.PREVIEW,
        *(f"NAME{suffix}" for suffix in catalog.GROUP_SUFFIXES),
        f"{catalog.ATTRIBUTES}/NAME",
        f"{catalog.CHUNKS}/i.j.k",
    ]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_file_of_the_control_directory_is_documented() -> None:
    control = ControlDirectory(
        mtime_ns=0,
        status=dict,
        config={},
        log=None,
        access=bytes,
        refresh=lambda _path: Footprint(),
        warm=lambda _text: Said(()),
        flush=lambda: None,
    )
    section = page("docs/SEMANTICS.md").partition("## `.nczfs/`")[2]
    text = section + page("README.md") + page("docs/METRICS.md")
    assert [name for name, _ in control.listing() if name not in text] == []


def test_every_relative_link_leads_somewhere() -> None:
    broken = []
    for path in files():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
            where, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            other = (path.parent / where).resolve() if where else path
            if not other.exists() or (anchor and anchor not in anchors(other)):
                broken.append(f"{path.relative_to(REPOSITORY)}: {target}")
    assert broken == []


def anchors(path: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    reached = {REPOSITORY / "README.md"}
    waiting = list(reached)
    while waiting:
        path = waiting.pop()
        for target in re.findall(r"\]\(([^)\s#]+)\)", path.read_text("utf-8")):
            other = (path.parent / target).resolve()
            if other.suffix == ".md" and other.exists() and other not in reached:
                reached.add(other)
                waiting.append(other)
    pages = {path for path in files() if path.suffix == ".md" and path.parent.name == "docs"}
    assert {path.name for path in pages - reached} == set()


def test_no_file_names_a_place_of_the_people_who_wrote_it() -> None:
    found = [
        str(path.relative_to(REPOSITORY))
        for path in files()
        if any(place.encode() in path.read_bytes() for place in PLACES_OF_OTHERS)
    ]
    assert found == []


# -- docs/TROUBLESHOOTING.md -----------------------------------------------------------------------

OF_THE_KERNEL = {errno.ENOTCONN, errno.ENOTSUP}


def test_every_errno_that_troubleshooting_explains_can_be_met() -> None:
    names = re.findall(r"^\| (E[A-Z]+)\b", page("docs/TROUBLESHOOTING.md"), re.MULTILINE)
    assert names
    met = {*ERRNO.values(), errno.ETIMEDOUT} | OF_THE_KERNEL
    assert [name for name in names if getattr(errno, name) not in met] == []


@cache
def messages() -> tuple[str, ...]:
    """All texts in the source, with … where a value is put in."""
    found = []
    for path in (REPOSITORY / "nczfs").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                )
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return tuple(found)


def test_troubleshooting_is_keyed_by_texts_that_nczfs_says() -> None:
    keys = re.findall(r"^\* `([^`]+)`:", page("docs/TROUBLESHOOTING.md"), re.MULTILINE)
    assert keys
    assert [key for key in keys if not any(key in text for text in messages())] == []


def test_troubleshooting_names_options_that_are_there() -> None:
    known = {option.name for option in OPTIONS} | {"lazy", "codecs"}
    named = re.findall(r"`--([a-z-]+)", page("docs/TROUBLESHOOTING.md"))
    assert set(named) - known - {"device"} == set()
