"""Imports go one way. This is the table; a folder that is not in it fails.

model <- machine, kernel, ports <- fronts, stores, engines, sinks, blobs, codecs, ai
      <- app, client, sync, hosts, server, testing <- cli

Every import counts: at the top, inside a function, under TYPE_CHECKING.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "holdfast"

FACTS = frozenset({"errors", "model"})
ADAPTERS = frozenset({"sinks", "blobs", "codecs", "providers", "witnesses"})
INNER = FACTS | {"machine", "kernel", "ports"}
MIDDLE = INNER | ADAPTERS | {"fronts", "stores", "engines", "ai"}
OUTER = MIDDLE | {
    "app", "caching", "checkpoint_stores", "checkpoints", "client", "compose", "entities",
    "executor", "factories", "graph_nodes", "graph_observing", "graph_running", "graph_streams",
    "graphing", "graphs", "hosts", "queues", "rekeying", "runtimes", "schedules",
    "server", "steering", "sync", "talking",
}  # fmt: skip

# The first name below `holdfast` -> the first names it may import, besides itself.
TABLE: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    "model": frozenset({"errors"}),
    "machine": FACTS,
    "kernel": FACTS,
    "ports": FACTS,
    "fronts": FACTS | {"machine"},
    "stores": FACTS | {"ports"},
    "engines": INNER,
    "sinks": FACTS | {"ports"},
    "blobs": FACTS | {"ports"},
    "codecs": FACTS | {"ports"},
    "witnesses": FACTS | {"ports"},
    "providers": FACTS | {"ports"},
    "ai": FACTS | {"machine", "ports"},
    "app": MIDDLE | {"graphing"},
    "talking": FACTS | {"machine", "fronts", "engines"},
    "entities": FACTS | {"machine", "fronts", "talking"},
    "schedules": FACTS | {"machine", "ports", "fronts", "engines", "talking"},
    "steering": FACTS | {"machine", "fronts", "engines", "talking"},
    "runtimes": frozenset(),
    "factories": FACTS | {"machine", "fronts", "graphs", "runtimes"},
    "executor": FACTS
    | {"client", "factories", "fronts", "graph_running", "graph_streams", "runtimes"},
    "graph_nodes": FACTS | {"fronts"},
    "graph_running": FACTS | {"machine", "ports", "fronts", "stores", "sinks"},
    "graphs": FACTS | {"machine", "ports", "fronts", "graph_nodes", "graph_running"},
    "graph_streams": FACTS
    | {"machine", "fronts", "engines", "factories", "graphs", "app", "client"},
    "graph_observing": FACTS | {"ports", "fronts", "graph_streams", "graphs", "factories"},
    "checkpoints": FACTS | {"client", "engines", "fronts", "graph_streams", "talking"},
    "checkpoint_stores": FACTS | {"fronts"},
    "graphing": FACTS | {"fronts", "graphs", "factories", "runtimes"},
    "queues": FACTS | {"kernel", "ports", "engines"},
    "caching": FACTS | {"engines"},
    "client": FACTS
    | {
        "machine",
        "ports",
        "fronts",
        "engines",
        "app",
        "caching",
        "entities",
        "queues",
        "schedules",
        "steering",
        "talking",
    },
    "hosts": MIDDLE | {"app"},
    "compose": MIDDLE | {"app", "client", "hosts", "queues", "schedules", "talking", "entities"},
    "rekeying": FACTS | {"ports", "stores", "compose"},
    "sync": FACTS
    | {
        "ports",
        "machine",
        "fronts",
        "app",
        "caching",
        "checkpoints",
        "client",
        "entities",
        "queues",
        "schedules",
        "steering",
        "talking",
    },
    "server": OUTER - {"server", "sync"},
    "testing": OUTER | {"holdfast"},
    "cli": OUTER | {"testing", "holdfast"},
    "holdfast": OUTER,  # holdfast/__init__.py, the public names
    "__main__": frozenset({"cli"}),
}

# `app.open` wires a client and a worker, which both know App: allowed where it cannot be a cycle
# at import time, that is inside a function or under TYPE_CHECKING.
LATE: Mapping[str, frozenset[str]] = {
    "app": frozenset({"client", "compose", "hosts", "sync"}),
    "graph_running": frozenset({"app", "client", "compose"}),
    "factories": frozenset({"app"}),
    "graphs": frozenset({"app", "checkpoint_stores"}),
    "checkpoint_stores": frozenset({"ports"}),
    "graphing": frozenset({"app", "checkpoint_stores", "graph_observing", "ports", "sinks"}),
    "graph_observing": frozenset({"app", "client"}),
}

# In these folders each subfolder is a stranger to the others.
STRANGERS = frozenset({"fronts", "stores", "engines"})

# No driver, no clock, no randomness in the rules.
PURE = frozenset({"model", "machine", "kernel"})
IMPURE_MODULES = frozenset({
    "aiosqlite", "asyncpg", "click", "fastapi", "http", "httpx", "multiprocessing",
    "nats", "os", "psycopg", "requests", "rich", "secrets", "select", "selectors",
    "signal", "socket", "sqlite3", "ssl", "subprocess", "temporalio", "tempfile",
    "threading", "time", "urllib", "uvicorn",
})  # fmt: skip
IMPURE_NAMES: Mapping[str, frozenset[str]] = {
    "datetime": frozenset({"now", "utcnow", "today"}),
    "date": frozenset({"today"}),
    "uuid": frozenset({"uuid1", "uuid4", "uuid6", "uuid7", "getnode"}),
}


@dataclass(frozen=True, slots=True)
class Import:
    module: str  # dotted and absolute
    line: int
    is_late: bool


def module_of(path: Path) -> tuple[str, ...]:
    """The dotted name below `holdfast`, with `__init__` standing for its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path: Path, tree: ast.AST) -> Iterator[Import]:
    package = ("holdfast", *path.relative_to(PACKAGE).parts[:-1])
    for node, is_late in walk(tree, is_late=False):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, is_late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *(node.module or "").split("."))).strip(".")
            for alias in node.names:
                yield Import(f"{module}.{alias.name}", node.lineno, is_late)


