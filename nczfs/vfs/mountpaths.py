"""The paths of a mount, and what they show of the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import accumulate
from typing import ClassVar

from nczfs.errors import BadKey
from nczfs.messages import shown
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.flat import shown_name, stored_names
from nczfs.zmap.keys import is_within, join

OBJECTS, DATASETS = "objects", "datasets"


class MountPaths(ABC):
    """The paths of a mount."""

    is_flat: ClassVar[bool] = False

    @abstractmethod
    def of_node(self, prefix: str) -> list[str]:
        """Return the paths of what may show a prefix of the store as data."""

    @abstractmethod
    def of_object(self, key: str) -> list[str]:
        """Return the paths that show a key or prefix of the store as it is."""

    @abstractmethod
    def in_store(self, path: str) -> list[str]:
        """Return the prefixes of the store that a path may show; "" is the whole store.

        Raises
        ------
        BadKey : the path has a word "..".
        """

    @abstractmethod
    def shows(self, path: str, prefix: str) -> bool:
        """Return whether a path shows something at or below a prefix of the store."""


@frozen
class TreePaths(MountPaths):
    """The paths of a mount with the layout ``tree``.

    Attributes
    ----------
    last_word : of the URL of the store.
    is_dataset : whether the store is one dataset; in ``datasets/`` it is named by that word.
    """

    last_word: str
    is_dataset: bool

    def of_node(self, prefix: str) -> list[str]:
        words = [DATASETS, *([self.last_word] if self.is_dataset else []), prefix]
        return ["/".join(word for word in words if word)]

    def of_object(self, key: str) -> list[str]:
        return [f"{OBJECTS}/{key}"]

    def in_store(self, path: str) -> list[str]:
        """Return the prefix that a path shows, which may begin with the name of the tree."""
        words = _words(path)
        if words and words[0] == OBJECTS:
            words = words[1:]
        elif words and words[0] == DATASETS:
            in_datasets = self.is_dataset and words[1:2] == [self.last_word]
            words = words[2:] if in_datasets else words[1:]
        return ["/".join(words)]

    def shows(self, path: str, prefix: str) -> bool:
        return is_within(self.in_store(path)[0], prefix)


@frozen
class FlatPaths(MountPaths):
    """The paths of a mount with the layout ``flat``. Attributes are those of `TreePaths`."""

    is_flat: ClassVar[bool] = True

    last_word: str
    is_dataset: bool

    def of_node(self, prefix: str) -> list[str]:
        """Return the paths of the directory, and of each file that may show a dataset around it."""
        if self.is_dataset:
            return [shown_name(self.last_word)]
        if not prefix:
            return []
        words = prefix.split("/")
        above = ["", *accumulate(words, join)]
        files = [join(place, shown_name(word)) for place, word in zip(above, words, strict=False)]
        return [prefix, *files]

    def of_object(self, key: str) -> list[str]:
        return []

    def in_store(self, path: str) -> list[str]:
        """Return the prefixes that a path may show; it may go on in a dataset, as in the store."""
        words = _words(path)
        if self.is_dataset:
            return ["/".join(words[1:] if words[:1] == [shown_name(self.last_word)] else words)]
        found = (
            [*words[:number], name, *words[number + 1 :]]
            for number, word in enumerate(words)
            for name in stored_names(word)
        )
        return ["/".join(each) for each in (*found, words)]

    def shows(self, path: str, prefix: str) -> bool:
        places = self.of_node(prefix)
        return not prefix or any(is_within(path.strip("/"), place) for place in places)


def _words(path: str) -> list[str]:
    words = [word for word in path.strip().split("/") if word and word != "."]
    if ".." in words:
        raise BadKey(f"{shown(path)}: give the path as in the mount, without '..'")
    return words
