"""Parsers of the values of options."""

from __future__ import annotations

import grp
import math
import os
import pwd
import re
from collections.abc import Callable

from nczfs.errors import UsageError
from nczfs.zmap.url import check_endpoint

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b?)", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|)", re.IGNORECASE)
_TIME_UNITS = {"ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

MINIMAL_S = 0.1
"""``minimal``: just long enough for one command to look at the same thing twice."""


def flag(text: str) -> bool:
    """Parse ``yes``, ``no`` and their synonyms."""
    word = text.strip().lower()
    if word in ("yes", "true", "on", "1", ""):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise UsageError(f"{text!r} is neither yes nor no")


def size(text: str) -> int:
    """Parse a size: ``512MiB``, ``2G`` (the same as GiB), ``1MB`` (10^6); not ``1e6``."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size; write 512MiB, 2GiB or a number of bytes")
    base = 1000 if match[3].lower() == "b" and match[2] else 1024
    return int(float(match[1]) * base ** " kmgt".index(match[2].lower() or " "))


def duration(text: str) -> float:
    """Parse seconds: ``30s``, ``5m``, ``250ms``, a bare number; ``minimal``; ``indefinite``."""
    word = text.strip().lower()
    if word == "minimal":
        return MINIMAL_S
    if word == "indefinite":
        return math.inf
    match = _TIME.fullmatch(word)
    if match is None:
        raise UsageError(f"{text!r} is not a time; write 30s, 5m, minimal or indefinite")
    return float(match[1]) * _TIME_UNITS[match[2]]


def deadline(text: str) -> float:
    """Parse a `duration` within which something must end."""
    seconds = duration(text)
    if not 0 < seconds < math.inf:
        raise UsageError(f"{text!r}: a limit must be above zero and not indefinite")
    return seconds


def octal(text: str) -> int:
    """Parse permission bits, as chmod takes them."""
    try:
        bits = int(text.strip(), 8)
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o777:
        raise UsageError(f"{text!r} are not permission bits; write 0644 or 755")
    return bits


def user(text: str) -> int:
    """Parse a user, by number or name."""
    if text.isdecimal():
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise UsageError(f"no user is called {text!r}") from None


def group(text: str) -> int:
    """Parse a group, by number or name."""
    if text.isdecimal():
        return int(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise UsageError(f"no group is called {text!r}") from None


def names(text: str) -> frozenset[str]:
    """Split words at commas, colons or blanks (in ``-o`` a comma would need a backslash)."""
    return frozenset(re.findall(r"[^\s,:]+", text))


def endpoint(text: str) -> str:
    """Parse the URL of a server. A password in it is refused, because options are shown."""
    check_endpoint(text)
    return text


def address(text: str) -> tuple[str, int]:
    """Parse where a server listens: ``8080``, ``0.0.0.0:80``, ``[::1]:8080``."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16) or (colon and not host):
        raise UsageError(f"{text!r} is not an address; write PORT or HOST:PORT")
    if not colon:
        return "127.0.0.1", int(port)
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise UsageError(f"{text!r}: write [{host}]:{port}")
    return host, int(port)


def hosts(text: str) -> frozenset[str]:
    """Parse names of hosts: ``data.example.org``, ``*.example.org``, ``*``."""
    found = names(text)
    for name in found:
        if not re.fullmatch(r"\*|(\*\.)?[A-Za-z0-9.-]+", name):
            raise UsageError(f"{name!r} is not the name of a host, nor *.NAME")
    return frozenset(name.lower() for name in found)


def count(text: str) -> int:
    """Parse a number of things, at least one."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:10]) < 1 << 20):
        raise UsageError(f"{text!r} is not a number from 1 to {(1 << 20) - 1}")
    return int(text)


def prefixes(text: str) -> frozenset[str]:
    """Split URLs and paths at commas or blanks (in ``-o`` a comma would need a backslash)."""
    if re.search(r"://[^/\s,]*@", text):
        raise UsageError("a prefix of URLs has no user name and no password")
    # Made absolute at once, because a daemon changes its working directory.
    return frozenset(
        word if "://" in word else os.path.abspath(os.path.expanduser(word))
        for word in re.findall(r"[^\s,]+", text)
    )


def choice(*words: str) -> Callable[[str], str]:
    """Return a parser that takes one of a few words."""

    def parse(text: str) -> str:
        if text not in words:
            raise UsageError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return parse


def flag_or(*words: str) -> Callable[[str], str]:
    """Return a parser that takes one of a few words, or a `flag` as "yes" or "no"."""

    def parse(text: str) -> str:
        if text in words:
            return text
        try:
            return "yes" if flag(text) else "no"
        except UsageError:
            raise UsageError(f"{text!r} is not one of yes, no, {', '.join(words)}") from None

    return parse
