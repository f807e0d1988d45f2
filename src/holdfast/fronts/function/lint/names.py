"""What a name in a function means: looked up in the living module, not guessed from the text."""

from __future__ import annotations

import ast
import builtins
import os
import random
from collections.abc import Iterator
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any

UNKNOWN: Any = object()
_THREADS = ("_thread", "threading")


class Names:
    """The names of one function: its own, those around it, its module's, Python's."""

    def __init__(self, function: FunctionType, node: ast.AST) -> None:
        self._globals = function.__globals__
        self._around = dict(_cells(function))
        self._imported = dict(_imports(node))
        self._own = set(_bound(node)) - self._imported.keys()

    def value(self, node: ast.AST) -> Any:
        """Return the object a name or a dotted name stands for, or UNKNOWN."""
        if isinstance(node, ast.Attribute):
            base = self.value(node.value)
            return getattr(base, node.attr, UNKNOWN) if isinstance(base, ModuleType) else UNKNOWN
        if not isinstance(node, ast.Name) or node.id in self._own or node.id in self._imported:
            return UNKNOWN
        return self._outer(node.id)

    def module_value(self, node: ast.AST) -> Any:
        """Return the object of the function's module that a plain name stands for, or UNKNOWN."""
        if not isinstance(node, ast.Name) or node.id in self._own or node.id in self._around:
            return UNKNOWN
        return self._globals.get(node.id, UNKNOWN)

    def dotted(self, node: ast.AST) -> str:
        """Return the full name of what an expression stands for: `time.time`. "" if unknown."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):  # Path("x").read_text: an instance counts as its class
            name = self.dotted(node.func)
            return name if name == "pathlib.Path" else ""
        if isinstance(node, ast.BinOp):
            return self.dotted(node.left)
        if not isinstance(node, ast.Name):
            return ""
        if node.id in self._imported:
            return self._imported[node.id]
        return full_name(self.value(node))

    def _outer(self, name: str) -> Any:
        for place in (self._around, self._globals, vars(builtins)):
            if name in place:
                return place[name]
        return UNKNOWN


def full_name(value: Any) -> str:
    """Return `time.time` for that function, whatever it is called here; "" for other values."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(getattr(value, "__self__", None), random.Random):
        return f"random.{value.__name__}"
    return _object_name(value) or _definition_name(value)


def _object_name(value: Any) -> str:
    """Return what an object counts as, if its use in a body matters."""
    if value is os.environ:
        return "os.environ"
    if value is open:
        return "builtins.open"
    if isinstance(value, random.Random):
        return "random"
    if isinstance(value, PurePath):
        return "pathlib.Path"
    return f"threading.{type(value).__name__}" if type(value).__module__ in _THREADS else ""


def _definition_name(value: Any) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return ""
    return f"{_public(module)}.{name}"


def _public(module: str) -> str:
    first, *rest = module.split(".")
    shown = {"posix": "os", "nt": "os", "posixpath": "os.path"}.get(first, first)
    return ".".join([shown, *(part for part in rest if not part.startswith("_"))])


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            yield name, UNKNOWN


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            for alias in inner.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(inner, ast.ImportFrom) and inner.module and not inner.level:
            for alias in inner.names:
                yield alias.asname or alias.name, f"{inner.module}.{alias.name}"


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that the function binds itself, without those it declares as outer."""
    inside = [inner for inner in ast.walk(node) if inner is not node]
    declared = [inner for inner in inside if isinstance(inner, ast.Global | ast.Nonlocal)]
    outer = {name for inner in declared for name in inner.names}
    for inner in inside:
        name = _bound_by(inner)
        if name is not None and name not in outer:
            yield name


def _bound_by(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
        case _:
            return None
