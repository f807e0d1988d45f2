"""`holdfast explain`: the page of an error code, from the installed package."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.telling import NotFound
from holdfast.cli.terminal import STDOUT

SHIPPED = Path(__file__).parents[1] / "pages"
WRITTEN = Path(__file__).parents[3] / "docs" / "errors"
"""Where the pages are in the repository; the wheel carries a copy of them."""


@click.command("explain")
@click.argument("code", required=False, default="")
def command(code: str) -> None:
    """Print the page of an error CODE, such as HF201; without one, list them all."""
    name = code.strip().strip("[]").upper() or "README"
    page = (SHIPPED if SHIPPED.is_dir() else WRITTEN) / f"{name}.md"
    if not name.isalnum() or not page.is_file():
        raise NotFound(f"There is no error code {code!r}. `holdfast explain` lists them all.")
    STDOUT.say(page.read_text(encoding="utf-8").rstrip())
