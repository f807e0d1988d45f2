"""`holdfast questions` and `holdfast approve`: what people are asked, and their answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli import options
from holdfast.cli.documents import compact, say_json
from holdfast.cli.door import Door, found, handle
from holdfast.cli.proposing import typed
from holdfast.cli.statuses import CYAN, DIM
from holdfast.cli.strict_json import parse
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDERR, STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import ago, ahead, count, iso
from holdfast.errors import InvalidValue

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.waits import OpenQuestion

COLUMNS = (
    Column("run"), Column("key"), Column("to"), Column("asked"), Column("expires"),
    Column("question", cut=True),
)  # fmt: skip


class Page(NamedTuple):
    """Open questions, and the time there."""

    questions: list[OpenQuestion]
    next: str | None
    now: int


@click.command("questions")
@click.option("--to", default="", metavar="NAME", help="Only questions to this person or group.")
@click.option("--run", default="", metavar="RUN", help="Only questions of this run.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="The page after this: what the last one named.")
@options.as_json
@options.with_door
def command(
    door: Door, to: str, run: str, limit: int, after: str | None, as_json: bool
) -> None:  # fmt: skip
    """List the questions that wait for an answer, the oldest first."""

    async def read(engine: LocalEngine) -> Page:
        from holdfast.app import App
        from holdfast.client import Client

        client = Client(App("holdfast", namespace=engine.ns), engine)
        wanted = await found(engine, run) if run else ""
        page = await client.questions(to=to, run=wanted, limit=limit, after=after)
        return Page(page.questions, page.next, engine.store.now())

    page = door.enter(read)
    if as_json:
        say_json({"questions": [_document(each) for each in page.questions], "next": page.next})
    elif not STDOUT.is_person:
        for each in page.questions:
            STDOUT.say(fields(each.run, each.key, ",".join(each.to), each.question))
    elif not page.questions:
        STDOUT.say(STDOUT.dim("No question is open."))
    else:
        _say_table(page)
    if page.next and not as_json:
        STDERR.say(f"more: --after {page.next}")


@click.command("approve")
@options.run_id
@click.argument("key", required=False)
@click.option("--answer", metavar="JSON", help="The answer, if it is no plain yes or no.")
@click.option("--yes/--no", "verdict", default=None, help="Say yes, or no. Default: yes.")
@click.option("--by", metavar="NAME", help="Who answers; kept in the history. Default: you.")
@options.with_door
def approve(
    door: Door, run: str, key: str | None, answer: str | None, verdict: bool | None, by: str | None
) -> None:
    """Answer an open question of a run; KEY says which, if there are several."""
    if answer is not None and verdict is not None:
        raise Refused("Give --answer, or one of --yes and --no.")

    async def act(engine: LocalEngine) -> tuple[str, str, bool]:
        target = await handle(engine, run)
        asked = await _meant(engine, target.id, key)
        value = _value(asked, answer, verdict)
        is_new = await target.answer(asked.key, value, by=_me() if by is None else by)
        return target.id, asked.key, is_new

    id, answered, is_new = door.enter(act)
    told = f"{answered} is answered" if is_new else f"{answered} was answered so already"
    if STDOUT.is_person:
        STDOUT.say(f"{STDOUT.style('✓', fg='green')} {STDOUT.style(id, fg='cyan')}  {told}")
        STDOUT.next_commands([(typed("runs watch", id), "")])
    else:
        STDERR.say(f"{id} {told}")
        STDOUT.say(id)


def answering(run: str, asked: OpenQuestion) -> str:
    """Return the command that answers a question."""
    fits = ("--yes",) if asked.schema.get("type") == "boolean" else ("--answer", "JSON")
    return typed("approve", run, asked.key, options=fits)


async def _meant(engine: LocalEngine, run: str, key: str | None) -> OpenQuestion:
    from holdfast.engines.local.answering import open_keys, unknown
    from holdfast.model.waits import question_in

    rows = await open_keys(engine, run)
    if key is not None:
        row = next((row for row in rows if row.key == key), None)
        if row is None:
            raise await unknown(engine, run, key)
        return question_in(row)
    if len(rows) != 1:
        listed = "".join(f"\n  {row.key}  {clean(question_in(row).question)}" for row in rows)
        raise Refused(
            f"Run {run!r} has {count(len(rows), 'open question')}. "
            f"{'Name one of them:' if rows else 'There is nothing to answer.'}{listed}"
        )
    return question_in(rows[0])


def _value(asked: OpenQuestion, answer: str | None, verdict: bool | None) -> Any:
    from holdfast.model.shapes import wanted

    if answer is None:
        if verdict is None and asked.schema.get("type") != "boolean":
            raise Refused(
                f"{clean(asked.question)}\nGive {clean(wanted(asked.schema))}, as --answer JSON."
            )
        return verdict is not False
    where = f"answer to {asked.key}"
    try:
        return parse(answer, where=where)
    except json.JSONDecodeError as error:
        raise InvalidValue(
            where=where, path="--answer", problem=f"{answer!r:.60} is no JSON ({error})",
            hint="Quote a text: --answer '\"yes\"'.",
        ) from error  # fmt: skip


def _me() -> str:
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # an id without a name
        return ""


def _say_table(page: Page) -> None:
    rows = [
        [
            Cell(clean(each.run), CYAN),
            Cell(clean(each.key)),
            Cell(clean(", ".join(each.to))),
            Cell(ago(each.asked_at, page.now)),
            Cell("" if each.expires_at is None else ahead(each.expires_at, page.now)),
            Cell(clean(_in_a_line(each)), DIM),
        ]
        for each in page.questions
    ]
    for line in table(COLUMNS, rows):
        STDOUT.say(line)
    first = page.questions[0]
    STDOUT.say(
        STDOUT.dim(f"{count(len(rows), 'question')} · answer: {answering(first.run, first)}")
    )


def _in_a_line(asked: OpenQuestion) -> str:
    details = json.dumps(asked.details, ensure_ascii=False).encode()
    return asked.question if asked.details is None else f"{asked.question} {compact(details)}"


def _document(asked: OpenQuestion) -> dict[str, Any]:
    return {
        **asked._asdict(),
        "to": list(asked.to),
        "asked_at": iso(asked.asked_at),
        "expires_at": iso(asked.expires_at),
    }
