"""The pages of the service, for browsers: plain HTML without scripts.

Names, attributes and errors come from stores that may be hostile: they enter a page through
`html.escape` or `quote` alone, and the service forbids scripts besides (`app.HEADERS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from nczfs.cdl import printer as cdl
from nczfs.errors import NczfsError
from nczfs.messages import size_text
from nczfs.plaindata import frozen
from nczfs.serve.answers import HTML, Answer, failure_text, text_answer
from nczfs.serve.pictures import LIMITS, QUERY, is_available
from nczfs.serve.store import (
    LISTED_MAX,
    LOOKED_AT_MAX,
    Place,
    ServedGroup,
    ServedStore,
    variables_in,
)
from nczfs.vfs.datasets.nodefiles import stem
from nczfs.vfs.nodes import Directory, File

DUMPS_MAX = 20
"""Datasets whose dumps are in one page."""

DUMP_CHARACTERS_MAX = 100_000

PICTURES_MAX = 100
"""Variables whose pictures are in one page. Browsers ask for those that are looked at."""

ENDPOINT: Final = "cdmremote"

AFTER: Final = "after"
"""In the query of a page: the entry after which it begins."""

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
pre { background: #f4f4f4; overflow-x: auto; padding: 1rem }
pre, code, td, input { font-family: ui-monospace, monospace; font-size: 14px }
td { padding: 0 1.5rem 0 0 } td.size { text-align: right }
input { width: 24rem } summary { cursor: pointer }
figure { display: inline-block; margin: 0 .5% 1rem; min-width: 18rem; width: 48% }
figure img { background: #f4f4f4; display: block; height: auto; max-width: 100% }
"""


@frozen
class _Entry:
    """An entry of a directory, as a page shows it."""

    name: str
    href: str
    size: str = ""


def place_in(query: bytes) -> Place | None:
    """Return the place after which a page begins, from the query of its URL; None: the first one.

    That of a directory ends with a slash, as in links.
    """
    name = dict(parse_qsl(query.decode("latin-1"), errors="surrogateescape")).get(AFTER)
    return None if name is None else (name.endswith("/"), name.removesuffix("/"))


def directory_answer(
    store: ServedStore, directory: Directory, path: str, after: Place | None = None
) -> Answer:
    """Return a page of a directory: of a group, of a variable, or of what is around datasets.

    Parameters
    ----------
    after : the place of the last entry of the page before; None: this is the first page.

    Raises
    ------
    NczfsError.
    """
    path = path.strip("/")
    group = store.group_of(directory, path)
    entries = store.entries(directory, after)
    directories = [(name, node) for name, node in entries.shown if isinstance(node, Directory)]
    files = [(name, node) for name, node in entries.shown if isinstance(node, File)]
    title = path or "Datasets"
    body = [f"<h1>{escape(title)}</h1>", _above(path)]
    if after is not None:
        body.append('<p><a href="?">First entries</a></p>')
    elif group is not None:
        body += _group(group, path)
    elif is_available() and store.variable_of(directory) is not None:
        body.append(_picture(path, title))
    body += _table("Files", (_file_entry(path, name, node) for name, node in files))
    if group is None:
        body += _datasets(store, directories, path)
    else:
        body += _table("Below", (_entry(path, name) for name, _ in directories))
    if entries.last is not None:
        body.append(_more(*entries.last))
    if entries.is_cut:
        body.append(f"<p>Only {LOOKED_AT_MAX} entries are listed.</p>")
    if not entries.shown:
        body.append("<p>Nothing is here.</p>")
    return text_answer(_page(title, body), media_type=HTML)


def _page(title: str, body: Iterable[str]) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _above(path: str) -> str:
    """Return links to the directories above."""
    if not path:
        return ""
    names = path.split("/")
    links = ['<a href="/">Datasets</a>']
    links += [
        f'<a href="{_href("/".join(names[: i + 1]))}">{escape(name)}</a>'
        for i, name in enumerate(names[:-1])
    ]
    return f"<nav>{' / '.join(links)}</nav>"