def walk(node: ast.AST, *, is_late: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, is_late
    inside = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        inside = True
    for child in ast.iter_child_nodes(node):
        yield from walk(child, is_late=inside)


def broken_rules(path: Path, source: str) -> Iterator[str]:
    tree = ast.parse(source)
    module = module_of(path)
    owner = module[0] if module else "holdfast"
    where = f"holdfast/{path.relative_to(PACKAGE).as_posix()}"
    if owner not in TABLE:
        yield f"{where}: {owner!r} is not in the import table; add it, with what it may import"
        return
    for found in imports(path, tree):
        head, *rest = found.module.split(".")
        if head == "holdfast":
            yield from inward(f"{where}:{found.line}", module, rest, is_late=found.is_late)
        elif owner in PURE and (why := impurity(owner, head, rest)):
            yield f"{where}:{found.line}: {owner} is pure: {why}"
    if owner in PURE:
        yield from (f"{where}:{line}: {owner} is pure: {why}" for line, why in impure_calls(tree))


def inward(
    where: str, module: tuple[str, ...], target: list[str], *, is_late: bool
) -> Iterator[str]:
    owner = module[0] if module else "holdfast"
    other = target[0] if target and target[0] in TABLE else "holdfast"
    if target and other == "holdfast" and is_module(target[0]):
        yield f"{where}: imports {target[0]!r}, which is not in the import table"
        return
    if owner == other:
        if owner in STRANGERS and is_sibling(module, target):
            yield f"{where}: {owner}/{module[1]} and {owner}/{target[1]} are strangers"
        return
    if other in TABLE[owner]:
        return
    if other not in LATE.get(owner, frozenset()):
        allowed = ", ".join(sorted(TABLE[owner])) or "nothing"
        yield f"{where}: {owner} must not import {other}; it may import {allowed}"
    elif not is_late:
        yield f"{where}: {owner} may import {other} only inside a function or TYPE_CHECKING"


def is_module(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


def is_sibling(module: tuple[str, ...], target: list[str]) -> bool:
    """Tell whether both are in subfolders, and not in the same one."""
    if len(module) < 2 or len(target) < 2 or module[1] == target[1]:
        return False
    other = PACKAGE / target[0] / target[1]
    is_shared_file = other.with_suffix(".py").exists()
    return other.is_dir() or (len(target) > 2 and not is_shared_file)


def impurity(owner: str, head: str, rest: list[str]) -> str | None:
    if head in IMPURE_MODULES:
        return f"it must not import {head}; pass in what it needs as an argument"
    if head == "random" and (owner != "machine" or rest not in ([], ["Random"])):
        return "chance is an argument; only machine may use random.Random, with a seed"
    if rest and rest[-1] in IMPURE_NAMES.get(head, ()):
        return f"{head}.{rest[-1]} is an effect; take the value as an argument"
    return None


def impure_calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if node.attr in IMPURE_NAMES.get(name, ()):
            yield node.lineno, f"{name}.{node.attr} is an effect; take the value as an argument"
        if name == "random" and isinstance(owner, ast.Name) and node.attr != "Random":
            yield node.lineno, f"random.{node.attr} has no seed of ours; use random.Random(seed)"


def test_imports_go_one_way() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    broken = [rule for file in files for rule in broken_rules(file, file.read_text("utf-8"))]
    assert not broken, "\n" + "\n".join(broken)


def test_every_folder_is_in_the_table() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders <= TABLE.keys(), f"not in the table: {sorted(folders - TABLE.keys())}"


def test_the_table_has_no_cycle() -> None:
    settled: set[str] = set()
    while ready := {name for name in TABLE.keys() - settled if TABLE[name] <= settled}:
        settled |= ready
    assert settled == TABLE.keys(), f"in a cycle: {sorted(TABLE.keys() - settled)}"


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("model/run.py", "from holdfast.kernel import dispatch", "model must not import kernel"),
        ("model/run.py", "from ..stores import x", "model must not import stores"),
        ("model/run.py", "import holdfast", "model must not import holdfast"),
        ("model/run.py", "from holdfast import App", "model must not import holdfast"),
        ("errors.py", "from holdfast.model import x", "it may import nothing"),
        ("kernel/start.py", "def f():\n  from holdfast.machine import x", "import machine"),
        (
            "kernel/start.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import holdfast.ports",
            "kernel must not import ports",
        ),
        ("engines/local/x.py", "from holdfast import hosts", "engines must not import hosts"),
        ("app.py", "from holdfast.client import Client", "only inside a function"),
        ("testing/crash.py", "import holdfast.cli", "testing must not import cli"),
        ("news/x.py", "", "'news' is not in the import table"),
        ("kernel/start.py", "import sqlite3", "must not import sqlite3"),
        ("machine/loop.py", "from time import monotonic", "must not import time"),
        ("kernel/start.py", "import random", "only machine may use random.Random"),
        ("machine/loop.py", "import random\nrandom.random()", "random.random has no seed"),
        ("machine/loop.py", "from random import choice", "only machine may use random.Random"),
        ("model/ids.py", "from uuid import uuid4", "uuid.uuid4 is an effect"),
        ("model/ids.py", "import uuid\nuuid.uuid4()", "uuid.uuid4 is an effect"),
        ("kernel/start.py", "import datetime\ndatetime.datetime.now()", "now is an effect"),
    ],
)
def test_a_wrong_import_is_named(file: str, source: str, complaint: str) -> None:
    assert complaint in "\n".join(broken_rules(PACKAGE / file, source))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("__init__.py", "from holdfast.app import App"),
        ("model/run.py", "from holdfast.model.events import Event\nfrom holdfast import errors"),
        ("machine/loop.py", "import asyncio\nfrom random import Random\nfrom uuid import UUID"),
        ("machine/loop.py", "import random\nrandom.Random(7)"),
        ("kernel/start.py", "from datetime import datetime\ndef f(now: datetime): ..."),
        ("app.py", "def open():\n  from holdfast.client import Client"),
        ("fronts/function/body.py", "from holdfast.machine import loop\nfrom . import other"),
        ("hosts/worker/loop.py", "from holdfast.engines.local import x\nimport sqlite3, time"),
    ],
)
def test_a_right_import_is_silent(file: str, source: str) -> None:
    assert list(broken_rules(PACKAGE / file, source)) == []


def test_siblings_are_strangers() -> None:
    source = "from holdfast.stores.sqlite import store"
    [complaint] = broken_rules(PACKAGE / "stores/memory/store.py", source)
    assert "stores/memory and stores/sqlite are strangers" in complaint
    assert list(broken_rules(PACKAGE / "stores/sqlite/store.py", source)) == []
