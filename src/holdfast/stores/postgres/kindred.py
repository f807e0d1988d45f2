"""Turns that reach other runs: children that are created, messages, what follows from a close.

Such turns go together in a transaction of few statements, however many they are. All rows that may
change are locked first, in the order of their ids, as rounds do. The children of children that
close are found before they are locked; should another come in between, the server notices that two
writers wait for each other, and the transaction is tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

import asyncpg

from holdfast.model.departing import is_same, told, treated
from holdfast.model.events import Event
from holdfast.model.family import Kin, Link
from holdfast.model.run import Run
from holdfast.model.status import CLOSED
from holdfast.model.writes import (
    Advance,
    Create,
    Depart,
    Free,
    Notice,
    Outcome,
    Put,
    Remember,
    Send,
    Write,
)
from holdfast.stores.notices import notices_of
from holdfast.stores.postgres import caching, limits
from holdfast.stores.postgres.connection import Ask
from holdfast.stores.postgres.failures import BadWrite, Conflict
from holdfast.stores.postgres.rounds import Round
from holdfast.stores.postgres.statements import queries

SQL = queries()
CLOSED_LIST = sorted(CLOSED)

NOBODY: Mapping[str, Run] = MappingProxyType({})

T = TypeVar("T")
Apply = Callable[[Ask, Sequence[Write], "int | None"], Awaitable[list[Outcome]]]


def reaching(batch: Sequence[Write]) -> Advance | None:
    """Return the one write of a batch if it is a turn that reaches other runs."""
    write = batch[0] if len(batch) == 1 else None
    return write if type(write) is Advance and write.sends else None


async def write_turns(
    ask: Ask, turns: Sequence[Advance], now: int | None, apply: Apply
) -> list[Outcome]:
    """Write turns of several runs of one namespace, with all they send."""
    ns = turns[0].ns
    sends = [send for turn in turns for send in turn.sends]
    creates, departs = _of(Create, sends), _of(Depart, sends)
    reached = [turn.run for turn in turns] + [create.id for create in creates]
    reached += [put.run for put in _of(Put, sends)]
    await lock(
        ask, ns, reached,
        closes=[each.run for each in departs if each.is_parent],
        tells=[each.run for each in departs if each.is_child],
    )  # fmt: skip
    there = await _there(ask, ns, creates)
    links = await _links(ask, ns, there)
    taken = [_taken(turn, there, links) for turn in turns]
    free = [turn for turn, id in zip(turns, taken, strict=True) if not id]
    outcomes = iter(await _advance(ask, free, now, apply))
    found = [
        Outcome(False, await _row(ask, ns, turn.run), taken=id) if id else next(outcomes)
        for turn, id in zip(turns, taken, strict=True)
    ]
    applied = [turn for turn, outcome in zip(turns, found, strict=True) if outcome.applied]
    sends = [send for turn in applied for send in turn.sends]
    heard = await carry_out(ask, ns, sends, now, apply, there, many=len(turns) > 1)
    if heard:
        # Whoever is told first tells all of it: notices are hints.
        n = next(n for n, outcome in enumerate(found) if outcome.applied)
        found[n] = found[n]._replace(heard=tuple(heard))
    return found


async def lock(
    ask: Ask, ns: str, runs: Iterable[str], *, closes: list[str], tells: list[str] | None = None
) -> None:
    """Lock these runs and all that their close may reach."""
    ids = {*runs}
    ids.update(link.parent for link in (await _links(ask, ns, tells or closes)).values())
    while closes:  # level by level: a recursion would be planned as a walk through all links
        rows = await ask(SQL.open_children, ns=ns, parents=closes, closed=CLOSED_LIST)
        closes = [run for run, *link in rows if Link(*link).policy != "abandon" and run not in ids]
        ids.update(closes)
    await ask(SQL.lock_runs, ns=ns, ids=sorted(ids))


async def depart(
    ask: Ask, departs: Sequence[Depart], now: int | None, apply: Apply, *, many: bool = False
) -> list[Notice]:
    """Tell the parents of runs that close, and treat their children."""
    ns = departs[0].ns
    links = await _links(ask, ns, [each.run for each in departs if each.is_child])
    puts = [told(links[each.run], each) for each in departs if each.run in links]
    heard = await _post(ask, ns, puts, now, many=many)
    by_parent = {each.run: each for each in departs if each.is_parent}
    if by_parent:
        rows = await ask(SQL.open_children, ns=ns, parents=list(by_parent), closed=CLOSED_LIST)
        for run, *link in rows:
            child = Kin(run, Link(*link))
            write = treated(child, by_parent[child.link.parent])
            if write is not None:
                heard += notices_of([write], await apply(ask, [write], now))
    for schedule in sorted({each.schedule for each in departs if each.schedule}):
        rows = await ask(SQL.rouse_schedule, ns=ns, id=schedule, now=now)
        heard += [Notice(ns, "", "schedule") for (is_due,) in rows if is_due]
    return heard


async def carry_out(  # noqa: PLR0913 - each by its name
    ask: Ask,
    ns: str,
    sends: Sequence[Send],
    now: int | None,
    apply: Apply,
    there: Mapping[str, Run] = NOBODY,
    *,
    many: bool = False,
) -> list[Notice]:
    """Do what turns send; `there` are those children that are to be created and exist."""
    if not sends:
        return []
    creates, puts, departs = _of(Create, sends), _of(Put, sends), _of(Depart, sends)
    heard = await _create(ask, [each for each in creates if each.id not in there], now)
    links = [{"ns": ns, "run": each.id, **each.link._asdict()} for each in creates if each.link]
    if links:
        await ask.many(SQL.tie_child, links)
    for create in creates:
        if create.link is not None and create.id in there and there[create.id].status in CLOSED:
            puts.append(told(create.link, await _departed(ask, there[create.id])))
    heard += await _post(ask, ns, [put for put in puts if not put.cancels], now, many=many)
    for put in puts:
        if put.cancels:
            heard += notices_of([put], await apply(ask, [put], now))
    heard += await depart(ask, departs, now, apply, many=many) if departs else []
    await caching.remember(ask, [each.kept for each in _of(Remember, sends)])
    frees = [free.run for free in _of(Free, sends)]
    return heard + (await limits.free(ask, ns, frees) if frees else [])


async def _advance(ask: Ask, turns: list[Advance], now: int | None, apply: Apply) -> list[Outcome]:
    """Write the turns themselves: many in the quick way, which fails if one of them is refused."""
    bare = [turn._replace(sends=()) for turn in turns]
    together = Round()
    if len(bare) > 1 and together.takes(bare) and together.is_quick:
        with _all_or_none():
            return together.outcomes(await ask.run(*together.question(now, quick=True)))
    return await apply(ask, bare, now)


@contextmanager
def _all_or_none() -> Generator[None]:
    """Say of a quick round that failed that its writes have to be tried one by one."""
    try:
        yield
    except (asyncpg.InvalidTextRepresentationError, asyncpg.UniqueViolationError) as error:
        raise BadWrite("Nothing was written: one of them was refused.") from error


async def _create(ask: Ask, creates: list[Create], now: int | None) -> list[Notice]:
    """Create children whose ids were free a moment ago, in the order of their ids."""
    if not creates:
        return []
    together, ordered = Round(), sorted(creates, key=lambda create: create.id)
    together.takes(ordered)
    try:
        outcomes = together.outcomes(await ask.run(*together.question(now, quick=True)))
    except (asyncpg.InvalidTextRepresentationError, asyncpg.UniqueViolationError) as error:
        raise Conflict("another start took the id of a child") from error
    return notices_of(ordered, outcomes)


async def _post(
    ask: Ask, ns: str, puts: Sequence[Put], now: int | None, *, many: bool
) -> list[Notice]:
    """Put messages. Those of many turns are new as a rule: if not, each turn is tried alone."""
    if not puts:
        return []
    messages = [put.message for put in puts]
    with _all_or_none():
        rows = await ask(
            SQL.post_messages, now=now, closed=CLOSED_LIST, are_new=many,
            places=list(range(len(puts))), spaces=[ns] * len(puts), runs=[put.run for put in puts],
            ids=[message.id for message in messages], kinds=[message.kind for message in messages],
            names=[message.name for message in messages],
            payloads=[message.payload for message in messages],
            ats=[message.at for message in messages],
        )  # fmt: skip
    return [Notice(ns, row[0], "mail") for row in rows]


async def _there(ask: Ask, ns: str, creates: list[Create]) -> dict[str, Run]:
    """Return those runs whose ids new children would have."""
    if not creates:
        return {}
    rows = await ask(SQL.runs_of_ids, ns=ns, ids=[create.id for create in creates])
    return {run.id: run for run in map(Run._make, rows)}


async def _links(ask: Ask, ns: str, runs: Iterable[str]) -> dict[str, Link]:
    asked = list(runs)
    rows = await ask(SQL.link_of_run, ns=ns, runs=asked) if asked else []
    return {run: Link(*link) for run, *link in rows}


def _taken(turn: Advance, there: dict[str, Run], links: dict[str, Link]) -> str:
    for create in _of(Create, turn.sends):
        found = there.get(create.id)
        if found is not None and not is_same(found, links.get(create.id), create):
            return create.id
    return ""


async def _row(ask: Ask, ns: str, run: str) -> Run | None:
    rows = await ask(SQL.run, ns=ns, run=run)
    return Run._make(rows[0]) if rows else None


async def _departed(ask: Ask, run: Run) -> Depart:
    rows = await ask(SQL.last_living_event, ns=run.ns, run=run.id)
    return Depart(run.ns, run.id, run.generation, Event._make(rows[0]))


def _of(kind: type[T], sends: Iterable[object]) -> list[T]:
    return [send for send in sends if isinstance(send, kind)]
