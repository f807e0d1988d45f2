"""The reference, drawn from the code: public names, settings, history, command line."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from itertools import pairwise
from typing import Any, get_args

import click

import holdfast
import holdfast.testing
from holdfast.cli.entry import root
from holdfast.errors import HoldfastError
from holdfast.model.events import CLASS_OF, EventClass
from holdfast.model.settings import Settings
from holdfast.model.status import CLOSED, RUN_MOVES
from holdfast.testing import virtual

WIDTH = 96
MADE = frozenset(
    {"Bound", "Client", "Driven", "Fake", "RunHandle", "Schedules", "Step", "Workflow"}
)
"""Classes that users get, and never make."""
DRAWN = "Drawn from the code by `make docs`. Do not edit.\n"

CLASSES: dict[EventClass, str] = {
    "start": "where a replay begins; it holds the input",
    "answer": "settles something the body waits for",
    "message": "came from outside",
    "note": "said by the body",
    "mark": "for people; the body never sees it",
    "close": "ends the run",
}


def errors(root: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    """Yield an error and all that derive from it, of Holdfast's own."""
    yield root
    for error in root.__subclasses__():
        if error.__module__ == root.__module__:
            yield from errors(error)


def first_line(documented: type[object]) -> str:
    """Return the first line of a docstring."""
    return (documented.__doc__ or "").splitlines()[0]


def index() -> str:
    """List the pages of the reference."""
    return (
        f"# Reference\n\n{DRAWN}\n"
        "| page | what it lists |\n|---|---|\n"
        "| [Python](python.md) | every public name, with its signature |\n"
        "| [Testing](testing.md) | what tests of workflows are written with |\n"
        "| [Settings](settings.md) | what `hf.Settings` takes, and the defaults |\n"
        "| [History](history.md) | the statuses of runs and the kinds of events |\n"
        "| [Command line](cli.md) | every command with its options |\n"
        "| [Errors](../errors/README.md) | every code |\n"
    )


def python() -> str:
    """Tell of every public name: what it is, how it is called, what it promises."""
    named = {name: getattr(holdfast, name) for name in holdfast.__all__}
    kinds = [name for name, what in named.items() if _is_error(what)]
    told = [_name(name, what) for name, what in named.items() if name not in kinds]
    listed = ", ".join(f"[`hf.{name}`](../errors/{named[name].code}.md)" for name in kinds)
    return (
        f"# Python\n\n{DRAWN}\nEverything here is `import holdfast as hf`. What is not listed is "
        f"not public.\n\n{''.join(told)}## Errors\n\n{listed}\n"
    )


def testing() -> str:
    """Tell of everything that tests of workflows are written with."""
    named = {name: getattr(holdfast.testing, name) for name in holdfast.testing.__all__}
    told = [_name(name, what).replace(f"hf.{name}", name) for name, what in named.items()
            if not _is_error(what)]  # fmt: skip
    story = _name("run", virtual.run).replace("hf.run", "virtual.run")
    return (
        f"# Testing\n\n{DRAWN}\nEverything here is `from holdfast.testing import ...`. How it is "
        f"used is in\n[Test your workflows](../howto/test-workflows.md).\n\n{''.join(told)}{story}"
    ).rstrip() + "\n"


def _is_error(what: object) -> bool:
    return isinstance(what, type) and issubclass(what, HoldfastError)


def _name(name: str, what: Any) -> str:
    doc = _doc(what) if callable(what) else _meaning(name)
    head = f"## hf.{name}\n\n```text\n{_call(name, what)}\n```\n\n{doc}\n\n"
    if not isinstance(what, type):
        return head
    members = [_member(each, value) for each, value in _members(what)]
    return head + ("".join(members) + "\n" if members else "")


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what a class offers, in the order it is written, what is inherited last."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("holdfast"):
            continue
        for name, value in vars(base).items():
            is_told = inspect.isfunction(value) or isinstance(value, property)
            if is_told and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def _member(name: str, value: Any) -> str:
    call = name if isinstance(value, property) else f"{name}{_parameters(_tree(value))}"
    paragraph = " ".join(_doc(value).split("\n\n")[0].split())
    return f"- `.{call}`: {paragraph}\n"


def _call(name: str, what: Any) -> str:
    """Return how a name is written: a call, the fields of a tuple, or just the name."""
    if name in MADE:
        return f"hf.{name}"
    if not callable(what):
        return f"hf.{name}: {type(what).__module__}.{type(what).__qualname__}"
    if isinstance(what, type) and issubclass(what, Enum):
        return "\n".join(f"hf.{name}.{each.name}" for each in what)
    if isinstance(what, type):
        fields = _fields(what)
        parameters = f"({', '.join(fields)})" if fields else _parameters(_init(what))
    else:
        fields, parameters = [], _parameters(_tree(what))
    line = f"hf.{name}{parameters}"
    if len(line) <= WIDTH:
        return line
    fields = fields or _split(parameters)
    return f"hf.{name}(\n{''.join(f'    {each},' + chr(10) for each in fields)})"


