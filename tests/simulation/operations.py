"""Random operations on a store, drawn from a seed: right ones, stale ones and plain wrong ones."""

from collections.abc import Callable
from random import Random

from holdfast.model.annotations import Annotations, LogLine, Progress
from holdfast.model.commands import (
    AnnotateRun,
    CancelRun,
    ChangeQueue,
    CommitTurn,
    DefineWorkflow,
    ExpireRun,
    ForkRun,
    PauseRun,
    PruneRuns,
    QuarantineRun,
    ReapLeases,
    RenewLease,
    RerunRun,
    ResumeRun,
    RetireWorker,
    RetryRun,
    SignalRun,
    StartRun,
    SupplySecrets,
    TerminateRun,
    UpdateRun,
)
from holdfast.model.dump import Dump
from holdfast.model.events import CLASS_OF, Event, EventKind, Failure, since_start
from holdfast.model.exports import Export
from holdfast.model.failures import encode_failure
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.limits import Limits, Place
from holdfast.model.queues import PRIORITIES
from holdfast.model.run import Message, MessageState, Run
from holdfast.model.secrets import Sealed
from holdfast.model.status import CLOSED
from holdfast.model.writes import Claim, Free, Replied
from holdfast.testing.clock import SECOND
from tests.simulation.agreeing import Operation

NAMESPACES = ("default", "other")
IDS = tuple("abcde")
FORKS = tuple("xyz")
WORKERS = ("A", "B", "C")
WORKFLOWS = ("v", "w")
VERSIONS = ("", "1", "2")
QUEUES = ("default", "a", "b")
CLAIMS = ("v", "w", "w/", "w/1", "w/2", "v/2")
LEASE = 10 * SECOND
LABELS = Labels(("new", "vip"), {"amount": 12, "is_paid": True, "name": "Ada", "share": 0.5})

Draws = dict[str, tuple[Callable[[], Operation], int]]


