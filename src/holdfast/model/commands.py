"""Commands: typed requests to change something. All of them go through `kernel.dispatch`.

Times (`at`) are the host's estimate of the store's clock; the kernel has no clock of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.model.annotations import Annotations
from holdfast.model.events import Event
from holdfast.model.exports import Export
from holdfast.model.family import Link
from holdfast.model.jobs import JobRef
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.limits import Limits, Place
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE
from holdfast.model.run import Message
from holdfast.model.schedules import How, Scheduled
from holdfast.model.secrets import Sealed
from holdfast.model.status import RunStatus
from holdfast.model.travel import Edit
from holdfast.model.waits import Waits
from holdfast.model.writes import Replied, Send


class StartRun(NamedTuple):
    """Start a run, or find the one that was started with the same id, workflow and input."""

    ns: str
    id: str
    workflow: str
    version: str
    input: bytes
    input_digest: bytes
    at: int
    wake_at: int = 0
    owner: str | None = None
    labels: Labels = NO_LABELS
    shape: bytes | None = None
    """What the code looked like that started it: kept as the digest of the first event."""
    timeout: int | None = None
    """How long the run may take, from `at`."""
    defines: bool = False
    """Whether to keep that shape among the definitions, too."""
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    message: Message | None = None
    """What it finds in its inbox when it begins."""
    link: Link | None = None
    """What ties a child to its parent."""
    depth: int = 0
    """How many runs stand above a child."""
    place: Place | None = None
    """What it says of its place in the line of its queue."""
    slot: str = ""
    """The key that says which slot of which schedule it is for (`slot_key`)."""
    secrets: tuple[Sealed, ...] = ()
    """What its steps need, encrypted."""


class ImportRun(NamedTuple):
    """Take over a run that was exported elsewhere, as a run that does nothing by itself."""

    ns: str
    id: str
    export: Export
    at: int


class SignalRun(NamedTuple):
    """Put a signal into the inbox of an open run, once for each `id`."""

    ns: str
    run: str
    name: str
    payload: bytes
    id: str
    at: int


class UpdateRun(NamedTuple):
    """Put an update into the inbox of an open run, once for each `id`."""

    ns: str
    run: str
    name: str
    payload: bytes
    id: str
    at: int


class SupplySecrets(NamedTuple):
    """Tell an open run that secrets are here: encrypted, or in the memory of its worker."""

    ns: str
    run: str
    names: tuple[str, ...]
    id: str
    at: int
    secrets: tuple[Sealed, ...] = ()


class AnswerRun(NamedTuple):
    """Settle what a run waits for from outside, if it is still open under this secret."""

    ns: str
    run: str
    key: str
    secret: str
    payload: bytes
    at: int
    by: str = ""


class CancelRun(NamedTuple):
    """Ask a run to stop: its body gets CancelledError before anything else is recorded."""

    ns: str
    run: str
    id: str
    at: int
    reason: str = ""


class TerminateRun(NamedTuple):
    """End a run now, without running its body."""

    ns: str
    run: str
    at: int
    reason: str = ""


class PauseRun(NamedTuple):
    """Stop starting new steps; those that run finish and are recorded."""

    ns: str
    run: str
    id: str
    at: int
    reason: str = ""


class ResumeRun(NamedTuple):
    """Let a paused run go on."""

    ns: str
    run: str
    at: int


class RetryRun(NamedTuple):
    """Let a failed, blocked or quarantined run try again. `history` is what it holds now."""

    ns: str
    run: str
    status: RunStatus
    history: tuple[Event, ...]
    at: int
    reason: str = ""
    deadline: int | None = None
    shape: bytes | None = None
    """The shape of the code in whose name a blocked run tries again by itself."""


class RerunRun(NamedTuple):
    """Take a run back to where it asked for `key`, or to its start. `history` is what it holds.

    A number instead of a key is that of the last event that is to count.
    """

    ns: str
    run: str
    generation: int
    history: tuple[Event, ...]
    at: int
    key: str | int | None = None
    keep_keys: bool = False
    """Whether its steps keep the idempotency keys they had."""
    reason: str = ""
    deadline: int | None = None
    id: str = ""
    """What a repeat of this rerun is known by."""
    exactly: bool = False
    """Whether nothing stays that was recorded later, though it was asked for before."""


class ForkRun(NamedTuple):
    """Start a run that goes on from a point in the history of another, which is untouched.

    The point is the number of an event, or the key of an answer; without one, the last that is
    edited, or all there is but the end. With an `input` it is the start.
    """

    ns: str
    id: str
    origin: Export
    """Everything of the other run, as it is now."""
    at: int
    point: int | str | None = None
    results: Mapping[str, bytes] = {}
    """What steps gave in this history, by their keys."""
    input: bytes | None = None
    states: tuple[Edit, ...] = ()
    """What the body finds otherwise at places that it comes to in this history."""
    digest: bytes = b""
    """Of all that makes this fork what it is."""
    reason: str = ""


class ClaimRuns(NamedTuple):
    """Take over runs that can go on."""

    ns: str
    worker: str
    workflows: tuple[str, ...]
    limit: int
    lease: int
    suspects: int = 1


class CommitTurn(NamedTuple):
    """Record one turn of a run that `owner` holds under `epoch`."""

    ns: str
    run: str
    owner: str
    epoch: int
    seq: int
    events: tuple[Event, ...]
    at: int
    status: RunStatus = "running"
    reason: str = ""
    wake_at: int | None = None
    inbox_read: int | None = None
    inbox_seq: int | None = None
    due: int = 0
    """The latest due time among the turn's fired timers and its passed deadline."""
    supersedes: tuple[int, ...] = ()
    """Answers from before a retry that the body no longer asks for."""
    superseded_by: int = 0
    """The seq of the `run.reopened` they gave way to."""
    known_inbox: int | None = None
    """The `inbox_seq` this host saw last: a hint that spares the store a look."""
    annotations: Annotations | None = None
    """What was said up to this turn."""
    continues: bool = False
    """The turn ends with the start of the run's next generation, and what goes over to it."""
    replies: tuple[Replied, ...] = ()
    """What the turn says to messages in the run's inbox, once to each."""
    sends: tuple[Send, ...] = ()
    """What the turn does to other runs, in the same commit."""
    waits: Waits | None = None
    """What the run waits for from outside now, and no longer."""


