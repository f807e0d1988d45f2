"""`holdfast db rekey`: everything that an old key encrypted, anew with the current one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import must_exist, store_at
from holdfast.cli.statuses import GREEN
from holdfast.cli.telling import Failed
from holdfast.cli.terminal import STDERR, STDOUT, fields
from holdfast.cli.words import count

if TYPE_CHECKING:
    from holdfast.model.rekeying import Rekeyed, RekeySight


@click.command("rekey")
@click.option("--dry-run", is_flag=True, help="Only say what would be encrypted anew.")
@options.with_url
@options.as_json
def command(url: str, dry_run: bool, as_json: bool) -> None:
    """Encrypt anew what an old key of the ring encrypted, and say which keys can go.

    The keys are those in HOLDFAST_KEYS; the last one encrypts. Workers may go on meanwhile, if
    they encrypt with the same key. If it is stopped, type the same again.
    """
    import asyncio

    rekeyed = asyncio.run(_rekeyed(url, dry_run))
    if as_json:
        say_json(rekeyed._asdict())
    elif STDOUT.is_person:
        _tell(rekeyed, dry_run)
    else:
        for name in ("current", "rewritten", "forgotten", "lost"):
            STDOUT.say(fields(name, getattr(rekeyed, name)))
        for name, key in (
            *(("used", k) for k in rekeyed.used),
            *(("unused", k) for k in rekeyed.unused),
        ):
            STDOUT.say(fields(name, key, rekeyed.used.get(key, 0)))
    if not dry_run and not _is_done(rekeyed):
        raise Failed(_problem(rekeyed))


async def _rekeyed(url: str, dry_run: bool) -> Rekeyed:
    from holdfast.rekeying import rekey

    await must_exist(store_at(url), url)
    with _drawn() as tell:
        return await rekey(url, dry_run=dry_run, tell=tell)


def _is_done(rekeyed: Rekeyed) -> bool:
    return not rekeyed.lost and set(rekeyed.used) <= {rekeyed.current}


def _tell(rekeyed: Rekeyed, dry_run: bool) -> None:
    done = "would be encrypted" if dry_run else "encrypted"
    mark = "" if dry_run else f"{STDOUT.style('✓', **GREEN)} "
    told = f"{mark}{count(rekeyed.rewritten, 'row')} {done} anew with key {rekeyed.current}"
    if rekeyed.forgotten:
        cached = count(rekeyed.forgotten, "cached result")
        told += f", {cached} {'would be ' if dry_run else ''}forgotten"
    STDOUT.say(told)
    for key, payloads in rekeyed.used.items():
        STDOUT.say(f"{payloads:>12,}  {key}")
    if rekeyed.unused:
        STDOUT.say(f"  no longer used: {', '.join(rekeyed.unused)}; take them off the ring")


def _problem(rekeyed: Rekeyed) -> str:
    if rekeyed.unread:
        keys = ", ".join(f"{key} ({number:,})" for key, number in rekeyed.unread.items())
        return (
            f"Some payloads cannot be opened, and are as they were. Their keys: {keys}. Put the "
            f"right keys on the ring, and type the same again."
        )
    if rekeyed.lost:
        return (
            f"{count(rekeyed.lost, 'blob')} that rows name cannot be read, so nobody knows their "
            f"keys. Name the blob store with HOLDFAST_BLOBS, or look with `holdfast doctor`."
        )
    others = ", ".join(key for key in rekeyed.used if key != rekeyed.current)
    return (
        f"Somebody still encrypts with {others}. Let {rekeyed.current} be the current key of all "
        f"workers and clients, and type the same again."
    )


@contextmanager
def _drawn() -> Generator[Callable[[RekeySight], None]]:
    """Draw how far it has come, if a person looks."""
    if not STDERR.is_person:
        yield lambda sight: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    began = monotonic()
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=8) as live:

        def tell(sight: RekeySight) -> None:
            seen = f"{sight.table}  {sight.rows:,} rows, {sight.rewritten:,} anew"
            live.update(Text(f"  sweep {sight.sweep}  {seen}  {monotonic() - began:.0f} s"))

        yield tell
