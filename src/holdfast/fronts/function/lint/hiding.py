"""Looking through a node for errors that it hides: the run would go on as if it had worked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from holdfast.fronts.function.lint import rules
from holdfast.fronts.function.lint.names import Names
from holdfast.fronts.function.lint.walk import Found, Function

_EVERYTHING = ("builtins.Exception", "builtins.BaseException")
_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log"})


def hidden_errors(function: FunctionType, node: Function) -> Iterator[Found]:
    """Yield what catches everything, and then does nothing about it but to log it.

    A handler that uses the error, or returns something else than the state as it was, may well
    mean it.
    """
    names = Names(function, node)
    given = {argument.arg for argument in node.args.args}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Try):
            for handler in inner.handlers:
                if _takes_all(handler.type, names) and _hides(handler.body, given):
                    kind = f" {ast.unparse(handler.type)}" if handler.type else ""
                    yield handler, rules.HIDDEN, f"except{kind} that does nothing"
        elif isinstance(inner, ast.With | ast.AsyncWith):
            for item in inner.items:
                yield from _suppressed(item.context_expr, names)


def _suppressed(call: ast.expr, names: Names) -> Iterator[Found]:
    if isinstance(call, ast.Call) and names.dotted(call.func) == "contextlib.suppress":
        for kind in (each for each in call.args if _takes_all(each, names)):
            yield call, rules.HIDDEN, f"suppress({ast.unparse(kind)})"


def _takes_all(kind: ast.expr | None, names: Names) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_takes_all(each, names) for each in kind.elts)
    return kind is None or names.dotted(kind) in _EVERYTHING


def _hides(body: list[ast.stmt], given: set[str]) -> bool:
    return all(_is_idle(statement, given) for statement in body)


def _is_idle(statement: ast.stmt, given: set[str]) -> bool:
    match statement:
        case ast.Pass() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Return(value=None | ast.Constant(value=None) | ast.Dict(keys=[])):
            return True
        case ast.Return(value=ast.Name(id=name)):
            return name in given
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr))):
            return attr in _LEVELS
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case _:
            return False
