"""What the steps and the body of a held run say, on its way into the store.

    line, heartbeat -> Voice (any thread) -> Notebook (one a run) -> the run's next commit,
                                                                     or the Scribe, if sooner

Nothing here costs a run that says nothing: a session has no notebook until something is said.
Lines of a step and heartbeats are kept until the store has them; what a body said in a turn is
kept or thrown away with that turn, since whoever feeds the turn again hears it again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.kernel import dispatch
from holdfast.model.annotations import MAX_LINES, Annotations, LogLine, Progress
from holdfast.model.commands import AnnotateRun, CommitTurn, ReportJob
from holdfast.model.status import CLOSED
from holdfast.ports.store import Store

if TYPE_CHECKING:
    from holdfast.hosts.worker.held import Held
    from holdfast.hosts.worker.voice import Voice

log = logging.getLogger("holdfast.worker")

NOTHING = Annotations()
Said = AnnotateRun | ReportJob
"""What the scribe writes."""


class Notebook:
    """The notes of one session. `known` are the heartbeats that the store has, or may have."""

    __slots__ = (
        "_crowded", "_last", "_lines", "_moves_on", "_scribe", "_sent", "_turn", "_unwritten",
        "known", "session", "writing",
    )  # fmt: skip

    def __init__(self, session: Held, scribe: Scribe) -> None:
        self.session, self._scribe = session, scribe
        self.known: dict[str, Progress] = {}
        self.writing: asyncio.Future[None] | None = None
        self._lines: list[LogLine] = []
        self._turn: list[LogLine] = []
        self._unwritten: dict[str, Progress] = {}
        self._crowded: list[Voice] = []
        self._sent: Annotations | None = None
        self._moves_on = False
        self._last = 0

    # --- what is said

    def add(self, line: LogLine) -> None:
        """Take a line of a step."""
        self._lines.append(self._stamped(line))
        self._scribe.wake(self)

    def beat(self, key: str, attempt: int, details: bytes | None) -> None:
        """Take a heartbeat. Without details it leaves those of the one before."""
        before = self.known.get(key)
        if details is None and before is not None:
            details = before.details
        elif details is not None and (before is None or details != before.details):
            self._moves_on = True
        run = self.session.run
        now = self._scribe.now()
        beat = Progress(key, run.generation, attempt, now, details, run.epoch)
        self.known[key] = self._unwritten[key] = beat
        self._scribe.wake(self)

    def crowd(self, voice: Voice) -> None:
        """Remember an attempt that says more than is kept."""
        self._crowded.append(voice)

    def begin(self, lines: Iterable[LogLine], at: int) -> None:
        """Take what the body said when it was started, before any commit of this run's holders.

        The start may be replayed, and the same lines said again: they have the same places.
        """
        taken = {line.at for line in self._lines}
        places = enumerate(lines, start=at)
        fresh = [self._stamped(line, place) for place, line in places if place not in taken]
        self._lines += fresh
        self._scribe.wake(self)

    def hear(self, lines: Iterable[LogLine]) -> None:
        """Take what the body said in the turn that is about to be committed."""
        self._turn += map(self._stamped, lines)

    def expect(self, key: str) -> None:
        """Take note that a job has left heartbeats of this step in the store."""
        self.known.setdefault(key, Progress(key, self.session.run.generation, 0, 0))

    def know(self, stored: Iterable[Progress]) -> None:
        """Take the heartbeats that the store holds; those not written yet are newer."""
        self.known = {beat.key: beat for beat in stored} | self._unwritten

    @property
    def free_from(self) -> int:
        """The first place in the log after all that was said."""
        return self._last + 1

    def _stamped(self, line: LogLine, at: int = 0) -> LogLine:
        run = self.session.run
        place = at or max(self._last + 1, self._scribe.now())
        self._last = max(self._last, place)
        return line._replace(at=place, generation=run.generation, epoch=run.epoch)

    # --- on its way, with a commit of the run

    async def onto(self, command: CommitTurn, dropped: Sequence[str]) -> CommitTurn:
        """Add all that was said to a commit, once the scribe is not writing it already."""
        while self.writing is not None:
            await asyncio.wait((self.writing,))
        self._count_unsaid()
        over = {e.key for e in command.events if e.kind in ("step.completed", "step.failed")}
        is_over = command.status in CLOSED or command.continues
        over.update(self.known if is_over else dropped)
        beats = tuple(beat for key, beat in self._unwritten.items() if key not in over)
        forgets = tuple(key for key in self.known if key in over)
        self._sent = Annotations((*self._lines, *self._turn), beats, forgets)
        return command if self._sent == NOTHING else command._replace(annotations=self._sent)

    def kept(self) -> None:
        """The commit is stored, with what was added to it."""
        sent, self._sent = self._sent or NOTHING, None
        del self._lines[: len(sent.lines) - len(self._turn)]
        self._turn.clear()
        for key in sent.forgets:
            del self.known[key]
            self._unwritten.pop(key, None)
        self._written(sent)

    def forget_turn(self) -> None:
        """The turn was thrown away; what steps said meanwhile was not."""
        self._sent = None
        self._turn.clear()

    def _written(self, sent: Annotations) -> None:
        for beat in sent.progress:
            if self._unwritten.get(beat.key) is beat:
                del self._unwritten[beat.key]
        self._moves_on = self._moves_on and bool(self._unwritten)

    def _count_unsaid(self) -> None:
        """Say how much was left out of attempts that have ended."""
        running = self.session.running
        for voice in [each for each in self._crowded if running.get(each.key) is not each.step]:
            self._crowded.remove(voice)
            said = f"{voice.unsaid:,} more lines were left out: an attempt keeps {MAX_LINES:,}"
            line = LogLine(0, logging.WARNING, "holdfast", said, voice.key, voice.step.number)
            self._lines.append(self._stamped(line))

    # --- on its way, by the scribe

    @property
    def is_ready(self) -> bool:
        """Tell whether the scribe may write: no commit of the run has it in hand."""
        return self._sent is None

    def command(self) -> Said | None:
        """Return what steps said so far, if anything, to be written without a turn."""
        run = self.session.run
        if self.session.state != "held" or not (self._lines or self._unwritten):
            return None
        said = Annotations(tuple(self._lines), tuple(self._unwritten.values()))
        return AnnotateRun(run.ns, run.id, self._scribe.worker, run.epoch, said, self._moves_on)

    def written(self, command: Said, is_ours: bool) -> None:
        """The scribe has written it, or found that the run is no longer ours."""
        if is_ours:
            said = annotations_of(command)
            del self._lines[: len(said.lines)]
            self._written(said)
        else:
            self.session.must_reread()


class Scribe:
    """Writes the notebooks of a worker, `every` so many seconds, all in one batch."""

    def __init__(self, worker: str, store: Store, every: float) -> None:
        self.worker, self.now = worker, store.now
        self._store, self._every = store, every
        self._waiting: dict[Notebook, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._context = contextvars.copy_context()

    def wake(self, notebook: Notebook) -> None:
        """Have this notebook written soon, unless a commit of its run is sooner."""
        self._waiting[notebook] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            # In the worker's context, not in that of the step that speaks.
            self._timer = loop.call_later(self._every, self._begin, context=self._context)

    async def stop(self) -> None:
        """Write no more; what the runs' last commits did not take is lost."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        commands: dict[Notebook, Said] = {}
        for notebook in waiting:
            if not notebook.is_ready or notebook.writing is not None:
                self.wake(notebook)
            elif (command := notebook.command()) is not None:
                commands[notebook] = command
        if not commands:
            return
        done = asyncio.get_running_loop().create_future()
        for notebook in commands:
            notebook.writing = done
        try:
            await self._carry_out(commands)
        finally:
            for notebook in commands:
                notebook.writing = None
            done.set_result(None)

    async def _carry_out(self, commands: dict[Notebook, Said]) -> None:
        writes = [dispatch.decide(command) for command in commands.values()]
        try:
            outcomes = await self._store.write(writes)
        except StoreError as error:
            log.warning("logs and heartbeats of %d runs must wait: %s", len(commands), error)
            for notebook in commands:
                self.wake(notebook)
            return
        for (notebook, command), outcome in zip(commands.items(), outcomes, strict=True):
            notebook.written(command, dispatch.read(command, outcome))


def annotations_of(command: Said) -> Annotations:
    """Return what is to be kept of a run, or of a job."""
    if isinstance(command, ReportJob):
        return command.job.annotations or NOTHING
    return command.annotations
