"""The SQL of this store, read from its `.sql` files by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from types import SimpleNamespace


def parse_queries(text: str) -> dict[str, str]:
    """Split a file of `-- name: claim_runs` blocks into name -> statement."""
    blocks = text.split("-- name: ")[1:]
    named = (block.partition("\n") for block in blocks)
    return {name.strip(): body.strip() for name, _, body in named}


PACKAGE = "holdfast.stores.sqlite"


@cache
def queries() -> SimpleNamespace:
    """Return every statement as an attribute of its name."""
    found: dict[str, str] = {}
    for file in sorted(files(PACKAGE).joinpath("sql").iterdir(), key=lambda f: f.name):
        found.update(parse_queries(file.read_text(encoding="utf-8")))
    return SimpleNamespace(**found)


@cache
def migrations() -> tuple[str, ...]:
    """Return the migration scripts, in order; the n-th makes schema version n."""
    folder = files(PACKAGE).joinpath("migrations")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(script.read_text(encoding="utf-8") for script in scripts)


migrations()  # read now, with the code: opening a file should not wait for it
