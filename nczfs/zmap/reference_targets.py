"""The objects that references name: their stores, and which of them may be read.

A document of references is data, and may name anything. By default only neighbours are read: below
its directory, in its bucket, on its host.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from nczfs.errors import BadKey, CorruptStore, ReferenceRefused, StoreError, Unsupported
from nczfs.plaindata import frozen
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Key, parse_key
from nczfs.zmap.prefixes import SCHEME, is_below, normal
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.url import StoreUrl, parse_url

STORES_MAX = 64


@frozen
class _Place:
    """A store, its name in the pool, and a key in it.

    Attributes
    ----------
    is_home : whether it is the place of the document, all of which may be read.
    """

    root: str
    url: StoreUrl
    key: Key
    is_home: bool = False


class Targets:
    """A finder of the objects that references name. `_lock` guards the pool of stores.

    Parameters
    ----------
    home : the directory, prefix or place on a host that the document of references is in.
    options : of the stores that are opened; its `allow_references` name what else may be read.
    others : stores that are closed with these.
    """

    def __init__(self, home: StoreUrl, options: StoreOptions, *others: ZMap) -> None:
        self._home = home
        self._others = others
        self._options = replace(options, read_only=True)
        # A redirection must not lead where no reference may lead.
        self._options_elsewhere = replace(
            self._options,
            allow_redirects=(*options.allow_redirects, *options.allow_references),
            redirects_within_origin=False,
        )
        self._allowed = tuple(normal(prefix) for prefix in options.allow_references)
        self._lock = threading.Lock()
        self._stores: dict[str, ZMap] = {}

    @property
    def silent_s(self) -> float:
        """How long the most silent store has been so; see `ZMap.silent_s`."""
        with self._lock:
            stores = [*self._stores.values(), *self._others]
        return max((store.silent_s for store in stores), default=0.0)

    def find(self, text: str) -> tuple[ZMap, Key]:
        """Return the store and the key of an object.

        Raises
        ------
        ReferenceRefused : it is elsewhere, and that is not allowed.
        Unsupported : its name has an unsupported form.
        """
        try:
            place = self._place(text)
        except BadKey as error:
            raise CorruptStore(
                f"the reference to {_shown(text)} names no object: {error}"
            ) from error
        with self._lock:
            store = self._stores.get(place.root)
            if store is None:
                if len(self._stores) >= STORES_MAX:
                    raise StoreError(
                        f"{self._home.text}: refers to more than {STORES_MAX} stores, the last "
                        f"{place.url.text}"
                    )
                options = self._options if place.is_home else self._options_elsewhere
                store = self._stores[place.root] = open_store(place.url, options)
        return store, place.key

    def close(self) -> None:
        """Close the stores; may be called twice."""
        with self._lock:
            stores, self._stores = list(self._stores.values()), {}
        for store in (*stores, *self._others):
            store.close()

    def _place(self, text: str) -> _Place:
        if "::" in text:
            raise Unsupported(f"the reference to {_shown(text)} is a chain of protocols")
        scheme = SCHEME.match(text)
        if scheme is None:
            return self._at_path(text) if text.startswith("/") else self._beside(text)
        if scheme[1].lower() == "file":
            return self._at_path(text[scheme.end() :])
        try:
            parts = urlsplit(text)
            _ = parts.port
        except ValueError:
            raise Unsupported(f"the reference to {_shown(text)} has no host") from None
        if "@" in parts.netloc or not parts.netloc:
            raise Unsupported(f"the reference to {_shown(text)} has a user name, or no host")
        goal = normal(text)
        key = parse_key(goal.partition("://")[2].partition("/")[2])
        if parts.scheme in ("http", "https"):
            root, query = f"{parts.scheme}://{parts.netloc.lower()}", parts.query
            is_home = self._home.kind == "http" and self._root_of_home() == root
            if is_home and not query:
                return self._at_home(key)
            if not is_home:
                self._check(text, goal)
            source = f"{root}?{query}" if query else root
            return _Place(source, StoreUrl("http", root, source=source), key, is_home=is_home)
        root = f"{parts.scheme}://{parts.netloc}"
        bucket = self._home.bucket if self._home.kind == "s3" else ""
        if bucket == parts.netloc and parts.scheme in ("s3", "gs3"):
            return self._at_home(key)
        self._check(text, goal)
        return _Place(root, parse_url(root), key)

    def _beside(self, text: str) -> _Place:
        """Return the place of a path without a scheme, relative to the document's directory."""
        if self._home.path:
            return self._at_path(os.path.join(self._home.path, text))
        if self._home.kind == "s3":
            above = str(self._home.prefix)
        else:
            above = unquote(urlsplit(self._home.source).path, errors="surrogateescape")
        return self._at_home(parse_key(posixpath.normpath(f"{above}/{text}").lstrip("/")))

    def _at_home(self, key: Key) -> _Place:
        """Return an object in the bucket or on the host of the document, opened like it."""
        root = self._root_of_home()
        if self._home.kind == "s3":
            return _Place(root, replace(self._home, prefix=ROOT, text=root), key, is_home=True)
        parts = urlsplit(self._home.source)
        source = parts._replace(path="", fragment="").geturl()
        return _Place(root, replace(self._home, source=source, text=root), key, is_home=True)

    def _root_of_home(self) -> str:
        if self._home.kind == "s3":
            return f"{self._home.endpoint_url or 's3:/'}/{self._home.bucket}"
        parts = urlsplit(self._home.text)
        return f"{parts.scheme}://{parts.netloc.lower()}"

    def _at_path(self, path: str) -> _Place:
        """Return a file, whose store is the allowed directory: links cannot lead out of it."""
        path = os.path.normpath(path)
        roots = [root for root in self._allowed if root.startswith("/")]
        if self._home.path:
            roots.insert(0, self._home.path)
        for root in roots:
            directory = root.rstrip("/") if os.path.isdir(root) else os.path.dirname(root)
            if is_below(path, root):
                key = parse_key(path[len(directory) + 1 :])
                return _Place(directory, StoreUrl("file", directory, path=directory or "/"), key)
        raise self._refusal(path)

    def _check(self, text: str, goal: str) -> None:
        if not any(is_below(goal, prefix) for prefix in self._allowed):
            raise self._refusal(text)

    def _refusal(self, text: str) -> ReferenceRefused:
        return ReferenceRefused(
            f"the reference to {_shown(text)} leads out of {self._home.text}, which is not "
            "followed: --allow-references PREFIX allows it"
        )


def _shown(text: str) -> str:
    """Format a reference for messages: one line without user name, password or query."""
    shown = re.sub(r"//[^/@]*@", "//", text.partition("?")[0])
    return repr(shown[:200])
