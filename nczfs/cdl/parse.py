"""A parser of CDL: the grammar of ncgen for atomic types, by recursive descent.

::

    text      = "netcdf" NAME "{" body "}"
    body      = {attribute ";"} ["types:" ...] ["dimensions:" {dims | attribute ";"}]
                ["variables:" {vars | attribute ";"}] ["data:" {list ";"}] {group}
    group     = "group:" NAME "{" body "}" {attribute ";"}
    dims      = NAME "=" (INTEGER | "UNLIMITED") {"," ...} ";"
    vars      = TYPE NAME ["(" DIMENSION {"," DIMENSION} ")"] {"," ...} ";"
    attribute = [TYPE] [VARIABLE] ":" NAME "=" [CONSTANT {"," CONSTANT}]
    list      = VARIABLE "=" (`cdl_lists.read_list`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from nczfs.cdl.constants import Constant, Item, Misfit, item_of
from nczfs.cdl.lists import CdlData, read_list
from nczfs.cdl.scope import GroupScope, VariableScope
from nczfs.cdl.tokens import Scanner, Token, TokenKind, name_of, names_of_path
from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.names import is_name
from nczfs.model.declaration import GroupDeclaration
from nczfs.model.dtypes import NcType
from nczfs.plaindata import frozen

DEPTH_MAX = 100
"""Groups within groups."""

_TYPES: Mapping[bytes, NcType] = {
    nc_type.value.encode(): nc_type for nc_type in NcType if nc_type is not NcType.JSON
} | {
    b"real": NcType.FLOAT,
    b"long": NcType.INT,
    b"integer": NcType.INT,
    b"ulong": NcType.UINT,
    b"uinteger": NcType.UINT,
}
_USER_TYPES = {
    b"compound": "compound",
    b"struct": "compound",
    b"structure": "compound",
    b"opaque": "opaque",
    b"enum": "enum",
}


@frozen
class Cdl:
    """The declarations and data of a CDL text.

    Attributes
    ----------
    name : the word after ``netcdf``.
    data : the values of variables that have any, by path ("g1/t").
    format : the requested ``_Format``.
    """

    name: str
    root: GroupDeclaration
    data: Mapping[str, CdlData]
    format: str | None


def parse_cdl(text: str, where: str) -> Cdl:
    """Parse a CDL text as ncgen does.

    Parameters
    ----------
    text : with surrogates for bytes that are not UTF-8 (``errors="surrogateescape"``).
    where : the name of the text, for messages.

    Raises
    ------
    BadMetadata : ``FILE:LINE: what was wrong``.
    Unsupported : user-defined types, filters without a codec; in the same form.

    Notes
    -----
    Unlike ncgen it refuses values that a variable has no room for, and numbers outside the range of
    its type, instead of dropping or changing them.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadMetadata(f"{where}:1: is not Unicode text") from None
    return _Parser(data, where).cdl()