def _more(is_directory: bool, name: str) -> str:
    slash = "/" if is_directory else ""
    query = urlencode({AFTER: f"{name}{slash}"}, errors="surrogateescape")
    return f'<p><a rel="next" href="?{escape(query)}">More entries</a></p>'


def _group(group: ServedGroup, path: str) -> Iterator[str]:
    endpoint = escape(f"/{ENDPOINT}/{quote(path)}")
    requests = "".join(
        f' <a href="{endpoint}?req={req}">{req}</a>' for req in ("CDL", "NcML", "header")
    )
    yield f"<p>CDM Remote: <code>{endpoint}</code>{requests}</p>"
    names = [f"/{name}" for name in islice(group.variables, LISTED_MAX)]
    if names:
        options = "".join(f'<option value="{escape(name)}"></option>' for name in names)
        yield (
            f'<form action="{endpoint}"><input type="hidden" name="req" value="data">'
            '<label>Values as ncstream: <input name="var" required list="variables" '
            'placeholder="/name(0:9,:,3)"></label> '
            f'<datalist id="variables">{options}</datalist><button>Get</button></form>'
        )
    yield f"<pre>{escape(_dump(group))}</pre>"
    if names and is_available():
        yield "<h2>Variables</h2>"
        for name, variable in islice(group.variables.items(), PICTURES_MAX):
            yield _picture(path if variable.key == "" else f"{path}/{name}", name)
        if len(group.variables) > PICTURES_MAX:
            yield f"<p>Only the first {PICTURES_MAX} are shown.</p>"


def _picture(path: str, name: str) -> str:
    """Return the picture of a variable, which the browser asks for when it comes into view."""
    page = _href(path.lstrip("/"))
    return (
        f'<figure><a href="{page}"><img src="{page}?{QUERY}" alt="{escape(name)}" loading="lazy" '
        f'width="{LIMITS.width}" height="{LIMITS.height}"></a>'
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )


def _datasets(
    store: ServedStore, directories: Sequence[tuple[str, Directory]], path: str
) -> Iterator[str]:
    """Yield the datasets of a directory, the first ones with their dumps."""
    for number, (name, directory) in enumerate(directories):
        entry = _entry(path, name)
        link = f'<a href="{entry.href}">{escape(name)}</a>'
        if number >= DUMPS_MAX:
            yield f"<p>{link}</p>"
            continue
        below = f"{path}/{name}".lstrip("/")
        try:
            group = store.group_of(directory, below)
        except NczfsError as error:
            yield f"<p>{link}: {escape(failure_text(error))}</p>"
            continue
        if group is None:
            yield f"<p>{link}/</p>"
            continue
        count = sum(1 for _ in variables_in(group.tree))
        yield (
            f"<h2>{link}</h2><details><summary>{count} variables</summary>"
            f"<pre>{escape(_dump(group))}</pre></details>"
        )


def _table(title: str, entries: Iterable[_Entry]) -> Iterator[str]:
    rows = [
        f'<tr><td><a href="{entry.href}">{escape(entry.name)}</a></td>'
        f'<td class="size">{entry.size}</td></tr>'
        for entry in entries
    ]
    if rows:
        yield f"<h2>{title}</h2>\n<table>\n{chr(10).join(rows)}\n</table>"


def _entry(path: str, name: str) -> _Entry:
    return _Entry(name, _href(f"{path}/{name}".lstrip("/")))


def _file_entry(path: str, name: str, file: File) -> _Entry:
    stat = file.listing_stat()
    size = size_text(stat.size) if stat.exact and not file.direct_io else ""
    return _Entry(name, _href(f"{path}/{name}".lstrip("/"), slash=""), size)


def _href(path: str, *, slash: str = "/") -> str:
    return escape(f"/{quote(path, errors='surrogateescape')}{slash}")


def _dump(group: ServedGroup) -> str:
    text = cdl.header(group.tree, name=stem(group.name))
    if len(text) <= DUMP_CHARACTERS_MAX:
        return text
    return f"{text[:DUMP_CHARACTERS_MAX]}\n... (shortened; the .cdl file has everything)\n"
