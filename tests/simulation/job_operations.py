"""Random operations around jobs: runs ask for them, workers do them, queues have limits."""

import json

from holdfast.model.annotations import Annotations, LogLine, Progress
from holdfast.model.commands import AnswerRun, CommitTurn, EndJob, ReportJob, StartRun
from holdfast.model.events import Event
from holdfast.model.jobs import Job, JobClaim, JobRef, Took
from holdfast.model.limits import Place
from holdfast.model.queues import PRIORITIES
from holdfast.model.run import Message, Run
from holdfast.model.waits import Asked, Wait, Waits
from holdfast.model.writes import Free
from holdfast.testing.clock import SECOND
from tests.simulation.agreeing import Operation
from tests.simulation.operations import IDS, LEASE, NAMESPACES, WORKERS, Draws, Operations

QUEUES = ("default", "a", "b")
KEYS = ("", "k", "l")
STEPS = ("work", "else")
ASKED = Asked("the outcome of a step", None, {}).encoded()
MOST_OF_A_RUN = 4
"""Jobs that a run waits for at once."""


class JobOperations(Operations):
    """Draws what runs and workers do with jobs."""

    known_dead = 0.6

    def _weighed(self) -> Draws:
        return {
            "start": (self._start, 8),
            "claim": (self._claim, 6),
            "ask": (self._ask, 16),
            "take": (self._take, 20),
            "end": (self._hand_in, 10),
            "back": (self._give_back, 7),
            "say": (self._say, 8),
            "complete": (self._complete, 2),
            "read": (self._take_note, 8),
            "drop": (self._drop, 6),
            "close": (self._close, 5),
            "pause": (self._pause, 4),
            "resume": (self._resume, 7),
            "terminate": (self._terminate, 3),
            "rerun": (self._rerun, 3),
            "renew": (self._renew, 3),
            "reap": (self._reap, 8),
            "retire": (self._retire, 1),
            "prune": (self._prune, 1),
            "manage": (self._manage, 5),
        }

    # --- the runs

    def _start(self) -> Operation:
        ns, id = self.chance.choice(NAMESPACES), self.chance.choice(IDS[:4])
        owner, queue = self.chance.choice((None, *WORKERS)), self.chance.choice(QUEUES)
        place = None  # nobody stands in line at the default queue
        if queue != "default":
            place = self.chance.choice((None, Place(self.chance.choice(KEYS))))
        return StartRun(
            ns, id, "w", "", b"1", b"1", self.dump.now, owner=owner, queue=queue,
            priority=self.chance.choice(PRIORITIES), place=place,
        )  # fmt: skip

    def _ask(self) -> Operation:
        """Ask for a job, or for a new attempt at one."""
        run = self._run("running")
        if run is None:
            return self._start()
        former = self._waits(run)
        if former and (len(former) >= MOST_OF_A_RUN or self.chance.random() < 0.15):
            wait = self.chance.choice(former)
            rows = [wait._replace(attempt=wait.attempt + 1, secret=self._unique("secret"))]
        else:
            rows = [self._wait(run) for _ in range(self.chance.choice((1, 1, 2)))]
        waits = Waits(tuple(rows), jobs=tuple(self._job(run, row) for row in rows))
        turn = self._turn(run, self._answer(run), waits=waits)
        if self.chance.random() < 0.3:
            turn = turn._replace(status="waiting", reason="waits", inbox_seq=run.inbox_read)
        return self._flawed(run, turn)

    def _wait(self, run: Run) -> Wait:
        key = self._unique(f"{self.chance.choice(STEPS)}#")
        return Wait(
            run.ns, run.id, key, "job", run.generation, 1, self._unique("secret"), "open",
            self.dump.now, None, (), ASKED,
        )  # fmt: skip

    def _job(self, run: Run, row: Wait) -> Job:
        now, chance = self.dump.now, self.chance
        begins = now + chance.choice((-SECOND, 0, 0, SECOND, 3 * SECOND))
        queue, priority = chance.choice(("default", *QUEUES)), chance.choice((1, 3, 3))
        return Job(
            row.ns, row.run, row.key, row.generation, row.attempt, row.secret,
            row.key.partition("#")[0], queue, priority, b"[1]", b"{}", now, begins,
            chance.choice((None, None, now + 5 * SECOND)), strikes=chance.choice((0, 0, 0, 2)),
            queue_key=chance.choice(KEYS),
        )  # fmt: skip

    def _drop(self) -> Operation:
        """Wait for something no longer."""
        run = self._waiting_for_jobs()
        if run is None:
            return self._start()
        row = self.chance.choice(self._waits(run))
        waits = Waits(overs=((row.key, "no longer"),), drops=(row.key,))
        note = self._answer(run, "note.decided")
        turn = self._turn(run, note, waits=waits, inbox_seq=run.inbox_seq)
        return self._flawed(run, turn._replace(annotations=self._forgets(run, row.key)))

    def _take_note(self) -> Operation:
        """Record all messages that have come."""
        held = [r for r in self.dump.runs if r.status == "running" and r.has_mail]
        if not held:
            return self._ask()
        return self._flawed(held[0], self._read(self.chance.choice(held)))

    def _read(self, run: Run) -> CommitTurn:
        unread = [m for m in self.dump.inbox[run.ns, run.id] if m.n > run.inbox_read]
        mail = sorted(unread, key=lambda message: message.n)
        events = [self._recorded(run, message) for message in mail]
        is_paused = any(message.kind == "pause" for message in mail)
        done = {event.key for event in events if event.kind == "step.completed"}
        left = tuple(job.key for job in self._jobs_of(run) if job.key in done)
        return self._turn(
            run, *events, status="paused" if is_paused else "running", inbox_read=run.inbox_seq,
            wake_at=run.deadline if is_paused else None, waits=Waits(drops=left) if left else None,
            annotations=self._forgets(run, *done) if done else None,
        )  # fmt: skip

    def _forgets(self, run: Run, *keys: str) -> Annotations | None:
        """Return what deletes the heartbeats of these keys, or of all."""
        beats = {beat.key for beat in self.dump.progress.get((run.ns, run.id), ())}
        gone = sorted(beats.intersection(keys) if keys else beats)
        return Annotations(forgets=tuple(gone)) if gone else None

    def _recorded(self, run: Run, message: Message) -> Event:
        if message.kind == "pause":
            return Event("run.paused", 0, message.id, message.payload)
        key = message.name
        rows = [w for w in self.dump.waits if (w.ns, w.run, w.key) == (run.ns, run.id, key)]
        row = rows[0] if rows and rows[0].generation == run.generation else None
        if row is not None and message.id == f"deferred/{row.secret}" and row.state == "open":
            told = json.dumps({"attempt": row.attempt}).encode()
            return Event("step.deferred", 0, key, told, asked_seq=1)
        if row is not None and message.id == f"answer/{row.secret}":
            return Event("step.completed", 0, key, row.answer, asked_seq=1)
        return Event("answer.unused", 0, key, b"{}")

    def _close(self) -> Operation:
        run = self._run("running")
        if run is None:
            return self._start()
        rows = self._waits(run)
        waits = Waits(
            overs=tuple((row.key, "the run is completed") for row in rows),
            drops=tuple(job.key for job in self._jobs_of(run)),
        )
        closing = Event("run.completed", 0, payload=b"1")
        turn = self._turn(
            run, closing, status="completed", inbox_seq=run.inbox_seq, waits=waits,
            annotations=self._forgets(run),
        )  # fmt: skip
        ticketed = any((t.ns, t.run) == (run.ns, run.id) for t in self.dump.tickets)
        return turn._replace(sends=(Free(run.ns, run.id),)) if ticketed else turn

    def _flawed(self, run: Run, turn: CommitTurn) -> CommitTurn:
        """Return the turn as somebody would make it who lost the run, now and then."""
        return turn._replace(epoch=run.epoch - 1) if self.chance.random() < 0.08 else turn

    def _waiting_for_jobs(self) -> Run | None:
        held = [r for r in self.dump.runs if r.status == "running" and self._waits(r)]
        return self.chance.choice(held) if held else None

    def _waits(self, run: Run) -> list[Wait]:
        return [w for w in self.dump.waits if (w.ns, w.run, w.state) == (run.ns, run.id, "open")]

    def _jobs_of(self, run: Run) -> list[Job]:
        return [job for job in self.dump.jobs if (job.ns, job.run) == (run.ns, run.id)]

    # --- the workers

    def _take(self) -> Operation:
        chance = self.chance
        return JobClaim(
            chance.choice(NAMESPACES), chance.choice(WORKERS), chance.choice((STEPS, ("work",))),
            chance.choice((0, 1, 2, 10)), LEASE,
            chance.choice((None, None, None, ("a",), ("b", "default"), ("nobody's",))),
            chance.choice((0, 1, 1, 2)),
        )  # fmt: skip

    def _picked(self) -> Job | None:
        """Return a job: one that somebody has, more often than not."""
        taken = [job for job in self.dump.jobs if job.owner]
        pool = taken if taken and self.chance.random() < 0.85 else self.dump.jobs
        return self.chance.choice(pool) if pool else None

    def _ref(self, job: Job, said: Annotations | None = None) -> JobRef:
        """Return a job as its holder names it, or somebody who lost it."""
        owner, epoch = job.owner, job.epoch
        flaw = self.chance.random()
        if flaw < 0.15:
            epoch -= 1
        elif flaw < 0.35:
            owner = self.chance.choice((None, *WORKERS))
        return JobRef(job.key, owner, epoch, said)

    def _hand_in(self) -> Operation:
        job = self._picked()
        if job is None:
            return self._ask()
        outcome = self.chance.choice((b"7", b"7", b"7", b'!{"final":true}', None))
        said = self._words(job) if self.chance.random() < 0.3 else None
        return EndJob(
            job.ns, job.run, self._ref(job, said), job.secret, outcome, Took(5).encoded(),
            self.dump.now, job.owner or "",
        )  # fmt: skip

    def _give_back(self) -> Operation:
        job = self._picked()
        if job is None:
            return self._ask()
        at = self.dump.now + self.chance.choice((0, 2 * SECOND))
        return ReportJob(job.ns, job.run, self._ref(job), back_at=at)

    def _say(self) -> Operation:
        job = self._picked()
        if job is None:
            return self._ask()
        moves_on = self.chance.random() < 0.5
        return ReportJob(job.ns, job.run, self._ref(job, self._words(job)), moves_on)

    def _words(self, job: Job) -> Annotations:
        now = self.dump.now
        line = LogLine(now, 20, "shop", self._unique("m"), job.key, job.attempt)
        line = line._replace(generation=job.generation)
        return Annotations((line,), (Progress(job.key, job.generation, 1, now, b"1", job.epoch),))

    def _complete(self) -> Operation:
        """Settle what a run waits for by its token; the job stays until the run has read it."""
        rows = [wait for wait in self.dump.waits if wait.state == "open"]
        if not rows:
            return self._ask()
        row = self.chance.choice(rows)
        secret = row.secret if self.chance.random() < 0.8 else "guessed"
        return AnswerRun(row.ns, row.run, row.key, secret, b"9", self.dump.now, "ada")
