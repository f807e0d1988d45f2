"""Write the sync door from the async classes; with `--check`, fail if it is out of date.

Every public method of `Client`, of `RunHandle` and of what it is made of becomes a plain one with
the same parameters, types and docstring. What is async waits in the portal's loop, what is an async
iterator becomes an iterator, and a handle becomes a sync handle. What most clients do not need is a
module of its own, so that they do not load it.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/holdfast"


class Door(NamedTuple):
    """A module of the sync door, and those that it is written from."""

    name: str
    sources: tuple[str, ...]

    @property
    def target(self) -> Path:
        """The file that is written."""
        return SOURCE / "sync" / f"{self.name}.py"


DOORS = (
    Door(
        "client",
        ("talking", "steering", "entities", "caching", "queues", "schedules", "client"),
    ),
    Door("checkpoints", ("checkpoints",)),
)
CLASSES = {
    "Checkpoints": "SyncCheckpoints",
    "UpdateHandle": "SyncUpdateHandle",
    "Settling": "SyncSettling",
    "Talking": "SyncTalking",
    "EntityHandle": "SyncEntityHandle",
    "StepCache": "SyncStepCache",
    "Queues": "SyncQueues",
    "Schedules": "SyncSchedules",
    "Client": "SyncClient",
    "Steered": "SyncSteered",
    "RunHandle": "SyncRunHandle",
}
HANDLES = {
    "RunHandle": "SyncRunHandle",
    "UpdateHandle": "SyncUpdateHandle",
    "EntityHandle": "SyncEntityHandle",
}
"""What is wrapped on its way out."""

HEAD = '''"""The sync door: the {name} for code without a loop. Written by `make docs`. Do not edit.

The thread and its loop are in `portal.py`; what each method does is in `holdfast/{name}.py`.
"""

from __future__ import annotations

# imports

# types

'''
OWN = {
    "typing": ("Self", "cast"),
    "collections.abc": ("Iterator",),
    "holdfast.sync.portal": ("Portal",),
}
"""What the sources need not import, and sync code may."""

INIT = {
    "Checkpoints": '''
    """The checkpoints of one run of a graph, and its states, for sync code.

    Where a place in the run is asked for, give the key of a checkpoint, `write:3`; a node, for the
    last time it was done; or the number of an event, for the node that was done last by then.
    """

    def __init__(self, client: SyncClient, run: str) -> None:
        self._portal = client.portal
        self._inside = Checkpoints(client.portal.inside, run)
''',
    "Settling": '''
    """What a client does about what runs wait for from outside, for sync code."""

    def __init__(self, portal: Portal[Any], inside: Settling) -> None:
        self._portal, self._inside = portal, inside
''',
    "Talking": '''
    """One run, as somebody who talks to it sees it, for sync code."""

    _portal: Portal[Any]
    _inside: Any
''',
    "UpdateHandle": '''
    """An update that a run has accepted, for sync code."""

    def __init__(self, portal: Portal[Any], inside: UpdateHandle[R_co]) -> None:
        self._portal, self._inside = portal, inside

    @property
    def id(self) -> str:
        """The update's id."""
        return self._inside.id

    @property
    def run(self) -> str:
        """The run's id."""
        return self._inside.run

    def __repr__(self) -> str:
        return repr(self._inside)
''',
    "EntityHandle": '''
    """The entity of one key, as seen from outside, for sync code."""

    def __init__(self, portal: Portal[Any], inside: EntityHandle[E]) -> None:
        self._portal, self._inside = portal, inside

    @property
    def id(self) -> str:
        """The id of the run that keeps it."""
        return self._inside.id

    @property
    def key(self) -> str:
        """The entity's key."""
        return self._inside.key

    def __repr__(self) -> str:
        return repr(self._inside)
''',
    "StepCache": '''
    """What is kept for later calls of steps, for sync code. `client.cache` is one."""

    def __init__(self, portal: Portal[Any], inside: StepCache) -> None:
        self._portal, self._inside = portal, inside
''',
    "Queues": '''
    """The queues of a store that have limits or are paused, for sync code."""

    def __init__(self, portal: Portal[Any], inside: Queues) -> None:
        self._portal, self._inside = portal, inside
''',
    "Schedules": '''
    """What the clock starts, for sync code. `client.schedules` is one."""

    def __init__(self, portal: Portal[Any], inside: Schedules) -> None:
        self._portal, self._inside = portal, inside
''',
    "Client": '''
    """The door to an engine, for sync code. Made by `app.open_sync(url)`; close it after use."""

    def __init__(self, portal: Portal[Client]) -> None:
        super().__init__(portal, portal.inside)
        self._inside: Client = portal.inside
        self.portal = portal
        """The way into the loop in which it lives."""

    @property
    def app(self) -> App:
        """The app it was opened by."""
        return self._inside.app

    @property
    def cache(self) -> SyncStepCache:
        """What is kept for later calls of steps."""
        return SyncStepCache(self._portal, self._inside.cache)

    @property
    def queues(self) -> SyncQueues:
        """The queues that have limits."""
        return SyncQueues(self._portal, self._inside.queues)

    @property
    def schedules(self) -> SyncSchedules:
        """What the clock starts."""
        return SyncSchedules(self._portal, self._inside.schedules)

    def close(self) -> None:
        """Stop the worker, close the store and end the thread."""
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
''',
    "Steered": '''
    """A run that can be told what to do, for sync code."""

    def __init__(self, portal: Portal[Any], inside: Steered) -> None:
        self._portal, self._inside = portal, inside

    @property
    def id(self) -> str:
        """The run's id."""
        return self._inside.id

    def __repr__(self) -> str:
        return repr(self._inside)
