"""Looking through one function for what a body must not do."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from types import FunctionType
from typing import Any

from holdfast.fronts.function.lint import rules
from holdfast.fronts.function.lint.names import Names
from holdfast.fronts.function.lint.rules import Rule
from holdfast.fronts.function.step import Step

Found = tuple[ast.AST, Rule, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef

_MUTATORS = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "setdefault", "sort", "update",
})  # fmt: skip
_UNORDERED = frozenset({"builtins.set", "builtins.frozenset"})
_ORDERING = frozenset({"sorted", "sum", "min", "max", "any", "all", "len", "set", "frozenset"})
_LISTING = frozenset({"list", "tuple", "enumerate", "iter"})
_TASKS = frozenset({"create_task", "ensure_future"})


class Walk:
    """All that is found in one function, and the functions of its module that it calls."""

    def __init__(self, function: FunctionType, node: Function) -> None:
        self._function, self._node = function, node
        self._names = Names(function, node)
        self._parents = {
            child: parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)
        }
        self._sets: set[str] = set()
        self._sets = self._names_of_sets()
        self.helpers: list[FunctionType] = []

    def findings(self) -> Iterator[Found]:
        """Yield what is found, in the order of the source."""
        for statement in self._node.body:
            for node in ast.walk(statement):
                yield from self._look(node)

    def _look(self, node: ast.AST) -> Iterator[Found]:
        if isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Expr):
            yield from self._unawaited(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield from self._iteration(node)
        elif isinstance(node, ast.Global):
            yield node, rules.GLOBALS, f"global {', '.join(node.names)}"
        elif isinstance(node, ast.Subscript):
            yield from self._stored(node)
        elif isinstance(node, ast.Try | ast.With | ast.AsyncWith):
            yield from self._swallowed(node)
        elif (
            isinstance(node, ast.Name | ast.Attribute) and self._names.dotted(node) == "os.environ"
        ):
            yield node, rules.ENVIRON, "os.environ"

    # --- calls

    def _call(self, node: ast.Call) -> Iterator[Found]:
        self._follow(node.func)
        dotted = self._names.dotted(node.func)
        rule = rules.rule_for(dotted) if dotted and not dotted.startswith("os.environ") else None
        if rule is not None and not _is_seeded(dotted, node):
            yield node, rule, f"{dotted.removeprefix('builtins.')}()"
        elif isinstance(node.func, ast.Attribute):
            yield from self._method(node.func, node)
        elif isinstance(node.func, ast.Name) and node.func.id in _LISTING and node.args:
            yield from self._listed(node)

    def _method(self, method: ast.Attribute, node: ast.Call) -> Iterator[Found]:
        if method.attr == "run_in_executor":
            yield node, rules.THREADS, "run_in_executor()"
        elif method.attr in _MUTATORS and self._is_module_data(method.value):
            yield node, rules.GLOBALS, f"{ast.unparse(method)}()"

    def _follow(self, called: ast.AST) -> None:
        value = self._names.value(called)
        if isinstance(value, FunctionType) and value.__globals__ is self._function.__globals__:
            self.helpers.append(value)

    def _unawaited(self, node: ast.Expr) -> Iterator[Found]:
        call = node.value
        if not isinstance(call, ast.Call):
            return
        func = call.func
        if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute):
            func = func.func.value  # charge.options(timeout=5)(order)
        value = self._names.value(func)
        if isinstance(value, Step) or _gives_coroutine(value) or _is_saga(call):
            yield node, rules.UNAWAITED, f"{ast.unparse(call.func)}()"

    # --- data of the module

    def _is_module_data(self, node: ast.AST) -> bool:
        value = self._names.module_value(node)
        return isinstance(value, MutableSequence | MutableMapping | MutableSet)

    def _stored(self, node: ast.Subscript) -> Iterator[Found]:
        if not isinstance(node.ctx, ast.Load) and self._is_module_data(node.value):
            yield node, rules.GLOBALS, f"{ast.unparse(node.value)}[...] ="

    # --- sets

    def _names_of_sets(self) -> set[str]:
        """Return the names that are bound once, and to a set."""
        bound: dict[str, list[ast.AST | None]] = {}
        for node in ast.walk(self._node):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                parent = self._parents.get(node)
                value = parent.value if isinstance(parent, ast.Assign | ast.AnnAssign) else None
                bound.setdefault(node.id, []).append(value)
        return {name for name, [first, *more] in bound.items() if not more and self._is_set(first)}

    def _is_set(self, node: ast.AST | None) -> bool:
        """Tell whether this is surely a set whose order may differ."""
        if isinstance(node, ast.Set):
            return not all(map(_is_number, node.elts))
        if isinstance(node, ast.SetComp):
            return not _makes_task(node.elt)  # tasks have an order of their own
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            return self._names.dotted(node.func) in _UNORDERED
        return isinstance(node, ast.Name) and node.id in self._sets

    def _iteration(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> Iterator[Found]:
        if self._is_set(node.iter) and not self._is_order_free(node):
            yield node.iter, rules.SETS, f"an iteration over {ast.unparse(node.iter)[:40]}"

    def _listed(self, node: ast.Call) -> Iterator[Found]:
        if self._is_set(node.args[0]) and not self._is_order_free(node):
            yield node, rules.SETS, f"{ast.unparse(node)[:40]}"

    def _is_order_free(self, node: ast.AST) -> bool:
        """Tell whether the order is forgotten at once: by sorting, counting, another set."""
        made = self._parents.get(node) if isinstance(node, ast.comprehension) else node
        if isinstance(made, ast.SetComp):
            return True
        match self._parents.get(made) if made is not None else None:
            case ast.Call(func=ast.Name(id=name)):
                return name in _ORDERING
            case _:
                return False

    # --- exceptions

    def _swallowed(self, node: ast.Try | ast.With | ast.AsyncWith) -> Iterator[Found]:
        inside = [inner for part in node.body for inner in ast.walk(part)]
        awaits = [inner for inner in inside if isinstance(inner, ast.Await)]
        if not awaits or self._ends_a_task(awaits):
            return
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                if all(map(_does_nothing, handler.body)) and self._takes_cancel(handler.type):
                    kind = f" {ast.unparse(handler.type)}" if handler.type else ""
                    yield handler, rules.SWALLOWED, f"except{kind}: pass"
            return
        for item in node.items:
            yield from self._suppressed(item.context_expr)

    def _suppressed(self, call: ast.expr) -> Iterator[Found]:
        if isinstance(call, ast.Call) and self._names.dotted(call.func) == "contextlib.suppress":
            for kind in filter(self._takes_cancel, call.args):
                yield call, rules.SWALLOWED, f"suppress({ast.unparse(kind)})"

    def _takes_cancel(self, kind: ast.AST | None) -> bool:
        if kind is None:
            return True
        if isinstance(kind, ast.Tuple):
            return any(map(self._takes_cancel, kind.elts))
        return self._names.dotted(kind) in (
            "builtins.BaseException", "asyncio.CancelledError", "asyncio.exceptions.CancelledError",
        )  # fmt: skip

    def _ends_a_task(self, awaits: list[ast.Await]) -> bool:
        """Tell whether this waits for tasks that the function itself cancels: task.cancel()."""
        calls = [inner.func for inner in ast.walk(self._node) if isinstance(inner, ast.Call)]
        methods = [func for func in calls if isinstance(func, ast.Attribute)]
        cancelled = {ast.unparse(func.value) for func in methods if func.attr == "cancel"}
        return {ast.unparse(wait.value) for wait in awaits} <= cancelled


def _is_saga(call: ast.Call) -> bool:
    """Tell whether this reads `saga.do(..., undo=...)`."""
    is_do = isinstance(call.func, ast.Attribute) and call.func.attr == "do"
    return is_do and any(keyword.arg == "undo" for keyword in call.keywords)


def _gives_coroutine(value: Any) -> bool:
    if inspect.iscoroutinefunction(value):
        return True
    annotation = value.__annotations__.get("return") if isinstance(value, FunctionType) else None
    return str(annotation).startswith(("Coroutine[", "Awaitable[", "collections.abc.Coroutine["))


def _is_seeded(dotted: str, node: ast.Call) -> bool:
    return dotted == "random.Random" and bool(node.args or node.keywords)


def _is_number(node: ast.AST) -> bool:
    """Tell whether a set of such has one order everywhere."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _makes_task(node: ast.AST) -> bool:
    func: Any = node.func if isinstance(node, ast.Call) else None
    return getattr(func, "attr", getattr(func, "id", "")) in _TASKS


def _does_nothing(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant or isinstance(node, ast.Pass | ast.Continue)
