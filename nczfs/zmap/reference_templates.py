"""The templates of kerchunk: text with expressions in double braces, of which none is run.

Supported is what kerchunk's specification shows: names, whole numbers, text, ``+ - * // %``, and
calls of templates with named arguments. Everything else is refused by name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from nczfs.errors import Unsupported

Value: TypeAlias = "int | str"

EXPRESSION_CHARACTERS_MAX = 1000
TEXT_CHARACTERS_MAX = 8192  # limit of a key, a URL and the result of a template
DEPTH_MAX = 16  # levels of templates in templates
CALLS_MAX = 1000  # calls of templates for one text
STEPS_MAX = 50_000_000  # steps of computing for one document: some twenty seconds

_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}
_INTEGER_MAX = 1 << 63


class Templates:
    """The templates of one document.

    Parameters
    ----------
    texts : by name; a text may contain expressions itself.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._calls = 0
        self._steps = 0

    def render(self, text: str, names: Mapping[str, Value] | None = None, depth: int = 0) -> str:
        """Return a text with its expressions replaced by their values.

        Parameters
        ----------
        names : in addition to those of the templates.

        Raises
        ------
        Unsupported : an expression is not supported.
        """
        if "{{" not in text:
            return text
        if not depth:
            self._calls = 0
        if len(text) > TEXT_CHARACTERS_MAX:
            raise Unsupported(f"the template {text[:60]!r} is too long")
        if "{%" in text:
            raise Unsupported(
                f"the template {text[:60]!r} contains statements, which nczfs does not run"
            )
        pieces: list[str] = []
        length = at = 0
        while (begin := text.find("{{", at)) >= 0 and (end := text.find("}}", begin)) >= 0:
            value = str(_Evaluation(self, names or {}, depth).value(text[begin + 2 : end]))
            pieces += (text[at:begin], value)
            length += begin - at + len(value)
            at = end + 2
            if length > TEXT_CHARACTERS_MAX:
                break
        if length + len(text) - at > TEXT_CHARACTERS_MAX:
            raise Unsupported(f"the template {text[:60]!r} becomes too long")
        return "".join((*pieces, text[at:]))

    def step(self) -> None:
        """Count a step of computing."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise Unsupported("its templates need too much computing")

    def call(self, name: str, arguments: Mapping[str, Value], depth: int) -> str:
        """Return the text of a template with local names."""
        self._calls += 1
        if depth >= DEPTH_MAX or self._calls > CALLS_MAX:
            raise Unsupported(f"the template {name!r} uses itself, or is used too often")
        if name not in self._texts:
            known = ", ".join(sorted(self._texts)[:20]) or "none"
            raise Unsupported(f"a template names {name!r}, which is not known; known: {known}")
        return self.render(self._texts[name], arguments, depth + 1)


@lru_cache(maxsize=256)  # a few are shared by a million references
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Evaluation:
    """The value of one expression."""

    def __init__(self, templates: Templates, names: Mapping[str, Value], depth: int) -> None:
        self._templates = templates
        self._names = names
        self._depth = depth

    def value(self, text: str) -> Value:
        if len(text) > EXPRESSION_CHARACTERS_MAX:
            raise Unsupported(f"the expression {text[:60]!r}... is too long")
        try:
            return self._of(_parsed(text.strip()))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unsupported(f"the expression {text[:60]!r} is not understood") from error

    def _of(self, node: ast.expr) -> Value:
        self._templates.step()
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | str() as value):
                return value
            case ast.Name(id=name):
                if name in self._names:
                    return self._names[name]
                return self._templates.call(name, {}, self._depth)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._arithmetic(operator, left, right)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
                arguments = {word.arg: self._of(word.value) for word in keywords if word.arg}
                if len(arguments) == len(keywords):
                    return self._templates.call(name, arguments, self._depth)
        raise Unsupported(
            f"the expression {ast.unparse(node)[:60]!r} ({type(node).__name__}) is not understood; "
            "understood are names, numbers, text, + - * // % and templates"
        )

    def _arithmetic(self, operator: ast.operator, left: ast.expr, right: ast.expr) -> Value:
        if isinstance(operator, ast.Add):
            both = self._of(left), self._of(right)
            if isinstance(both[0], str) and isinstance(both[1], str):
                return both[0] + both[1]
        compute = _ARITHMETIC.get(type(operator))
        if compute is None:
            raise Unsupported(f"the operator {type(operator).__name__} is not understood")
        try:
            number = compute(self._number(left), self._number(right))
        except ZeroDivisionError:
            raise Unsupported("an expression divides by zero") from None
        if abs(number) >= _INTEGER_MAX:
            raise Unsupported("an expression exceeds 64 bits")
        return number

    def _number(self, node: ast.expr) -> int:
        value = self._of(node)
        if isinstance(value, int):
            return value
        raise Unsupported(f"the expression {ast.unparse(node)[:60]!r} is not a number")
