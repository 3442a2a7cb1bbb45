"""Virtual files: a layout, the variables that it shows, and what can be written."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.views.layout import Layout

Variables: TypeAlias = tuple[Variable, ...]


class Writing(Enum):
    """What can be written to a virtual file whose dataset can be changed."""

    NOTHING = "nothing"
    IN_PLACE = "the bytes that it has"
    RECORDS = "the bytes that it has, and records after them if the variable can grow"
    WHOLE = "a whole new content, taken at the close"


@frozen
class View:
    """A virtual file.

    Attributes
    ----------
    build : makes the layout of the variables, which may have grown or been renamed since the view
        was made; may block if `is_arithmetic` is false.
    is_arithmetic : whether the layout, and so the size, follows only from descriptions of arrays.
    is_text : whether the layout has only literals, and is kept as one text.
    variables : whose values it shows; reading it reads their chunks. None: it shows no values.
    writing : what can be written. The segments of the layout decide which bytes.
    """

    build: Callable[[Variables], Layout]
    is_arithmetic: bool = True
    is_text: bool = False
    variables: Variables = ()
    writing: Writing = Writing.NOTHING

    def layout(self) -> Layout:
        """Return the layout of the variables as they were when the view was made."""
        return self.build(self.variables)
