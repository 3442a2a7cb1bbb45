"""The paths of a mount, and what they show of the store."""

from __future__ import annotations

from dataclasses import dataclass

from nczfs.errors import BadKey
from nczfs.messages import shown

OBJECTS, DATASETS = "objects", "datasets"


@dataclass(frozen=True, slots=True)
class MountPaths:
    """The paths of a mount.

    Attributes
    ----------
    last_word : of the URL of the store.
    is_dataset : whether the store is one dataset; in ``datasets/`` it is named by that word.
    """

    last_word: str
    is_dataset: bool

    def of_node(self, prefix: str) -> str:
        """Return the path in ``datasets/`` that shows a prefix of the store."""
        words = [DATASETS, *([self.last_word] if self.is_dataset else []), prefix]
        return "/".join(word for word in words if word)

    def of_object(self, key: str) -> str:
        """Return the path in ``objects/`` that shows a key or prefix of the store."""
        return f"{OBJECTS}/{key}"

    def in_store(self, path: str) -> str:
        """Return the prefix of the store that a path of the mount shows; "" is the whole store.

        Paths may begin with the name of the tree.

        Raises
        ------
        BadKey : the path has a word "..".
        """
        words = [word for word in path.strip().split("/") if word and word != "."]
        if ".." in words:
            raise BadKey(f"{shown(path)}: give the path as in the mount, without '..'")
        if words and words[0] == OBJECTS:
            words = words[1:]
        elif words and words[0] == DATASETS:
            in_datasets = self.is_dataset and words[1:2] == [self.last_word]
            words = words[2:] if in_datasets else words[1:]
        return "/".join(words)