def _tree(what: Any) -> Any:
    """Return a function or class as it is written; of overloads, the last."""
    return ast.parse(textwrap.dedent(inspect.getsource(what))).body[0]


def _init(kind: type) -> Any:
    return _tree(vars(kind)["__init__"])


def _fields(kind: type) -> list[str]:
    """Return the fields of a dataclass or a named tuple."""
    is_data = dataclasses.is_dataclass(kind) or issubclass(kind, tuple)
    body = _tree(kind).body if is_data else []
    return [ast.unparse(each) for each in body if isinstance(each, ast.AnnAssign)]


def _parameters(function: Any) -> str:
    arguments = function.args
    own = [each for each in arguments.args if each.arg != "self"]
    arguments.posonlyargs = [each for each in arguments.posonlyargs if each.arg != "self"]
    arguments.args = own
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    hides = function.name == "__init__"
    return f"({ast.unparse(arguments)}){'' if hides else returns}"


def _split(parameters: str) -> list[str]:
    parsed = ast.parse(f"def f{parameters.partition(' -> ')[0]}: ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    found, depth = [""], 0
    for letter in ast.unparse(parsed.args):
        depth += (letter in "[(") - (letter in ")]")
        if letter == "," and not depth:  # not within the brackets of a type
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


def _doc(what: Any) -> str:
    return inspect.getdoc(what) or ""


def _meaning(name: str) -> str:
    """Return the text under a public object in the module that makes it."""
    owners: dict[str, str] = vars(holdfast)["_MODULES"]
    owner = next(module for module, names in owners.items() if name in names.split())
    body = ast.parse(inspect.getsource(import_module(owner))).body
    for made, text in pairwise(body):
        is_it = isinstance(made, ast.Assign) and ast.unparse(made.targets[0]) == name
        if is_it and isinstance(text, ast.Expr):
            return str(ast.literal_eval(text.value))
    raise LookupError(f"Write under hf.{name} what it is.")


def settings() -> str:
    """Tell of every setting: its default, and the words under it in the source."""
    meanings = _meanings(Settings)
    rows = [
        f"| `{field.name}` | `{field.default}` | {meanings.get(field.name, '')} |"
        for field in dataclasses.fields(Settings)
    ]
    table = "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])
    return (
        f"# Settings\n\n{DRAWN}\n{_doc(Settings)}\n\n{table}\n\n"
        "Give them to `app.open(url, settings=hf.Settings(...))`. How to choose them is in\n"
        "[SQLite in production](../operate/sqlite.md).\n"
    )


def _meanings(kind: type) -> dict[str, str]:
    """Return the text under each field of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            found[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def history() -> str:
    """List statuses with their moves, and events with their classes."""
    statuses = [
        f"| `{status}` | {'closed' if status in CLOSED else 'open'} | "
        f"{', '.join(f'`{to}`' for to in sorted(moves)) or 'nothing'} |"
        for status, moves in RUN_MOVES.items()
    ]
    events = [f"| `{kind}` | {group} | {CLASSES[group]} |" for kind, group in CLASS_OF.items()]
    return (
        f"# History\n\n{DRAWN}\n## The statuses of a run\n\n"
        "The picture is [here](../design/run-status.md).\n\n"
        + "\n".join(["| status | a run that has it is | may become |", "|---|---|---|", *statuses])
        + "\n\n## The kinds of events\n\n"
        "`run.history()` and `run.events()` give `hf.Event`s. Their `kind` is one of these; `seq`\n"
        "numbers them from 1 without gaps.\n\n"
        + "\n".join(["| kind | class | |", "|---|---|---|", *events])
        + "\n"
    )


def command_line() -> str:
    """Paste the help of every command."""
    told = "".join(
        f"## {path}\n\n```text\n{text}\n```\n\n" for path, text in _helps(root, "holdfast", None)
    )
    return (
        f"# Command line\n\n{DRAWN}\nWhat `--help` prints. What the commands are for is on "
        f"[their own page](../cli.md).\n\n{told.rstrip()}\n"
    )


def _helps(
    command: click.Command, path: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    with click.Context(command, info_name=path.split()[-1], parent=parent) as context:
        formatter = click.HelpFormatter(width=90)
        command.format_help(context, formatter)
        yield path, formatter.getvalue().rstrip()
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None:
                    yield from _helps(inner, f"{path} {name}", context)


assert set(CLASSES) == set(get_args(EventClass)), "a class of events has no words here"