''',
    "RunHandle": '''
    """One run, as seen from outside, for sync code."""

    def __init__(self, portal: Portal[Any], inside: RunHandle[R_co]) -> None:
        super().__init__(portal, inside)
        self._inside: RunHandle[R_co] = inside
''',
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def generate(door: Door) -> str:
    """Return the text of a module of the sync door, formatted."""
    trees = {name: ast.parse((SOURCE / f"{name}.py").read_text("utf-8")) for name in door.sources}
    nodes = [node for tree in trees.values() for node in tree.body]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    drawn = "\n\n".join(sync_class(node) for node in classes if node.name in CLASSES)
    types = dict.fromkeys(
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Assign) and re.search("TypeVar|ParamSpec", ast.unparse(node.value))
        if re.search(rf"\b{ast.unparse(node.targets[0])}\b", drawn)
    )
    body = "\n".join(types) + "\n\n\n" + drawn
    imported = "\n".join(imports(trees, body))
    head = HEAD.format(name=door.name)
    text = head.replace("# imports\n", imported + "\n").replace("# types\n", body)
    return formatted(text, door.target)


def imports(trees: dict[str, ast.Module], body: str) -> list[str]:
    """Return the imports of the sources that the body needs, and those of its own."""
    text = re.sub(r'"""(?s:.*?)"""', "", body)
    found = {module: [*names] for module, names in OWN.items()}
    defined = re.findall(r"^class (\w+)", body, re.MULTILINE)
    found["holdfast.sync.client"] = [name for name in CLASSES.values() if name not in defined]
    for name, tree in trees.items():
        found[f"holdfast.{name}"] = names_of(tree)
    known = {"__future__", *(f"holdfast.{name}" for name in trees)}
    for node in (node for tree in trees.values() for node in tree.body):
        if isinstance(node, ast.ImportFrom) and node.module not in known:
            found.setdefault(node.module or "", []).extend(alias.name for alias in node.names)
    used = {
        module: [name for name in dict.fromkeys(names) if re.search(rf"\b{name}\b", text)]
        for module, names in found.items()
    }
    return [f"from {module} import {', '.join(names)}" for module, names in used.items() if names]


def names_of(tree: ast.Module) -> list[str]:
    """Return what a module defines that a signature may name."""
    found = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    aliases = [ast.unparse(node.targets[0]) for node in assigned if "Literal" in ast.dump(node)]
    return found + aliases


def sync_class(node: ast.ClassDef) -> str:
    listed = ", ".join(sync_type(ast.unparse(base)) for base in node.bases)
    bases = f"({listed})" if listed else ""
    public = [m for m in node.body if isinstance(m, Function) and not m.name.startswith("_")]
    overloaded = {method.name for method in public if is_overload(method)}
    methods = [sync_method(method, overloaded, node.name) for method in public]
    return f"class {CLASSES[node.name]}{bases}:{INIT[node.name]}\n" + "\n".join(methods)


def is_overload(node: Function) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def sync_method(node: Function, overloaded: set[str], owner: str) -> str:
    """Return one method, or one overload of it, as it is for sync code."""
    returns = ast.unparse(node.returns) if node.returns else "None"
    plain = sync_type(returns)
    head = f"    def {node.name}({ast.unparse(node.args)}) -> {plain}:"
    if is_overload(node):
        return f"    @overload\n{head} ..."
    doc = ast.get_docstring(node, clean=False)
    given = ", ".join(arguments(node.args))
    # What is behind overloads is called by its widest types, which only Any lets through.
    is_typed = node.name in overloaded and owner != "Talking"
    inside = "cast('Any', self._inside)" if is_typed else "self._inside"
    call = f"{inside}.{node.name}({given})"
    if returns.startswith("AsyncIterator["):
        work = f"self._portal.iterate({node.name!r}, {call})"
    elif isinstance(node, ast.AsyncFunctionDef):
        work = f"self._portal.call({node.name!r}, {call})"
    else:
        work = call
    lines = [head, f'        """{doc}"""']
    if node.name in overloaded:
        lines.append(f"        found: {returns} = {work}")
        work = "found"
    for name, sync in HANDLES.items():
        if returns.startswith(f"{name}["):
            work = f"{sync}(self._portal, {work})"
    if "wait" in given and returns == "Any":
        work = f"SyncUpdateHandle(self._portal, {work}) if wait == 'accepted' else {work}"
    lines.append(f"        {'' if plain == 'None' else 'return '}{work}")
    return "\n".join(lines) + "\n"


def sync_type(text: str) -> str:
    for name, sync in CLASSES.items():
        text = re.sub(rf"\b{name}\b", sync, text)
    return text.replace("AsyncIterator[", "Iterator[")


def arguments(given: ast.arguments) -> list[str]:
    """Return the parameters as they are passed on."""
    places = [a.arg for a in (*given.posonlyargs, *given.args)][1:]
    rest = [f"*{given.vararg.arg}"] if given.vararg else []
    named = [f"{a.arg}={a.arg}" for a in given.kwonlyargs]
    return [*places, *rest, *named, *([f"**{given.kwarg.arg}"] if given.kwarg else [])]


def formatted(text: str, target: Path) -> str:
    ruff = str(Path(sys.executable).with_name("ruff"))
    name = ["--stdin-filename", str(target), "-"]
    for command in (["check", "--fix-only", "--quiet", "--select", "I,UP,RUF"], ["format"]):
        words = [ruff, *command, *name]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text


def main(words: list[str]) -> int:
    stale = 0
    for door in DOORS:
        text, target = generate(door), door.target
        if target.exists() and target.read_text("utf-8") == text:
            continue
        name = target.relative_to(ROOT)
        if "--check" in words:
            print(f"{name} is out of date: run `make docs`", file=sys.stderr)
            stale = 1
        else:
            target.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