class _Parser:
    def __init__(self, text: bytes, where: str) -> None:
        self._scanner = Scanner(text, where)
        self._root = GroupScope("", None)
        self._variables: list[VariableScope] = []

    def cdl(self) -> Cdl:
        self._body(self._root, 0)
        self._scanner.expect(b"}", "the groups")
        if self._scanner.token.kind is not TokenKind.END:
            self._scanner.fail(f"{self._scanner.shown()} after the end of the dataset")
        for variable in self._variables:
            self._at(variable.start, variable.lengthen)
        data: dict[str, CdlData] = {}
        for variable in self._variables:
            self._at(variable.start, variable.finish)
            if variable.data is not None:
                data[variable.path] = variable.data
        name = name_of(self._scanner.name.strip())
        return Cdl(name, self._root.declaration(), data, self._root.format)

    def _at(self, start: int, action: Callable[[], None]) -> None:
        """Attribute errors of the block to an earlier place in the text."""
        try:
            action()
        except Misfit as error:
            self._scanner.fail(str(error), start)

    # Groups and their sections.

    def _body(self, group: GroupScope, depth: int) -> None:
        self._attributes(group)
        self._section(b"types:", group, self._type)
        self._section(b"dimensions:", group, self._dimensions)
        self._section(b"variables:", group, self._declared_variables)
        if self._take_section(b"data:"):
            while self._scanner.token.kind in (TokenKind.WORD, TokenKind.PATH):
                self._data(group)
                self._scanner.expect(b";", "the values")
        while self._take_section(b"group:"):
            self._group(group, depth + 1)

    def _group(self, parent: GroupScope, depth: int) -> None:
        if depth > DEPTH_MAX:
            self._scanner.fail(f"groups within groups: more than {DEPTH_MAX}")
        token = self._scanner.token
        name = self._name("of a group")
        if name in parent.groups:
            self._scanner.fail(f"group {name} is declared twice", token.start)
        group = parent.groups[name] = GroupScope(name, parent)
        self._scanner.expect(b"{", f"`group: {name}`")
        self._body(group, depth)
        self._scanner.expect(b"}", f"the contents of group {name}")
        self._attributes(parent)

    def _take_section(self, word: bytes) -> bool:
        token = self._scanner.token
        if token.kind is not TokenKind.SECTION or token.source != word:
            return False
        self._scanner.next()
        return True

    def _section(
        self, word: bytes, group: GroupScope, declaration: Callable[[GroupScope], None]
    ) -> None:
        """Parse a section of declarations, with attributes between them."""
        if self._take_section(word):
            while self._scanner.token.kind in (TokenKind.WORD, TokenKind.PATH) or self._at_global():
                if self._is_attribute(group):
                    self._attribute(group)
                else:
                    declaration(group)
                self._scanner.expect(b";", "the declaration")

    def _attributes(self, group: GroupScope) -> None:
        while self._scanner.token.kind in (TokenKind.WORD, TokenKind.PATH) or self._at_global():
            self._attribute(group)
            self._scanner.expect(b";", "the attribute")

    def _type(self, group: GroupScope) -> NoReturn:
        token = self._scanner.next()
        kind = _USER_TYPES.get(token.source)
        if kind is None:
            following = self._scanner.token
            kind = _USER_TYPES.get(following.source, "variable-length")
        raise Unsupported(
            self._scanner.message(
                f"{kind} types cannot be stored in Zarr as netCDF does; only atomic types can",
                token.start,
            )
        )

    def _dimensions(self, group: GroupScope) -> None:
        while True:
            token = self._scanner.token
            name = self._name("of a dimension")
            self._scanner.expect(b"=", f"dimension {name}")
            length = self._length(name)
            if name in group.dimensions:
                self._scanner.fail(f"dimension {name} is declared twice", token.start)
            group.add_dimension(name, length)
            if not self._scanner.take(b","):
                return

    def _length(self, name: str) -> int | None:
        token = self._scanner.next()
        if token.source in (b"UNLIMITED", b"unlimited"):
            return None
        item = self._item(token)
        length = item.value if isinstance(item, Constant) else None
        if (
            token.kind is not TokenKind.NUMBER
            or not isinstance(length, int)
            or not 0 <= length < 1 << 63
        ):
            shown = token.source[:40].decode("utf-8", "replace")
            self._scanner.fail(f"{shown!a} is not a length of dimension {name}", token.start)
        return length

    def _declared_variables(self, group: GroupScope) -> None:
        nc_type = self._nc_type()
        while True:
            token = self._scanner.token
            name = self._name("of a variable")
            if name in group.variables:
                self._scanner.fail(f"variable {name} is declared twice", token.start)
            references = self._references() if self._scanner.take(b"(") else ()
            try:
                variable = VariableScope(name, nc_type, group, references, token.start)
            except Misfit as error:
                self._scanner.fail(str(error), token.start)
            group.variables[name] = variable
            self._variables.append(variable)
            if not self._scanner.take(b","):
                return

    def _references(self) -> tuple[str, ...]:
        """Parse the dimensions of a variable, as they are written except for escapes."""
        found: list[str] = []
        while True:
            token = self._scanner.next()
            match token.kind:
                case TokenKind.WORD:
                    found.append(name_of(token.source))
                case TokenKind.PATH:
                    found.append("/" + "/".join(names_of_path(token.source)))
                case _:
                    self._scanner.fail("expected a dimension between the brackets", token.start)
            if not self._scanner.take(b","):
                self._scanner.expect(b")", "the dimensions")
                return tuple(found)

    # Attributes.

    def _at_global(self) -> bool:
        return self._scanner.token.is_mark(b":")

    def _is_attribute(self, group: GroupScope) -> bool:
        """Return whether an attribute begins: there is a colon after one or two words."""
        scanner = self._scanner
        start = scanner.token
        for _ in range(3):
            if scanner.token.is_mark(b":"):
                break
            if scanner.token.kind not in (TokenKind.WORD, TokenKind.PATH):
                break
            scanner.next()
        found = scanner.token.is_mark(b":")
        scanner.go_on(start.start)
        return found

    def _attribute(self, group: GroupScope) -> None:
        start = self._scanner.token
        words: list[Token] = []
        while not self._scanner.take(b":"):
            if self._scanner.token.kind not in (TokenKind.WORD, TokenKind.PATH) or len(words) == 2:
                self._scanner.fail(f"{self._scanner.shown()} found; expected an attribute")
            words.append(self._scanner.next())
        nc_type, variable = self._owner(words, group)
        name = self._name("of an attribute")
        self._scanner.expect(b"=", f"attribute {name}")
        items = self._items()
        try:
            if variable is not None:
                variable.set_attribute(name, nc_type, items)
            else:
                group.set_attribute(name, nc_type, items)
        except Misfit as error:
            self._scanner.fail(f"{name}: {error}", start.start)
        except Unsupported as error:
            raise Unsupported(self._scanner.message(f"{name}: {error}", start.start)) from None

    def _owner(
        self, words: list[Token], group: GroupScope
    ) -> tuple[NcType | None, VariableScope | None]:
        """Parse the type and the variable before the colon."""
        if len(words) == 1:
            variable = self._found_variable(words[0], group)
            nc_type = None if variable is not None else _TYPES.get(words[0].source)
            if variable is None and nc_type is None:
                self._no_variable(words[0])
            return nc_type, variable
        if not words:
            return None, None
        variable = self._found_variable(words[1], group)
        if variable is None:
            self._no_variable(words[1])
        return self._as_type(words[0]), variable

    def _items(self) -> list[Item]:
        items: list[Item] = []
        if self._scanner.token.is_mark(b";"):
            return items
        while True:
            token = self._scanner.token
            item = self._item(token)
            if item is None:
                self._scanner.fail(f"{self._scanner.shown()} found; expected a value")
            items.append(item)
            self._scanner.next()
            if not self._scanner.take(b","):
                return items

    def _item(self, token: Token) -> Item | None:
        try:
            return item_of(token)
        except Misfit as error:
            self._scanner.fail(str(error), token.start)

    # Data.

    def _data(self, group: GroupScope) -> None:
        token = self._scanner.next()
        variable = self._found_variable(token, group)
        if variable is None:
            self._no_variable(token)
        self._scanner.expect(b"=", f"variable {variable.name}")
        variable.list = read_list(self._scanner, variable.layout)

    # Names.

    def _name(self, what: str) -> str:
        token = self._scanner.token
        if token.kind is not TokenKind.WORD:
            self._scanner.fail(f"{self._scanner.shown()} found; expected the name {what}")
        name = name_of(token.source)
        if not is_name(name):
            self._scanner.fail(f"{name[:40]!a} cannot be the name {what}")
        self._scanner.next()
        return name

    def _nc_type(self) -> NcType:
        return self._as_type(self._scanner.next())

    def _as_type(self, token: Token) -> NcType:
        nc_type = _TYPES.get(token.source) if token.kind is TokenKind.WORD else None
        if nc_type is None:
            shown = token.source[:40].decode("utf-8", "replace")
            self._scanner.fail(f"{shown!a} is not a type", token.start)
        return nc_type

    def _found_variable(self, token: Token, group: GroupScope) -> VariableScope | None:
        if token.kind is TokenKind.PATH:
            *groups, name = names_of_path(token.source)
            home = self._root.below(groups)
            return None if home is None else home.variables.get(name)
        return group.variables.get(name_of(token.source))

    def _no_variable(self, token: Token) -> NoReturn:
        shown = token.source[:40].decode("utf-8", "replace")
        self._scanner.fail(f"no variable {shown!a} has been declared so far", token.start)