class Operations:
    """Draws operations that fit, or nearly fit, what the store holds now."""

    known_dead = 0.2
    """How often a worker is known to be dead when its lease is reaped."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self._count = 0
        self.dump = Dump(0)
        self._draws = self._weighed()

    def _weighed(self) -> Draws:
        """Return how each kind is drawn, and how often beside the others."""
        return {
            "start": (self._start, 8),
            "signal": (self._signal, 6),
            "update": (self._update, 5),
            "supply": (self._supply, 3),
            "cancel": (self._cancel, 3),
            "pause": (self._pause, 3),
            "terminate": (self._terminate, 2),
            "resume": (self._resume, 4),
            "quarantine": (self._quarantine, 3),
            "retry": (self._retry, 3),
            "rerun": (self._rerun, 2),
            "fork": (self._fork, 3),
            "commit": (self._commit, 20),
            "annotate": (self._annotate, 6),
            "renew": (self._renew, 3),
            "reap": (self._reap, 2),
            "retire": (self._retire, 1),
            "prune": (self._prune, 1),
            "claim": (self._claim, 8),
            "define": (self._define, 1),
            "manage": (self._manage, 3),
            "expire": (self._expire, 2),
        }

    @property
    def kinds(self) -> list[str]:
        return list(self._draws)

    def draw(self, dump: Dump) -> tuple[str, Operation]:
        """Return the next operation, with its name."""
        self.dump = dump
        weights = [weight for _, weight in self._draws.values()]
        [kind] = self.chance.choices(self.kinds, weights)
        return kind, self._draws[kind][0]()

    def _unique(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _place(self) -> tuple[str, str]:
        return self.chance.choice(NAMESPACES), self.chance.choice(IDS)

    def _run(self, *statuses: str) -> Run | None:
        fitting = [run for run in self.dump.runs if not statuses or run.status in statuses]
        # Now and then one that does not fit.
        pool = fitting if fitting and self.chance.random() < 0.8 else self.dump.runs
        return self.chance.choice(pool) if pool else None

    def _target(self, *statuses: str) -> tuple[str, str]:
        run = self._run(*statuses)
        if run is None or self.chance.random() < 0.1:
            return self.chance.choice(NAMESPACES), "nobody"
        return run.ns, run.id

    def _start(self) -> Operation:
        ns, id = self._place()
        owner = self.chance.choice((None, None, *WORKERS))
        later = self.chance.choice((0, 0, self.dump.now + 3 * SECOND))
        body = b"1" if self.chance.random() < 0.8 else b"2"
        workflow = WORKFLOWS[IDS.index(id) % 2] if self.chance.random() < 0.9 else "v"
        version = self.chance.choice(VERSIONS)
        labels = self.chance.choice((NO_LABELS, LABELS))
        timeout = self.chance.choice((None, None, 0, 5 * SECOND))
        start = StartRun(ns, id, workflow, version, body, body, self.dump.now, later, owner, labels)
        queue, priority = self.chance.choice(QUEUES), self.chance.choice(PRIORITIES)
        start = start._replace(timeout=timeout, queue=queue, priority=priority)
        if queue != "default" and self.chance.random() < 0.5:
            stay = self.chance.choice((None, None, 5 * SECOND))
            start = start._replace(place=Place(self.chance.choice(("", "k", "l", "m")), stay))
        if self.chance.random() < 0.8:
            return start
        kind = self.chance.choice(("signal", "update"))
        first = Message(self._unique("m"), kind, "go", b"1", self.dump.now)
        return start._replace(message=first)

    def _signal(self) -> Operation:
        ns, run = self._target()
        known = [message.id for message in self.dump.inbox.get((ns, run), ())]
        id = self.chance.choice((self._unique("s"), *known[-2:]))
        return SignalRun(ns, run, "go", b"\x00", id, self.dump.now)

    def _update(self) -> Operation:
        ns, run = self._target()
        known = [message.id for message in self.dump.inbox.get((ns, run), ())]
        id = self.chance.choice((self._unique("u"), *known[-2:]))
        return UpdateRun(ns, run, "add", b"1", id, self.dump.now)

    def _supply(self) -> Operation:
        ns, run = self._target()
        id = self.chance.choice((self._unique("k"), "k1"))
        sealed = Sealed(self.chance.choice("ab"), "key", self._unique("sealed").encode())
        secrets = self.chance.choice(((sealed,), ()))
        return SupplySecrets(ns, run, (sealed.name,), id, self.dump.now, secrets)

    def _cancel(self) -> Operation:
        return CancelRun(*self._target(), self._unique("c"), self.dump.now)

    def _pause(self) -> Operation:
        id = self.chance.choice(("p1", "p2", "p3"))
        return PauseRun(*self._target(), id, self.dump.now)

    def _terminate(self) -> Operation:
        return TerminateRun(*self._target(), self.dump.now, "tired")

    def _resume(self) -> Operation:
        return ResumeRun(*self._target("paused"), self.dump.now)

    def _quarantine(self) -> Operation:
        return QuarantineRun(
            *self._target("pending", "waiting"),
            self.dump.now,
            "it kills",
            self.chance.choice((0, 0, 1)),
        )

    def _retry(self) -> Operation:
        run = self._run("failed", "blocked", "quarantined")
        if run is None:
            return self._start()
        events = self.dump.events[run.ns, run.id]
        living = tuple(event for event in events if event.superseded_by is None)
        stale = living[:-1] if self.chance.random() < 0.1 and run.status == "blocked" else living
        return RetryRun(run.ns, run.id, run.status, stale, self.dump.now, deadline=run.deadline)

    def _rerun(self) -> Operation:
        run = self._run()
        if run is None:
            return self._start()
        events = self.dump.events[run.ns, run.id]
        living = tuple(event for event in events if event.superseded_by is None)
        stale = living[:-1] if self.chance.random() < 0.1 and len(living) > 1 else living
        answers = [e.key for e in since_start(stale) if CLASS_OF[e.kind] == "answer"]
        key = self.chance.choice((None, *answers))
        return RerunRun(
            run.ns, run.id, run.generation, stale, self.dump.now, key, deadline=run.deadline
        )

    def _fork(self) -> Operation:
        run = self._run()
        if run is None:
            return self._start()
        key = (run.ns, run.id)
        if self.chance.random() < 0.1:
            run = run._replace(created_at=run.created_at - 1)  # of another run that had this id
        events = self.dump.events[key]
        inbox = tuple(sorted(self.dump.inbox[key], key=lambda message: message.n))
        origin = Export(run, events, inbox, self.dump.labels.get(key, NO_LABELS))
        point = self.chance.choice((None, self.chance.randrange(len(events)) + 1))
        living = since_start([event for event in events if not event.superseded_by])
        steps = [event.key for event in living if event.kind == "step.completed"]
        results = {self.chance.choice(steps): b"9"} if steps and point is None else {}
        id = self.chance.choice((*IDS, *FORKS))
        digest = self.chance.choice((b"1", b"1", b"2"))
        return ForkRun(
            run.ns, id, origin, self.dump.now, None if results else point, results, digest=digest
        )

    def _renew(self) -> Operation:
        lease = self.chance.choice((LEASE, LEASE, LEASE // 5))
        return RenewLease(self.chance.choice(WORKERS), lease)

    def _reap(self) -> Operation:
        return ReapLeases(self.chance.choice(WORKERS), self.chance.random() < self.known_dead)

    def _retire(self) -> Operation:
        return RetireWorker(self.chance.choice(WORKERS))

    def _prune(self) -> Operation:
        before = self.dump.now - self.chance.choice((0, 5, 50)) * SECOND
        limit, every = self.chance.choice((1, 2, 10)), self.chance.choice((0, 0, 20 * SECOND))
        return PruneRuns(self.chance.choice(NAMESPACES), before, limit, every)

    def _claim(self) -> Operation:
        some = tuple(sorted(self.chance.sample(CLAIMS, 3)))
        workflows = self.chance.choice((WORKFLOWS, WORKFLOWS, ("w",), (), some, some))
        return Claim(
            self.chance.choice(NAMESPACES), self.chance.choice(WORKERS), workflows,
            self.chance.choice((0, 1, 3, 10)), LEASE, self.chance.choice((0, 1, 2)),
            self.chance.choice((2, 3, 5)),
            queues=self.chance.choice((None, None, ("a",), ("b", "default"), ("nobody's",))),
        )  # fmt: skip

    def _define(self) -> Operation:
        shape = self.chance.choice((b"a", b"b"))
        ns, workflow = self.chance.choice(NAMESPACES), self.chance.choice(WORKFLOWS)
        return DefineWorkflow(ns, workflow, self.chance.choice(VERSIONS), shape)

    def _manage(self) -> Operation:
        ns, name = self.chance.choice(NAMESPACES), self.chance.choice(("a", "b"))
        if self.chance.random() < 0.4:
            return ChangeQueue(ns, name, paused=self.chance.random() < 0.3)
        few = (None, None, 1, 2, 3)
        limits = Limits(*(self.chance.choice(few) for _ in range(3)))
        if self.chance.random() < 0.3:
            limits = limits._replace(rate_count=self.chance.choice((1, 2)), rate_per=3 * SECOND)
        return ChangeQueue(ns, name, limits)

    def _expire(self) -> Operation:
        now = self.dump.now
        due = [t for t in self.dump.tickets if t.expires_at is not None and t.expires_at <= now]
        if not due:
            return ExpireRun(*self._target("running"), now, "a")
        ticket = self.chance.choice(due)
        return ExpireRun(ticket.ns, ticket.run, now, ticket.queue)

    # --- turns, as a host makes them

    def _commit(self) -> Operation:
        run = self._run("running")
        if run is None:
            return self._start()
        makers = (self._step, self._park, self._read, self._fire, self._end, self._decide)
        turn = self.chance.choice(makers)(run)
        if self.chance.random() < 0.08:
            turn = self._continue(run)
        if turn.status in CLOSED and any(
            (t.ns, t.run) == (run.ns, run.id) for t in self.dump.tickets
        ):
            turn = turn._replace(sends=(*turn.sends, Free(run.ns, run.id)))
        flaw = self.chance.random()
        if flaw < 0.05:
            return turn._replace(epoch=turn.epoch - 1)
        if flaw < 0.10:
            return turn._replace(seq=turn.seq - 1)
        if flaw < 0.15 and turn.status == "running":
            return turn._replace(inbox_seq=run.inbox_seq - 1)
        return turn

    def _annotate(self) -> Operation:
        run = self._run("running")
        if run is None:
            return self._start()
        epoch = run.epoch - (self.chance.random() < 0.1)
        moves_on = self.chance.random() < 0.5
        return AnnotateRun(run.ns, run.id, run.owner or "", epoch, self._said(run), moves_on)

    def _said(self, run: Run) -> Annotations:
        now = self.dump.now
        lines = [
            LogLine(now - n, 20, "shop", self._unique("m"), generation=run.generation)
            for n in range(self._few())
        ]
        keys = self.chance.sample(("p#1", "p#2", "p#3"), 2)
        beat = Progress(keys[0], run.generation, 1, now, b"1", run.epoch)
        return Annotations(tuple(lines), (beat,), tuple(keys[1:]))

    def _turn(self, run: Run, *events: Event, **fields) -> CommitTurn:
        last = self.dump.events[run.ns, run.id][-1].at
        at = max(self.dump.now, last)
        numbered = tuple(
            event._replace(at=at, seq=run.seq + n, epoch=run.epoch, generation=run.generation)
            for n, event in enumerate(events, start=1)
        )
        owner = run.owner or ""
        turn = CommitTurn(run.ns, run.id, owner, run.epoch, run.seq, numbered, at)
        return turn._replace(**fields)

    def _answer(self, run: Run, kind: EventKind = "step.completed") -> Event:
        asked = self.chance.randint(1, run.seq)
        return Event(kind, 0, self._unique("k#"), b"{}", asked_seq=asked)

    def _continue(self, run: Run) -> CommitTurn:
        """Take up to where the inbox was read, and let the signals of this turn go over."""
        turn, signals = self._read(run), list[Event]()
        if turn.status == "running":
            signals = [event for event in turn.events if event.kind == "signal.received"]
        else:
            turn = self._step(run)
        start = run.seq + len(turn.events) + 1
        begun = [Event("run.continued", turn.at, payload=b"{}"), *signals]
        over = tuple(
            event._replace(
                at=turn.at, seq=start + n, epoch=run.epoch, generation=run.generation + 1
            )
            for n, event in enumerate(begun)
        )
        return turn._replace(
            events=(*turn.events, *over), continues=True, superseded_by=start,
            supersedes=tuple(event.seq for event in signals),
        )  # fmt: skip

    def _step(self, run: Run) -> CommitTurn:
        kinds: tuple[EventKind, ...] = ("step.completed", "step.retrying", "note.decided")
        events = [self._answer(run, self.chance.choice(kinds)) for _ in range(self._few())]
        wake_at = self.chance.choice((None, None, self.dump.now + SECOND))
        said = self._said(run) if self.chance.random() < 0.3 else None
        return self._turn(run, *events, wake_at=wake_at, annotations=said)

    def _few(self) -> int:
        return self.chance.choice((0, 1, 1, 1, 3))

    def _park(self, run: Run) -> CommitTurn:
        if run.has_mail and self.chance.random() < 0.5:
            return self._read(run)._replace(status="waiting", inbox_seq=run.inbox_seq)
        known = run.inbox_read if run.has_mail else run.inbox_seq
        wake_at = self.chance.choice((None, self.dump.now, self.dump.now + 3 * SECOND))
        return self._turn(run, status="waiting", wake_at=wake_at, inbox_seq=known, reason="waits")

    def _read(self, run: Run) -> CommitTurn:
        inbox = self.dump.inbox[run.ns, run.id]
        mail = sorted((m for m in inbox if m.n > run.inbox_read), key=lambda message: message.n)
        events = [
            _recorded(message) for message in mail if message.kind not in ("update", "secret")
        ]
        paused = any(message.kind == "pause" for message in mail)
        status = "paused" if paused else "running"
        wake_at = run.deadline if paused else None
        return self._turn(run, *events, status=status, inbox_read=run.inbox_seq, wake_at=wake_at)

    def _decide(self, run: Run) -> CommitTurn:
        """Decide on an update that was read, or end one that was accepted."""
        inbox = self.dump.inbox[run.ns, run.id]
        updates = [m for m in inbox if m.kind == "update" and m.n <= run.inbox_read]
        told: MessageState = self.chance.choice(("completed", "failed"))
        for message in updates:
            key, asked = f"add/{message.id}", self.chance.randint(1, run.seq)
            ended = Event(f"update.{told}", 0, key, b"{}", asked)  # type: ignore[arg-type]
            if message.state == "accepted":
                return self._turn(run, ended, replies=(Replied(message.id, told, b"{}"),))
            if message.state == "" and self.chance.random() < 0.3:
                return self._turn(run, replies=(Replied(message.id, "rejected", b"{}"),))
            if message.state == "":
                accepted = Event("update.accepted", 0, key, message.payload)
                if self.chance.random() < 0.5:
                    return self._turn(run, accepted, replies=(Replied(message.id, "accepted"),))
                replies = (Replied(message.id, told, b"{}"),)
                return self._turn(run, accepted, ended, replies=replies)
        return self._step(run)

    def _fire(self, run: Run) -> CommitTurn:
        due = self.dump.now + self.chance.choice((-SECOND, 0, SECOND))
        fired = Event("timer.fired", 0, self._unique("t#"), str(due).encode())
        return self._turn(run, fired, due=due)

    def _end(self, run: Run) -> CommitTurn:
        status = self.chance.choice(("completed", "failed", "failed", "blocked", "cancelled"))
        failure = self._answer(run, "step.failed")
        payload = encode_failure(Failure("E", "m", cause=(failure.key,)))
        closing = Event(f"run.{status}", 0, payload=payload)  # type: ignore[arg-type]
        beats = self.dump.progress.get((run.ns, run.id), ())
        said = Annotations(forgets=tuple(beat.key for beat in beats)) if beats else None
        turn = self._turn(run, failure, closing, status=status, annotations=said)
        return turn if status in CLOSED else turn._replace(reason="mismatch")


def _recorded(message: Message) -> Event:
    if message.kind == "cancel":
        return Event("cancel.requested", 0, message.id, message.payload)
    if message.kind == "pause":
        return Event("run.paused", 0, message.id, message.payload)
    return Event("signal.received", 0, f"{message.name}/{message.id}", message.payload)
