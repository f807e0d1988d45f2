"""`holdfast runs why`: no run is ever silently stuck.

Every open run is in exactly one bucket; this says which, in words, and what to type next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import click

from holdfast.cli import options
from holdfast.cli.code import versions_of
from holdfast.cli.documents import fields_of, say_json
from holdfast.cli.door import Door, found, store_in
from holdfast.cli.drawing import header, next_commands, place_of
from holdfast.cli.failures import owed_in
from holdfast.cli.proposing import typed, typed_of_store, typed_worker
from holdfast.cli.questions import answering
from holdfast.cli.runs import jobs
from holdfast.cli.runs.lining import Standing
from holdfast.cli.terminal import STDOUT, clean
from holdfast.cli.words import SECOND, ago, ahead, clock, count, moment, span
from holdfast.cli.workers import said_by
from holdfast.model.buckets import bucket_of
from holdfast.model.definitions import Definition, shown
from holdfast.model.events import since_start
from holdfast.model.failures import decode_failure
from holdfast.model.jobs import Job, JobFilter
from holdfast.model.limits import QueueState
from holdfast.model.queues import DEFAULT_QUEUE
from holdfast.model.run import CANCEL_REQUESTED, Loaded, Run
from holdfast.model.status import OPEN
from holdfast.model.waits import Wait, WaitFilter, question_in, token_in
from holdfast.model.workers import WorkerRow
from holdfast.ports.inspection import InspectedStore

Next = tuple[str, str]


class Case(NamedTuple):
    """Everything that is known about a run."""

    loaded: Loaded
    workers: tuple[WorkerRow, ...]
    now: int
    url: str
    definitions: tuple[Definition, ...]
    waits: tuple[Wait, ...] = ()
    """What it waits for from outside."""
    standing: Standing | None = None
    """Where it stands in line, if it does."""
    jobs: tuple[Job, ...] = ()
    queues: tuple[QueueState, ...] = ()

    @property
    def run(self) -> Run:
        """Its row."""
        return self.loaded.run

    @property
    def listening(self) -> list[WorkerRow]:
        """The workers whose process lives."""
        return [worker for worker in self.workers if worker.is_listening]

    @property
    def watch(self) -> Next:
        """The command that shows what happens."""
        return typed("runs watch", self.run.id), "see it go on"

    @property
    def work(self) -> Next:
        """The command that starts a worker."""
        queue = "" if self.run.queue == DEFAULT_QUEUE else clean(self.run.queue)
        return typed_worker(self.url, queue=queue), "a worker that knows the workflow"


class Told(NamedTuple):
    """Sentences, and what to type."""

    sentences: list[str]
    commands: list[Next]


@click.command("why")
@options.run_id
@options.as_json
@options.with_door
def command(door: Door, run: str, as_json: bool) -> None:
    """Say why a run is where it is, and what to type next."""

    async def read(engine: Any) -> Case:
        loaded = await engine.load(await found(engine, run))
        store = store_in(engine)
        known = await store.definitions(loaded.run.ns, loaded.run.workflow)
        waits = await store.waits(WaitFilter(loaded.run.ns, loaded.run.id))
        still = tuple(wait for wait in waits if wait.state == "open")
        queued = tuple(await store.jobs.find(JobFilter(loaded.run.ns, loaded.run.id)))
        workers, stands = tuple(await store.workers()), await _standing(store, loaded.run)
        limited = tuple(await store.queues(loaded.run.ns)) if queued else ()
        return Case(loaded, workers, store.now(), door.url, known, still, stands, queued, limited)

    case = door.enter(read)
    leases = {worker.id: worker.lease_until or 0 for worker in case.workers}
    bucket = bucket_of(case.run, leases, case.now)
    told = WORDS[bucket](case)
    told = _with_waits(case, told)
    told.sentences.extend(_messages(case))
    if as_json:
        commands = [command for command, _ in told.commands]
        say_json({"id": case.run.id, "bucket": bucket, "why": told.sentences, "next": commands})
        return
    _say(case, bucket, told)


async def _standing(store: InspectedStore, run: Run) -> Standing | None:
    """Return where a run stands in line, if it does."""
    ticket = None if run.queue == DEFAULT_QUEUE else await store.ticket(run.ns, run.id)
    if ticket is None or ticket.state != "waiting":
        return None
    states = await store.queues(run.ns)
    return next((Standing(ticket, s) for s in states if s.queue.name == run.queue), None)


def _say(case: Case, bucket: str, told: Told) -> None:
    if not STDOUT.is_person:
        STDOUT.say("\t".join([bucket, " ".join(told.sentences)]))
        for proposed, _ in told.commands:
            STDOUT.say(f"next\t{proposed}")
        return
    STDOUT.say(header(case.run, case.loaded.events, case.now))
    for sentence in told.sentences:
        STDOUT.say(f"  {sentence}")
    STDOUT.say()
    STDOUT.next_commands(told.commands)


def _with_waits(case: Case, told: Told) -> Told:
    """Say what is asked of whom, and which steps others complete, with what to type."""
    deferred = {event.key for event in case.loaded.events if event.kind == "step.deferred"}
    sentences, commands = list[str](), list[Next]()
    for wait in case.waits:
        since, until = ago(wait.asked_at, case.now), ""
        if wait.expires_at is not None:
            until = f", until {moment(wait.expires_at)} ({ahead(wait.expires_at, case.now)})"
        if wait.kind == "question":
            asked, to = question_in(wait), f" {', '.join(wait.to)}" if wait.to else ""
            sentences.append(clean(f"It asked{to} {since}{until}: {asked.question}"))
            commands.append((answering(case.run.id, asked), "answer it"))
        elif wait.key in deferred:
            sentences.append(clean(f"Step {wait.key} is completed from outside{until}."))
            commands.append((typed("steps complete", token_in(wait), "JSON"), "give its result"))
    sentences += jobs.told(case.jobs, case.workers, case.queues, case.now)
    commands += jobs.commands(case.jobs, case.workers, case.queues, case.url)
    return Told([*told.sentences, *sentences], [*commands, *told.commands])


def _messages(case: Case) -> list[str]:
    """Say what is on its way to the run."""
    run, told = case.run, list[str]()
    if run.cancel == CANCEL_REQUESTED:
        told.append("A cancel is on its way: it is the next thing the run sees.")
    unread = sum(message.n > run.inbox_read for message in case.loaded.mail)
    waiting = unread - (run.cancel == CANCEL_REQUESTED)
    if waiting > 0:
        told.append(f"{count(waiting, 'message')} waiting to be read.")
    if run.deadline is not None and run.status in OPEN:
        told.append(f"It times out at {moment(run.deadline)} ({ahead(run.deadline, case.now)}).")
    if run.strikes:
        told.append(f"It was lost with its worker {count(run.strikes, 'time')} in a row.")
    return told


def _claimable(case: Case) -> Told:
    since = case.now - (case.run.wake_at or case.now)
    waited = f", and has been for {span(since)}" if since > SECOND else ""
    place = place_of(case.run)
    sentences = [f"It is ready: a worker may take it now{waited}.", *_pinned(case)]
    if place:
        sentences.append(f"It waits on queue {place}.")
    if not case.listening:
        sentences.append("No worker is listening on this store.")
        return Told(sentences, [case.work])
    if since > 3 * SECOND:
        sentences.append(_missed_by(case))
        return Told(sentences, [case.work, (typed_of_store("doctor"), "who works on this store")])
    return Told(sentences, [case.watch])


def _missed_by(case: Case) -> str:
    """Say why those that listen may not have taken a run."""
    workers, queue = count(len(case.listening), "worker"), clean(case.run.queue)
    said = [said_by(worker) for worker in case.listening]
    if all(each["queues"] and case.run.queue not in each["queues"] for each in said):
        served = sorted({clean(queue) for each in said for queue in each["queues"]})
        return f"{workers} listening, and none serves queue {queue!r}: only {', '.join(served)}."
    return (
        f"{workers} listening; perhaps none knows workflow {clean(case.run.workflow)!r} or serves "
        f"queue {queue!r}, or all are full."
    )


def _pinned(case: Case) -> list[str]:
    """Say which version a worker must have, and which there were."""
    if not case.run.version:
        return []
    seen = versions_of(case.definitions)
    return [
        f"It was started on version {clean(case.run.version)!r} and stays with it.",
        *([f"Versions seen on this store, the latest first: {seen}."] if seen else []),
    ]


def _leased(case: Case) -> Told:
    owner = next((w for w in case.workers if w.id == case.run.owner), None)
    until = (owner.lease_until if owner else None) or case.now
    sentences = [
        f"Worker {case.run.owner} is on it; its lease runs until {clock(until)} "
        f"({ahead(until, case.now)})."
    ]
    if owner is None or not owner.is_listening:
        sentences.append("That worker's process is gone: the next worker that looks takes over.")
        return Told(sentences, [case.watch] if case.listening else [case.work])
    return Told(sentences, [case.watch])


def _orphaned(case: Case) -> Told:
    sentences = [
        f"Worker {case.run.owner} holds it, but its lease is over: "
        f"the next worker that looks takes the run over."
    ]
    if not case.listening:
        sentences.append("No worker is listening on this store.")
    return Told(sentences, [case.watch] if case.listening else [case.work])


def _due(case: Case) -> Told:
    if case.standing is not None:
        sentences = [*case.standing.told(case.now), *_pinned(case)]
        if not case.listening:
            sentences.append("No worker is listening on this store.")
            return Told(sentences, [case.work, *case.standing.commands])
        return Told(sentences, [*case.standing.commands, case.watch])
    at = case.run.wake_at or case.now
    when, messages = f"{moment(at)} ({ahead(at, case.now)})", _awaited(case.run)
    sentences = [f"It sleeps until {when} and goes on by itself."]
    if messages:
        sentences = [f"It waits for {messages}, but not beyond {when}."]
    sentences += _unhandled(case.run)
    retries = [part for part in _reasons(case.run) if part.startswith("attempt ")]
    sentences += [f"Then comes {part}." for part in retries]
    lacking = [part for part in _reasons(case.run) if part.startswith("secret ")]
    sentences += [f"A step cannot begin: {clean(part.partition(': `')[0])}." for part in lacking]
    supplies = [(part.rpartition(": `")[2].rstrip("`"), "give it") for part in lacking]
    return Told(sentences, [*supplies, *_message_commands(case.run), case.watch])


def _waiting(case: Case) -> Told:
    what = _awaited(case.run)
    if not what:
        asks = any(wait.kind == "question" for wait in case.waits)
        what = "an answer" if asks else "an outcome" if case.waits else "a message"
    sentences = [f"It has waited for {what} for {span(case.now - case.run.updated_at)}."]
    sentences.append("Nothing else wakes it; no worker holds it meanwhile.")
    sentences += _unhandled(case.run)
    cancel = (typed("runs cancel", case.run.id), "if it will never come")
    below = [(typed("runs why", id), "what it waits for") for id in _named(case.run, "child ")]
    return Told(sentences, [*_message_commands(case.run), *below[:3], cancel])


def _paused(case: Case) -> Told:
    marks = [event for event in case.loaded.events if event.kind == "run.paused"]
    reason = clean(str(fields_of(marks[-1].payload).get("reason", ""))) if marks else ""
    when = f" {ago(marks[-1].at, case.now)}" if marks else ""
    because = f": {reason}" if reason else ""
    return Told([f"It was paused{when}{because}."], next_commands(case.run))


def _blocked(case: Case) -> Told:
    sentences = [f"It is blocked: {clean(case.run.reason)}", "Nothing is lost; nothing more runs."]
    blocks = [event for event in case.loaded.events if event.kind == "run.blocked"]
    if blocks and blocks[-1].digest:
        started, found = since_start(case.loaded.events)[0].digest, blocks[-1].digest
        sentences.append(f"It was started on shape {shown(started)}, this code is {shown(found)}.")
        sentences.append("A worker with other code tries it again by itself, once.")
    return Told(sentences, next_commands(case.run))


def _quarantined(case: Case) -> Told:
    sentences = [f"It is set apart because it kept crashing its workers. {clean(case.run.reason)}"]
    commands = [
        (typed("runs retry", case.run.id), "once the crash is mended"),
        (typed("runs terminate", case.run.id), "give it up"),
    ]
    return Told(sentences, commands)


def _closed(case: Case) -> Told:
    run = case.run
    if run.status == "compensation_failed":
        return _owing(case)
    words = {"completed": "It completed", "failed": "It failed", "moved": "It moved on"}
    said = words.get(run.status, f"It was {run.status.replace('_', ' ')}")
    if run.status == "timed_out":
        said = "It timed out"
    why = run.reason or _why_cancelled(case)
    reason = f": {clean(why)}" if why else ""
    when = ago(run.closed_at or run.updated_at, case.now)
    told = f"{said} {when}, after {count(run.seq, 'event')}{reason}"
    stop = "" if told.endswith((".", "…")) else "."
    return Told([f"{told}{stop}"], next_commands(run))


def _why_cancelled(case: Case) -> str:
    """Return the reason that was given to the cancel that ended a run."""
    marks = [event for event in case.loaded.events if event.kind == "cancel.requested"]
    is_its_end = case.run.status == "cancelled" and marks
    return str(fields_of(marks[-1].payload).get("reason", "")) if is_its_end else ""


def _owing(case: Case) -> Told:
    """Say what is still to be undone, and how the run ends once it is."""
    run, failure = case.run, decode_failure(case.loaded.events[-1].payload)
    original = cast("dict[str, str]", failure.details.get("original", {}))
    status = original.get("status", "failed")
    cause = clean(f": {original['type']}: {original['message']}") if "type" in original else ""
    when = ago(run.closed_at or run.updated_at, case.now)
    sentences = [f"It could not undo all it had done, {when}, after {count(run.seq, 'event')}."]
    sentences += [f"Still owed: {clean(str(each))}." for each in owed_in(case.loaded.events)]
    sentences.append(f"Once that is done, it is {status.replace('_', ' ')}{cause.rstrip('.')}.")
    return Told(sentences, next_commands(run))


def _lost(case: Case) -> Told:
    sentences = [
        f"Its row fits no bucket (status {case.run.status}, owner {case.run.owner}, "
        f"due {case.run.wake_at}). That is a bug; please report it."
    ]
    return Told(sentences, [(typed_of_store("doctor"), "check the whole store")])


WORDS: Mapping[str, Callable[[Case], Told]] = {
    "claimable": _claimable,
    "leased": _leased,
    "orphaned": _orphaned,
    "due": _due,
    "waiting": _waiting,
    "paused": _paused,
    "blocked": _blocked,
    "quarantined": _quarantined,
    "closed": _closed,
    "lost": _lost,
}


def _reasons(run: Run) -> list[str]:
    return [clean(part) for part in run.reason.split("; ") if part]


def _named(run: Run, kind: str) -> list[str]:
    return [part.removeprefix(kind) for part in _reasons(run) if part.startswith(kind)]


def _awaited(run: Run) -> str:
    """Name the signals, updates, children and jobs it waits for."""
    named = ("signal ", "update ", "child ", "job ")
    kinds = {kind: " or ".join(_named(run, kind)) for kind in named}
    return " or ".join(f"{kind}{names}" for kind, names in kinds.items() if names)


def _unhandled(run: Run) -> list[str]:
    """Say which updates wait for their handler."""
    names = _named(run, "a handler for update ")
    return [f"Update {name} waits until its body registers a handler for it." for name in names]


def _message_commands(run: Run) -> list[Next]:
    signals = [
        typed("runs signal", run.id, name, options=("-d", "JSON"))
        for name in _named(run, "signal ")
    ]
    updates = [typed("runs update", run.id, name, "JSON") for name in _named(run, "update ")]
    return [(command, "send it") for command in signals + updates]
