"""Write the pages that are drawn from the code; with `--check`, fail if one is out of date.

A page is a path below `docs/` and a function that gives its text. Add a line to `PAGES`. A part of
a written page stands between two comments with its name: see `with_part`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import holdfast
from holdfast.errors import HoldfastError
from holdfast.fronts.function.lint import RULES
from holdfast.model.status import RUN_MOVES, STEP_MOVES

Status = TypeVar("Status", bound=str)
DOCS = Path(__file__).resolve().parent.parent / "docs"


def state_diagram(title: str, table: str, moves: Mapping[Status, frozenset[Status]]) -> str:
    """Draw a table of legal moves. The first status in the table is where everything starts."""
    arrows = [f"    {origin} --> {to}" for origin in moves for to in sorted(moves[origin])]
    ends = [f"    {status} --> [*]" for status in moves if not moves[status]]
    drawing = "\n".join(["stateDiagram-v2", f"    [*] --> {next(iter(moves))}", *arrows, *ends])
    return (
        f"# {title}\n\nDrawn from `holdfast.model.status.{table}` by `make docs`. Do not edit.\n\n"
        f"```mermaid\n{drawing}\n```\n"
    )


def error_index() -> str:
    """List every error by its code, with the first line of its docstring."""
    rows = [
        f"| [{error.code}]({error.code}.md) | `{public(error.__name__)}` | {first_line(error)} |"
        for error in sorted(errors(HoldfastError), key=lambda error: error.code)
    ]
    table = "\n".join(["| code | class | |", "|---|---|---|", *rows])
    return (
        "# Errors\n\nDrawn from `holdfast.errors` by `make docs`. Do not edit.\n\n"
        "Each message ends with its code. The page says what happened, why, and what to do.\n\n"
        f"{table}\n"
    )


def errors(root: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    """Yield an error and all that derive from it, of Holdfast's own."""
    yield root
    for error in root.__subclasses__():
        if error.__module__ == root.__module__:
            yield from errors(error)


def public(name: str) -> str:
    """Return a name as users write it; one that is not for them stands alone."""
    return f"hf.{name}" if name in holdfast.__all__ else name


def first_line(documented: type[object]) -> str:
    return (documented.__doc__ or "").splitlines()[0]


def lint_rules() -> str:
    """Tell what the lint finds in a body, and what to write instead."""
    rows = [f"| {rule.example} | {rule.why} | {rule.instead} | `{rule.name}` |" for rule in RULES]
    return "\n".join(["| instead of | because | write | rule |", "|---|---|---|---|", *rows])


def with_part(page: str, name: str, text: str) -> str:
    """Put a part into the page that has its two comments."""
    before, begins, rest = (
        (DOCS / page).read_text("utf-8").partition(f"<!-- {name}: by `make docs` -->\n")
    )
    _, ends, after = rest.partition(f"<!-- end of {name} -->")
    if not ends:
        raise ValueError(f"docs/{page} has no place for {name}")
    return f"{before}{begins}\n{text}\n\n{ends}{after}"


PAGES: Mapping[str, Callable[[], str]] = {
    "design/run-status.md": lambda: state_diagram("The life of a run", "RUN_MOVES", RUN_MOVES),
    "design/step-status.md": lambda: state_diagram("The life of a step", "STEP_MOVES", STEP_MOVES),
    "errors/README.md": error_index,
    "learn/determinism.md": lambda: with_part("learn/determinism.md", "lint rules", lint_rules()),
}


def main(arguments: list[str]) -> int:
    drawn = {DOCS / name: draw() for name, draw in PAGES.items()}
    stale = [path for path, text in drawn.items() if not is_current(path, text)]
    if "--check" in arguments:
        for path in stale:
            print(f"docs/{path.relative_to(DOCS)} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawn[path], encoding="utf-8")
        print(f"wrote docs/{path.relative_to(DOCS)}")
    return 0


def is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
