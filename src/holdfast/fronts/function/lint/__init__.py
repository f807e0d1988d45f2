"""The lint: reads a workflow's source for what could not be replayed, and says what to write.

It follows the functions of the same module that the body calls. Names are looked up in the living
module, so `from random import choice` is found and a local variable called `random` is not. What is
not certain is not said: a lint that cries wolf is switched off.

Nothing is read at import. `holdfast check` and workers call it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import logging
import re
from collections.abc import Iterable
from pathlib import PurePath
from types import FunctionType
from typing import Any, NamedTuple

from holdfast.fronts.function.lint.hiding import hidden_errors
from holdfast.fronts.function.lint.rules import HIDDEN, RULES, Rule
from holdfast.fronts.function.lint.walk import Found, Function, Walk
from holdfast.fronts.function.workflow import Workflow

__all__ = ["RULES", "Finding", "Rule", "findings", "tell"]

log = logging.getLogger("holdfast.lint")

TRIES = 5
_ALLOWED = re.compile(r"#\s*holdfast:\s*allow\(([\w\s,]+)\)")
_told: set[tuple[str, int]] = set()


class Finding(NamedTuple):
    """Something in a body that could not be replayed, or an error that a node hides."""

    workflow: str
    rule: str
    file: str
    line: int
    function: str
    what: str
    why: str
    instead: str

    def __str__(self) -> str:
        place = "node" if self.rule == HIDDEN.name else "workflow body"
        return (
            f"{PurePath(self.file).name}:{self.line} in {self.function}: {self.what} in a "
            f"{place}: {self.why}. Write {self.instead}. "
            f"If it must be so: # holdfast: allow({self.rule})"
        )


def findings(workflow: Workflow[..., Any]) -> list[Finding]:
    """Return what is found in a workflow's body, its helpers and its nodes, by file and line."""
    found: dict[tuple[str, int, str], Finding] = {}
    to_read = [inspect.unwrap(source) for source in workflow.sources]
    for function in to_read:  # grows while it is read
        if (node := _read(function)) is not None:
            walk = Walk(function, node)
            _add(found, workflow.name, function, node, walk.findings())
            to_read += [helper for helper in walk.helpers if helper not in to_read]
    for function in map(inspect.unwrap, workflow.nodes):
        if (node := _read(function)) is not None:
            _add(found, workflow.name, function, node, hidden_errors(function, node))
    return sorted(found.values(), key=lambda finding: (finding.file, finding.line))


def _read(function: object) -> Function | None:
    """Return the source of a function, as a tree."""
    return _node_of(function, _lines(function)) if isinstance(function, FunctionType) else None


def _add(
    found: dict[tuple[str, int, str], Finding],
    workflow: str,
    function: FunctionType,
    node: Function,
    places: Iterable[Found],
) -> None:
    """Take in what was found in one function, unless it is allowed there."""
    file, lines = function.__code__.co_filename, _lines(function)
    for place, rule, what in places:
        line: int = getattr(place, "lineno", node.lineno)
        last: int = getattr(place, "end_lineno", None) or line
        if rule.name not in _allowed(lines[line - 1 : last]):
            told = Finding(workflow, rule.name, file, line, node.name, what, rule.why, rule.instead)
            found.setdefault((file, line, rule.name), told)


def tell(workflows: Iterable[Workflow[..., Any]]) -> None:
    """Log what is found, each place once a process."""
    for workflow in workflows:
        for finding in findings(workflow):
            if (finding.file, finding.line) not in _told:
                _told.add((finding.file, finding.line))
                log.warning("%s", finding)
    _functions.cache_clear()  # a worker lives long and does not look again


def _lines(function: FunctionType) -> tuple[str, ...]:
    return tuple(linecache.getlines(function.__code__.co_filename, function.__globals__))


@functools.lru_cache(maxsize=32)
def _functions(lines: tuple[str, ...]) -> dict[tuple[str, int], Function]:
    """Return the functions of a file by name and first line, where decorators count."""
    try:
        tree = _parsed("".join(lines))
    except SyntaxError:  # it was edited since it was imported
        return {}
    found: dict[tuple[str, int], Function] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name, first] = node
    return found


def _parsed(source: str) -> ast.Module:
    """Parse, and again if other code did so meanwhile: CPython before 3.11.8 and 3.12.2 trips."""
    for _ in range(TRIES):
        try:
            return ast.parse(source)
        except SystemError:  # python/cpython#106905
            continue
    return ast.Module(body=[], type_ignores=[])


def _node_of(function: FunctionType, lines: tuple[str, ...]) -> Function | None:
    code = function.__code__
    return _functions(lines).get((code.co_name, code.co_firstlineno))


def _allowed(lines: Iterable[str]) -> set[str]:
    marks = (_ALLOWED.search(line) for line in lines)
    return {name.strip() for mark in marks if mark for name in mark[1].split(",")}
