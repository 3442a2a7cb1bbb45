"""The templates of kerchunk: text with expressions in double braces, of which none is run.

Supported is what kerchunk's specification shows: names, whole numbers, text, ``+ - * // %``, and
calls of templates with named arguments. Everything else is refused by name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TypeAlias

from nczfs.errors import Unsupported
from nczfs.zmap.reference_table import TooMuch

Value: TypeAlias = "int | str"
Names: TypeAlias = Mapping[str, Value]
_Compute: TypeAlias = Callable[[Names, int], Value]  # of names, and the level of templates

EXPRESSION_CHARACTERS_MAX = 1000
TEXT_CHARACTERS_MAX = 8192  # limit of a key, a URL and the result of a template
DEPTH_MAX = 16  # levels of templates in templates
CALLS_MAX = 1000  # calls of templates for one text
STEPS_MAX = 50_000_000  # steps of computing for one document: some twenty seconds
PARSING_STEPS = 50  # that parsing an expression counts for
NESTED_MAX = 50  # levels of an expression
REMEMBERED_CHARACTERS_MAX = 256 << 10  # of texts that were parsed

_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}
_INTEGER_MAX = 1 << 63
_NO_NAMES: Names = {}


class UrlTemplates:
    """The templates of one document.

    Parameters
    ----------
    texts : by name; a text may contain expressions itself.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._calls = 0
        self._steps = 0
        self._parts: dict[str, tuple[str | _Compute, ...]] = {}
        self._remembered = 0  # characters of the texts in _parts

    def render(self, text: str, names: Names = _NO_NAMES, depth: int = 0) -> str:
        """Return a text with its expressions replaced by their values.

        Parameters
        ----------
        names : in addition to those of the templates.

        Raises
        ------
        Unsupported : an expression is not supported.
        TooMuch : the document needs too much computing.
        """
        if "{{" not in text:
            return text
        if not depth:
            self._calls = 0
        pieces: list[str] = []
        length = 0
        for part in self._parts.get(text) or self._parsed(text):
            piece = part if isinstance(part, str) else str(part(names, depth))
            length += len(piece)
            if length > TEXT_CHARACTERS_MAX:
                raise Unsupported(f"the template {text[:60]!r} becomes too long")
            pieces.append(piece)
        return "".join(pieces)

    def _step(self, count: int) -> None:
        """Count steps of computing."""
        self._steps += count
        if self._steps > STEPS_MAX:
            raise TooMuch("its templates need too much computing")

    def _call(self, name: str, arguments: Names, depth: int) -> str:
        """Return the text of a template with local names."""
        self._calls += 1
        if depth >= DEPTH_MAX or self._calls > CALLS_MAX:
            raise Unsupported(f"the template {name!r} uses itself, or is used too often")
        if name not in self._texts:
            known = ", ".join(sorted(self._texts)[:20]) or "none"
            raise Unsupported(f"a template names {name!r}, which is not known; known: {known}")
        return self.render(self._texts[name], arguments, depth + 1)

    def _parsed(self, text: str) -> tuple[str | _Compute, ...]:
        """Return the parts of a text, which are remembered: rules make a million of each."""
        if len(text) > TEXT_CHARACTERS_MAX:
            raise Unsupported(f"the template {text[:60]!r} is too long")
        if "{%" in text:
            raise Unsupported(
                f"the template {text[:60]!r} contains statements, which nczfs does not run"
            )
        parts: list[str | _Compute] = []
        at = 0
        while (begin := text.find("{{", at)) >= 0 and (end := text.find("}}", begin)) >= 0:
            parts += (text[at:begin], self._expression(text[begin + 2 : end]))
            at = end + 2
        parts.append(text[at:])
        self._remembered += len(text)
        if self._remembered > REMEMBERED_CHARACTERS_MAX:
            self._parts, self._remembered = {}, len(text)
        self._parts[text] = found = tuple(parts)
        return found

    def _expression(self, text: str) -> _Compute:
        self._step(PARSING_STEPS)
        if len(text) > EXPRESSION_CHARACTERS_MAX:
            raise Unsupported(f"the expression {text[:60]!r}... is too long")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            compute = self._of(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unsupported(f"the expression {text[:60]!r} is not understood") from error
        steps = sum(1 for _ in ast.walk(tree))

        def counted(names: Names, depth: int) -> Value:
            self._step(steps)
            return compute(names, depth)

        return counted

    def _of(self, node: ast.expr, level: int = 0) -> _Compute:
        """Return what computes an expression."""
        if level > NESTED_MAX:
            raise Unsupported(f"an expression has more than {NESTED_MAX} levels")
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | str() as value):
                return lambda names, depth: value
            case ast.Name(id=name):
                return lambda names, depth: (
                    names[name] if name in names else self._call(name, {}, depth)
                )
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                negated = self._number(operand, level)
                return lambda names, depth: -negated(names, depth)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._arithmetic(operator, left, right, level)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
                given = {word.arg: self._of(word.value, level + 1) for word in keywords if word.arg}
                if len(given) == len(keywords):
                    return lambda names, depth: self._call(
                        name, {word: value(names, depth) for word, value in given.items()}, depth
                    )
        raise Unsupported(
            f"the expression {ast.unparse(node)[:60]!r} ({type(node).__name__}) is not understood; "
            "understood are names, numbers, text, + - * // % and templates"
        )

    def _arithmetic(
        self, operator: ast.operator, left: ast.expr, right: ast.expr, level: int
    ) -> _Compute:
        operation = _ARITHMETIC.get(type(operator))
        if operation is None:
            raise Unsupported(f"the operator {type(operator).__name__} is not understood")
        first, second = self._of(left, level + 1), self._of(right, level + 1)
        joins = isinstance(operator, ast.Add)

        def compute(names: Names, depth: int) -> Value:
            one, other = first(names, depth), second(names, depth)
            if joins and isinstance(one, str) and isinstance(other, str):
                if len(one) + len(other) > TEXT_CHARACTERS_MAX:
                    raise Unsupported("an expression becomes too long")
                return one + other
            if isinstance(one, str) or isinstance(other, str):
                raise _no_number(left if isinstance(one, str) else right)
            try:
                number = operation(one, other)
            except ZeroDivisionError:
                raise Unsupported("an expression divides by zero") from None
            if abs(number) >= _INTEGER_MAX:
                raise Unsupported("an expression exceeds 64 bits")
            return number

        return compute

    def _number(self, node: ast.expr, level: int) -> Callable[[Names, int], int]:
        compute = self._of(node, level + 1)

        def number(names: Names, depth: int) -> int:
            value = compute(names, depth)
            if isinstance(value, int):
                return value
            raise _no_number(node)

        return number


def _no_number(node: ast.expr) -> Unsupported:
    return Unsupported(f"the expression {ast.unparse(node)[:60]!r} is not a number")
