"""Time travel: `holdfast runs rerun`."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import completing, options
from holdfast.cli.door import Door
from holdfast.cli.runs.verbs import do
from holdfast.cli.terminal import clean

LISTED = 5
"""How many keys are named of those that run again."""


@click.command("rerun")
@options.run_id
@click.option("--from", "key", metavar="KEY", shell_complete=completing.keys,
              help="The step to go back to, such as charge#2; else the start.")  # fmt: skip
@click.option("--keep-keys", is_flag=True, help="Let its steps keep their idempotency keys.")
@click.option("--id", "id", metavar="ID", help="Makes a repeat harmless: one rerun for each id.")
@options.reason
@options.with_door
def rerun(
    door: Door, run: str, key: str | None, keep_keys: bool, id: str | None, reason: str
) -> None:
    """Take a run back to one of its steps, or to its start; it goes on anew from there.

    Works on open and closed runs. What was asked for later no longer counts; nothing is deleted.
    """

    async def act(target: Any) -> str:
        gone = await target.rerun(key, keep_keys=keep_keys, reason=reason, id=id)
        more = "" if len(gone) <= LISTED else f" and {len(gone) - LISTED} more"
        told = f" without {clean(', '.join(gone[:LISTED]))}{more}" if gone else ""
        return f"goes on from {clean(key) if key else 'its start'}{told}"

    do(door, run, act)
