"""Write the pages that are drawn from the code; with `--check`, fail if one is out of date.

A page is a path below `docs/` and its text. Add a line to `pages`. A part of a written page stands
between two comments with its name: see `with_part`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import holdfast
from holdfast.errors import HoldfastError
from holdfast.fronts.function.lint import RULES
from holdfast.model.status import RUN_MOVES, STEP_MOVES
from scripts import pictures, reference
from scripts.error_examples import EXAMPLES
from scripts.reference import errors, first_line

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
    """List every error by its code, with the first line of its docstring and what to do."""
    rows = [
        f"| [{error.code}]({error.code}.md) | `{public(error.__name__)}` | {first_line(error)} "
        f"{error.hint} |"
        for error in sorted(errors(HoldfastError), key=lambda error: error.code)
    ]
    table = "\n".join(["| code | class | what happened, and what to do |", "|---|---|---|", *rows])
    return (
        "# Errors\n\nDrawn from `holdfast.errors` by `make docs`. Do not edit.\n\n"
        "Each message says what to do next and ends with its code. `holdfast explain CODE` prints\n"
        "its page: what happened, why, and what to do. In a program there are `error.code` and\n"
        "`error.page`. A code never changes its meaning.\n\n"
        f"{table}\n"
    )


def error_page(error: type[HoldfastError]) -> str:
    """Give the page of an error: its head is drawn, the rest is kept as it was written."""
    path = DOCS / "errors" / f"{error.code}.md"
    rest = f"{first_line(error)}\n\n**Why.** TODO\n\n**What to do.** {error.hint}\n"
    if path.exists():
        _, _, rest = path.read_text("utf-8").partition("\n\n")
        if rest.startswith("```text\n"):
            _, _, rest = rest.partition("\n```\n\n")
    example = EXAMPLES.get(error)
    told = f"```text\n{example}\n```\n\n" if example else ""
    return f"# {error.code} {error.__name__}\n\n{told}{rest}"


def public(name: str) -> str:
    """Return a name as users write it; one that is not for them stands alone."""
    return f"hf.{name}" if name in holdfast.__all__ else name


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


def pages() -> dict[str, str]:
    """Return the text of every page that is drawn, by its path."""
    return {
        "design/run-status.md": state_diagram("The life of a run", "RUN_MOVES", RUN_MOVES),
        "design/step-status.md": state_diagram("The life of a step", "STEP_MOVES", STEP_MOVES),
        "errors/README.md": error_index(),
        **{f"errors/{error.code}.md": error_page(error) for error in errors(HoldfastError)},
        "learn/determinism.md": with_part("learn/determinism.md", "lint rules", lint_rules()),
        "reference/README.md": reference.index(),
        "reference/python.md": reference.python(),
        "reference/testing.md": reference.testing(),
        "reference/settings.md": reference.settings(),
        "reference/history.md": reference.history(),
        "reference/cli.md": reference.command_line(),
        **pictures.drawn(),
    }


def main(arguments: list[str]) -> int:
    drawn = {DOCS / name: text for name, text in pages().items()}
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
