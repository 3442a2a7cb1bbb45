"""Where options are set, and which place wins.

The command line (``--option`` before ``-o``), then the environment (``NCZFS_OPTION``), then the
files: ``--config``, the user's, the system's; and last the variables of other programs.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from nczfs.cli.options import (
    BY_NAME,
    IGNORED_WORDS,
    KERNEL_WORDS,
    OPTIONS,
    OTHERS_WORDS,
    S3FS_WORDS,
    WORDS_WITHOUT_EFFECT,
    Option,
)
from nczfs.cli.spelling import hint
from nczfs.errors import UsageError
from nczfs.plaindata import frozen

SYSTEM_FILE = Path("/etc/nczfs/config.toml")


@frozen
class MountWords:
    """The contents of a ``-o`` list.

    Attributes
    ----------
    options : texts by option name.
    kernel : words for the kernel.
    environment : what ``env.NAME=value`` sets.
    hints : one line for each word of another program that was understood.
    """

    options: dict[str, str] = field(default_factory=dict)
    kernel: set[str] = field(default_factory=set)
    environment: dict[str, str] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)


class Settings:
    """The values of all options, wherever they were set."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = {option.name: option.default for option in OPTIONS} | dict(values)

    def flag(self, name: str) -> bool:
        """Return the value of an option that is on or off."""
        return bool(self._values[name])

    def maybe_flag(self, name: str) -> bool | None:
        """Return the value of an option that is on, off, or not set."""
        return None if self._values[name] is None else self.flag(name)

    def text(self, name: str) -> str:
        """Return the value of an option that always has a word."""
        return str(self._values[name])

    def maybe_text(self, name: str) -> str | None:
        """Return the value of a text option that may be left out."""
        return None if self._values[name] is None else self.text(name)

    def number(self, name: str) -> int:
        """Return the value of an option that is a size."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def maybe_number(self, name: str) -> int | None:
        """Return the value of an option that is a size, bits or an id, and may be left out."""
        value = self._values[name]
        assert value is None or isinstance(value, int), name
        return value

    def seconds(self, name: str) -> float:
        """Return the value of an option that is a time."""
        value = self._values[name]
        assert isinstance(value, float), name
        return value

    def address(self, name: str) -> tuple[str, int]:
        """Return the value of an option that is a host and a port."""
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value

    def words(self, name: str) -> frozenset[str] | None:
        """Return the value of an option that is a list, and may be left out."""
        value = self._values[name]
        assert value is None or isinstance(value, frozenset), name
        return value

    def effective(self) -> dict[str, object]:
        """Return the options that are set, for ``config.json``. No option contains a secret."""
        return {
            name: sorted(value) if isinstance(value, frozenset) else _plain(value)
            for name, value in self._values.items()
            if value is not None
        }


def _plain(value: object) -> object:
    return "indefinite" if value == float("inf") else value


def split_words(text: str) -> list[str]:
    """Split a ``-o`` list at commas; a backslash quotes the next character."""
    words, word, characters = [], "", iter(text)
    for character in characters:
        if character == "\\":
            word += next(characters, "\\")
        elif character == ",":
            words.append(word)
            word = ""
        else:
            word += character
    words.append(word)
    return [word for word in words if word]


def read_words(lists: Iterable[str], *, sloppy: bool = False) -> MountWords:
    """Parse ``-o`` lists.

    Parameters
    ----------
    sloppy : ignore unknown words, as ``mount -s`` requests.
    """
    found = MountWords()
    for word in (word for text in lists for word in split_words(text)):
        name, has_value, value = word.partition("=")
        if word in IGNORED_WORDS or name.startswith(("x-", "X-")) or name == "comment":
            continue
        if word in WORDS_WITHOUT_EFFECT:
            found.hints.append(f"-o {word} has no effect: {WORDS_WITHOUT_EFFECT[word]}")
            continue
        if word == "remount":
            raise UsageError("-o remount: a mount cannot be changed; unmount it and mount it again")
        if word in KERNEL_WORDS:
            found.kernel.add(word)
        elif name.startswith("env.") and has_value:
            found.environment[name.removeprefix("env.")] = value
        elif name in OTHERS_WORDS:
            ours, translate = OTHERS_WORDS[name]
            found.options[ours] = translate(value)
            if name in S3FS_WORDS:
                found.hints.append(f"-o {name} is an option of s3fs; nczfs calls it {ours}")
        else:
            option = _known(name)
            if option is not None:
                if not has_value and not (option.is_flag or option.is_word):
                    raise UsageError(f"-o {name} needs a value: {name}={option.metavar}")
                found.options[option.name] = value
            elif not sloppy:
                raise _unknown(name, "-o")
    return found


def _known(name: str) -> Option | None:
    return BY_NAME.get(name.replace("_", "-"))


def _unknown(name: str, where: str) -> UsageError:
    meant = hint(name.replace("_", "-"), BY_NAME)
    return UsageError(f"{where}: no option is called {name!r}{meant}")


def resolve(
    given: Mapping[str, object],
    words: Mapping[str, str],
    *,
    source: str = "",
    config: str | None = None,
) -> Settings:
    """Return the settings in effect.

    Parameters
    ----------
    given : values from the command line, by option name.
    words : texts from ``-o``, by option name.
    source : the URL; sections ``[source."PREFIX"]`` of files hold for URLs that begin so.
    config : the file of ``--config``.

    Raises
    ------
    UsageError : a value has the wrong form, or a file names an option that does not exist.
    """
    values: dict[str, object] = {}
    for option in OPTIONS:
        for variable, parse in option.fallbacks:
            if text := os.environ.get(variable):
                values[option.name] = _parse(parse, text, variable)
    for path in _files(config):
        values |= _read_file(path, source, required=str(path) == config)
    for option in OPTIONS:
        if (text := os.environ.get(option.variable)) is not None:
            values[option.name] = _parse(option.parse, text, option.variable)
    for name, text in words.items():
        values[name] = _parse(BY_NAME[name].parse, text, f"-o {name}")
    return Settings(values | dict(given))


def _files(config: str | None) -> Sequence[Path]:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = [SYSTEM_FILE, Path(home, "nczfs/config.toml")]
    return [*files, Path(config)] if config is not None else files


def _read_file(path: Path, source: str, *, required: bool) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if required:
            raise UsageError(f"--config {path}: no such file") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    sections = content.pop("source", {})
    if not isinstance(sections, dict):
        raise UsageError(f'{path}: write sections as [source."s3://bucket/prefix"]')
    values = _read_section(path, content)
    for prefix in sorted(sections, key=len):  # the longest, and so the nearest, last
        if source.startswith(prefix):
            values |= _read_section(path, sections[prefix])
    return values


def _read_section(path: Path, section: Mapping[str, object]) -> dict[str, object]:
    values = {}
    for name, value in section.items():
        option = _known(name)
        if option is None:
            raise _unknown(name, str(path))
        if isinstance(value, list):
            value = ",".join(map(str, value))
        values[option.name] = _parse(option.parse, str(value), f"{path}: {name}")
    return values


def _parse(parse: Callable[[str], object], text: str, where: str) -> object:
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
