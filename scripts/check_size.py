"""The size gate: files, functions and classes stay small enough to read at one sitting.

The only way past is an entry in `size-allow.toml` with a reason and a date. An entry that is no
longer needed fails too, so the list can only hold what is true.
"""

import ast
import datetime
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES, TEST_FILE_LINES = 500, 800
FUNCTION_LINES = 60
PUBLIC_METHODS = 15
FOLDERS = ("src", "tests", "scripts", "benchmarks", "chaos", "examples")


@dataclass(frozen=True, slots=True)
class Excess:
    path: str
    name: str  # empty for the file as a whole
    what: str
    size: int
    limit: int

    def __str__(self) -> str:
        thing = f"{self.path}: {self.name}" if self.name else self.path
        return f"{thing} has {self.size} {self.what}; the limit is {self.limit}"


def excesses(path: str, source: str) -> Iterator[Excess]:
    limit = TEST_FILE_LINES if path.startswith("tests/") else FILE_LINES
    lines = len(source.splitlines())
    if lines > limit:
        yield Excess(path, "", "lines", lines, limit)
    if path.startswith("src/"):
        yield from _in_body(path, "", ast.parse(source))


def _in_body(path: str, prefix: str, parent: ast.AST) -> Iterator[Excess]:
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _in_body(path, prefix, node)
            continue
        name = f"{prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            methods = _public_methods(node)
            if methods > PUBLIC_METHODS:
                yield Excess(path, name, "public methods", methods, PUBLIC_METHODS)
        else:
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield Excess(path, name, "lines", lines, FUNCTION_LINES)
        yield from _in_body(path, f"{name}.", node)


def _public_methods(node: ast.ClassDef) -> int:
    functions = (n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return len({f.name for f in functions if not f.name.startswith("_")})


def complaints(found: list[Excess], allowed: list[dict[str, Any]]) -> Iterator[str]:
    limits: dict[tuple[str, str], int] = {}
    for entry in allowed:
        path, name = entry.get("path", "?"), entry.get("name", "")
        reason, date = entry.get("reason"), entry.get("date")
        if not reason or not isinstance(date, datetime.date) or "limit" not in entry:
            yield f"size-allow.toml: {path} {name} needs a limit, a reason and a date"
        limits[path, name] = entry.get("limit", 0)
    for excess in found:
        if excess.size > limits.get((excess.path, excess.name), 0):
            yield str(excess)
    for path, name in limits.keys() - {(e.path, e.name) for e in found}:
        yield f"size-allow.toml: {path} {name} is within the limits now; remove the entry"


def main() -> int:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [
        excess
        for file in files
        for excess in excesses(file.relative_to(ROOT).as_posix(), file.read_text("utf-8"))
    ]
    allowed = tomllib.loads((ROOT / "size-allow.toml").read_text("utf-8")).get("allow", [])
    problems = list(complaints(found, allowed))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("Cut it, or add a line with a reason to size-allow.toml.", file=sys.stderr)
        return 1
    print(f"size: {len(files)} files within the limits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
