"""The SQL of a store, read from its `.sql` files by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def parse_queries(text: str) -> dict[str, str]:
    """Split a file of `-- name: claim_runs` blocks into name -> statement."""
    blocks = text.split("-- name: ")[1:]
    named = (block.partition("\n") for block in blocks)
    return {name.strip(): body.strip() for name, _, body in named}


@cache
def queries_of(package: str) -> dict[str, str]:
    """Return every statement below `sql/` in a store's package, by name."""
    found: dict[str, str] = {}
    for file in sorted(files(package).joinpath("sql").iterdir(), key=lambda f: f.name):
        found.update(parse_queries(file.read_text(encoding="utf-8")))
    return found


@cache
def migrations_of(package: str) -> tuple[str, ...]:
    """Return the migration scripts, in order; the n-th makes schema version n."""
    folder = files(package).joinpath("migrations")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(script.read_text(encoding="utf-8") for script in scripts)