class AnnotateRun(NamedTuple):
    """Keep what the steps of a held run say while they work."""

    ns: str
    run: str
    owner: str
    epoch: int
    annotations: Annotations
    moves_on: bool = False
    """A heartbeat brings news: details that differ from the last ones."""


class EndJob(NamedTuple):
    """Hand in the outcome of a job, if it is held as `job` says and its run still waits for it.

    Without an `outcome` the job has ended, and its outcome will come by its token.
    """

    ns: str
    run: str
    job: JobRef
    secret: str
    outcome: bytes | None
    told: bytes
    at: int
    by: str = ""


class ReportJob(NamedTuple):
    """Keep what a held job says, or give it back for others to take from `back_at` on."""

    ns: str
    run: str
    job: JobRef
    moves_on: bool = False
    back_at: int | None = None


class RenewLease(NamedTuple):
    """Say that this worker lives."""

    worker: str
    lease: int
    address: str = ""
    info: str = ""


class ReapLeases(NamedTuple):
    """Give the runs and jobs of a dead or frozen worker back to the others."""

    worker: str
    known_dead: bool = False


class RetireWorker(NamedTuple):
    """Take a worker that stopped in good order off the list."""

    worker: str


class QuarantineRun(NamedTuple):
    """Set a run apart that keeps killing its workers."""

    ns: str
    run: str
    at: int
    reason: str
    strikes: int = 0
    """How many it must still have: what gave it new credit meanwhile wins."""


class DefineWorkflow(NamedTuple):
    """Remember the shape of a workflow's code."""

    ns: str
    workflow: str
    version: str
    shape: bytes


class ExpireRun(NamedTuple):
    """End a run that has not begun in the time it had for that."""

    ns: str
    run: str
    at: int
    queue: str


class ChangeQueue(NamedTuple):
    """Give a queue limits, or pause or resume it; what is None stays as it is."""

    ns: str
    name: str
    limits: Limits | None = None
    paused: bool | None = None


class PruneRuns(NamedTuple):
    """Forget closed runs, oldest first."""

    ns: str
    before: int
    limit: int = 1_000
    every: int = 0
    """Do nothing if somebody forgot runs of this namespace less than this long ago."""


class ForgetResults(NamedTuple):
    """Forget results that are kept for later calls of a step; without one, those that expired."""

    ns: str
    step: str = ""
    key: str = ""
    limit: int = 500


class CreateSchedule(NamedTuple):
    """Keep a new schedule, unless its id is taken."""

    row: Scheduled


class FireSchedule(NamedTuple):
    """Settle the slots of a schedule that are due, as far as it is due."""

    row: Scheduled
    """As it was read. The same in all that follow: who changed it since wins."""
    at: int
    open_runs: frozenset[str]
    """Those of its `running` that are open."""
    how: How | None = None
    """What the code at hand says of its workflow."""


class UpdateSchedule(NamedTuple):
    """Give a schedule other times and rules, or other work. What was due before is settled."""

    row: Scheduled
    at: int
    open_runs: frozenset[str]
    spec: str
    workflow: str
    input: bytes
    how: How
    declared: str = ""


class PauseSchedule(NamedTuple):
    """Stop the clock of a schedule."""

    row: Scheduled
    at: int
    note: str = ""


class ResumeSchedule(NamedTuple):
    """Let the clock of a schedule go on; what it may catch up, it does."""

    row: Scheduled
    at: int
    open_runs: frozenset[str]
    note: str = ""


class TriggerSchedule(NamedTuple):
    """Start a run of a schedule now, whatever else runs."""

    row: Scheduled
    at: int
    id: str


class BackfillSchedule(NamedTuple):
    """Start the slots from `start` to `end` that no run was started for."""

    row: Scheduled
    at: int
    open_runs: frozenset[str]
    start: int
    end: int
    settled: frozenset[int] = frozenset()
    """Slots that have a run already."""


class DeleteSchedule(NamedTuple):
    """Forget a schedule. Its runs stay."""

    row: Scheduled


Command = (
    StartRun | ImportRun | SignalRun | UpdateRun | AnswerRun | CancelRun | TerminateRun | PauseRun
    | ResumeRun | RetryRun | RerunRun | ForkRun | CommitTurn | AnnotateRun | EndJob | ReportJob
    | RenewLease | ReapLeases | RetireWorker | QuarantineRun | PruneRuns | DefineWorkflow
    | ExpireRun | ChangeQueue | SupplySecrets | ForgetResults
    | CreateSchedule | FireSchedule | UpdateSchedule | PauseSchedule | ResumeSchedule
    | TriggerSchedule | BackfillSchedule | DeleteSchedule
)  # fmt: skip
