"""Guarded writes: what the kernel decides and a store carries out, each whole or not at all.

A store knows no rules. Each write names the state it was decided on (its guard) and all that
changes if that state still holds; the store checks the guard inside the writing statement and
answers with an `Outcome`. Many writes may share one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from holdfast.model.annotations import Annotations
from holdfast.model.cache import CachedResult
from holdfast.model.events import Event
from holdfast.model.exports import Export
from holdfast.model.family import Link
from holdfast.model.filters import Term
from holdfast.model.jobs import JobRef
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.limits import Limits, Place, Ticket
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE
from holdfast.model.run import Message, MessageState, Run
from holdfast.model.schedules import Scheduled
from holdfast.model.secrets import Sealed
from holdfast.model.status import CLOSED, RunStatus
from holdfast.model.waits import Answer, Waits


class Define(NamedTuple):
    """Keep the shape of a workflow's code, or note that it was seen again."""

    ns: str
    workflow: str
    version: str
    shape: bytes


class Create(NamedTuple):
    """Insert a run and its first event, unless the id is taken.

    With an `owner` the run is born claimed: running, under epoch 1. That is refused, without a row,
    if its queue is managed. There it joins the line instead, if it is due.
    """

    ns: str
    id: str
    workflow: str
    version: str
    input_digest: bytes
    event: Event
    wake_at: int
    owner: str | None = None
    labels: Labels = NO_LABELS
    deadline: int | None = None
    defines: Define | None = None
    """The shape of the code that started it, kept with it; nothing is kept of a start refused."""
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    message: Message | None = None
    """The first message in its inbox: with it from the first moment, or not at all."""
    link: Link | None = None
    """What ties a child to its parent, in whose commit it is created."""
    place: Place | None = None
    """Its key in the line of a managed queue, and how long it may stand there."""
    secrets: tuple[Sealed, ...] = ()
    """What its steps need, encrypted; kept until it closes."""
    also: tuple[bytes, ...] = ()
    """What the digest of the same input may be in a row that is there: hidden by another key."""


class Replied(NamedTuple):
    """What the run said to a message in its inbox: kept with the message."""

    message: str
    state: MessageState
    payload: bytes | None = None


class Origin(NamedTuple):
    """The run whose history a fork shares: up to event `at`, as of when it was `length` long."""

    run: str
    created_at: int
    at: int
    length: int


class Import(NamedTuple):
    """Insert a whole run as it stands in `export`, unless the id is taken.

    With an `origin` it is a fork: the events up to `at` are the origin's, but for those of that
    number that `export` brings. Guard: the origin is there. With an `at` of 0 nothing is shared.
    """

    export: Export
    origin: Origin | None = None


class Advance(NamedTuple):
    """Append a turn's events under the lease it was made with.

    Guards: the run is running in the hands of `owner` under `epoch`, its history is `seq` long, no
    cancel waits unless `takes_cancel`, the inbox is where it was if `inbox_seq` is given (parking),
    and the store's clock has passed `not_before` (timers). The owner is asked for beside the epoch
    because the id of a forgotten run is free, and the epochs of the next one begin anew.

    A run that stays running keeps its owner, and has no `reason` and no `wake_at`, whatever is
    given; any other has no owner. Strikes are cleared if the turn `progresses`. If it `continues`,
    the generation goes up, and from its `run.continued` on is what `load` gives `SINCE_START`;
    it may supersede events of its own.

    `sends` are what the turn does to other runs: carried out if the turn is, in their order. The
    turn is refused if one of them would create a child whose id is `taken` by other work.

    All but the last two fields are those of `CommitTurn`, in its order.
    """

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
    not_before: int = 0
    supersedes: tuple[int, ...] = ()
    superseded_by: int = 0
    known_inbox: int | None = None
    annotations: Annotations | None = None
    continues: bool = False
    replies: tuple[Replied, ...] = ()
    sends: tuple[Send, ...] = ()
    waits: Waits | None = None
    takes_cancel: bool = False
    progresses: bool = True


class Put(NamedTuple):
    """Put a message into the inbox of an open run and wake it, once for each message id.

    A run whose status is `unless` refuses it. A cancel puts a run that is set aside back into the
    queue, and clears its strikes. What it `answers` must be open, and is kept with it. The job that
    it `ends` must be held as it says, and is gone with it. `secrets` are
    kept with it until the run closes; one of the same name is replaced.
    """

    ns: str
    run: str
    message: Message
    cancels: bool = False
    unless: RunStatus | None = None
    answers: Answer | None = None
    ends: JobRef | None = None
    secrets: tuple[Sealed, ...] = ()


class Rewind(NamedTuple):
    """What a run that goes back in its history does beside losing events.

    Messages go back into its inbox, before those it has not read; its heartbeats are forgotten.
    """

    messages: tuple[str, ...] = ()
    """The ids of messages that are unread again, in the order in which they came."""
    forgets_cancel: bool = False
    """Whether the cancel it took no longer counts."""


class Move(NamedTuple):
    """Move a run from one of `origins` to `status`, whoever holds it.

    The epoch goes up, so that a former holder is refused. `supersedes` are the seqs of events
    that stop counting; `seq`, if given, is how long the history must be; `strikes` is how many the
    run must have at least. A run that `reopens` gets `deadline`; others keep theirs. One that is
    closed by it, or goes back, loses its heartbeats. One that is closed departs from its parent and
    its children. `sends` are carried out with it, as those of a turn. What it waits for from
    outside is over if it is closed or reopened: whoever goes on with it asks anew.
    """

    ns: str
    run: str
    origins: frozenset[RunStatus]
    status: RunStatus
    event: Event
    reason: str = ""
    wake_at: int | None = None
    seq: int | None = None
    supersedes: tuple[int, ...] = ()
    reopens: bool = False
    deadline: int | None = None
    strikes: int = 0
    rewind: Rewind | None = None
    sends: tuple[Send, ...] = ()

    @property
    def ends_waits(self) -> str:
        """Why nobody outside can settle anything of this run any more; empty if they can."""
        if self.status in CLOSED:
            return f"the run was {self.status}"
        return "the run was reopened, and asks anew" if self.reopens else ""


class Depart(NamedTuple):
    """Tell the parent of a run that `event` closes, and do with its children what they agreed on.

    Only among the `sends` of the turn that closes the run. A parent that is closed hears nothing.
    The `schedule` that started it is looked at again, if slots of it may wait for its runs.
    Open children are terminated, asked to cancel, or left alone, each as its link says.
    Who knows that there is no parent, or that there are no children, spares the store a look.
    """

    ns: str
    run: str
    generation: int
    event: Event
    is_child: bool = True
    is_parent: bool = True
    schedule: str = ""


class Reschedule(NamedTuple):
    """Put `row` in the place of the row of a schedule, with what follows for runs; or delete it.

    Guards: the row's revision is `revision`, or there is no such row if that is None; and the
    store's clock has passed `not_before`. `sends` are carried out in their order. A run whose id
    exists is not created again, one that is closed is not told: that refuses nothing.
    """

    ns: str
    id: str
    revision: int | None
    row: Scheduled | None
    sends: tuple[Create | Put | Move, ...] = ()
    not_before: int = 0


class Free(NamedTuple):
    """Give back what a run that closes has at its queue: its slot, or its place in line.

    Only among the `sends` of the turn that closes the run. A `Move` that closes does it too.
    """

    ns: str
    run: str


class Remember(NamedTuple):
    """Keep the result of a step for later calls, in the place of what was kept under its key.

    Only among the `sends` of the turn that records it.
    """

    ns: str
    kept: CachedResult


class Forget(NamedTuple):
    """Delete results that are kept for later calls, at most `limit`.

    Those of a `step`, or those under one `key` of it, by version and key. Without a step: those
    that are expired by the store's clock, the first that expired first.
    """

    ns: str
    limit: int
    step: str = ""
    key: str = ""


class SetQueue(NamedTuple):
    """Give a queue a row, or change it; what is None stays as it is.

    Refused if nothing would change.
    """

    ns: str
    name: str
    limits: Limits | None = None
    paused: bool | None = None


class Annotate(NamedTuple):
    """Keep what the steps and the body of a held run say, beside its history.

    Guard: the run is running in the hands of `owner` under `epoch`. `moves_on` says that a
    heartbeat brings news, so that the run is no longer suspected of killing its workers.

    Its fields are those of `AnnotateRun`, in its order.
    """

    ns: str
    run: str
    owner: str
    epoch: int
    annotations: Annotations
    moves_on: bool = False


class Report(NamedTuple):
    """Keep what a job that somebody holds says, or give it back for others to take.

    Guard: it is held as `job` says. `moves_on` says that a heartbeat brings news. One that is given
    back can be taken from `back_at` on.
    """

    ns: str
    run: str
    job: JobRef
    moves_on: bool = False
    back_at: int | None = None


class Renew(NamedTuple):
    """Extend (or begin) the lease of a worker process."""

    worker: str
    lease: int
    address: str = ""
    info: str = ""


class Reap(NamedTuple):
    """Take every run and job from a worker whose lease is over, or that is `known_dead`."""

    worker: str
    known_dead: bool = False


class Retire(NamedTuple):
    """Remove the row of a worker that holds no run and no job."""

    worker: str


class Prune(NamedTuple):
    """Delete closed runs older than `before`, oldest first, at most `limit`.

    Guard: the last that deleted something in this namespace is at least `every` ago.
    """

    ns: str
    before: int
    limit: int
    every: int = 0


Send = Create | Put | Depart | Free | Remember
"""What a turn may do beside its run: to others, to queues, for later calls."""

Write = (
    Create | Import | Advance | Put | Move | Annotate | Report | Renew | Reap | Retire | Prune
    | Define | SetQueue | Reschedule | Forget
)  # fmt: skip


class Claim(NamedTuple):
    """Ask for runs that can go on now, of the workflows this worker knows."""

    ns: str
    worker: str
    workflows: tuple[str, ...]
    """`name` stands for runs of every version, `name/version` for those of one. Runs that were
    started without a version are `name/`."""
    limit: int
    lease: int
    suspects: int = 1
    """How many runs that crashed their worker twice or more may be among them."""
    strikes: int = 1 << 30
    """Runs that crashed so many workers in a row are not taken but named."""
    reaps: tuple[Reap, ...] = ()
    """Workers to take runs from first, in the same commit."""
    info: str = ""
    """What the worker's row says of it."""
    eager: bool = False
    """There was a hint that runs wait: try to take them without looking first, also from workers
    that the store knows to be dead."""
    hints: tuple[str, ...] = ()
    """All runs that there was a hint of. A store that is asked eagerly may take just these: what
    else waits is found by the next look."""
    queues: tuple[str, ...] | None = None
    """The queues it serves, each named once; None stands for all there are."""
    schedules: bool = False
    """Whether to look, too, when the next schedule of these workflows is due."""


class Claimed(NamedTuple):
    """What a claim found."""

    runs: tuple[Run, ...] = ()
    mail: tuple[str, ...] = ()
    """Runs this worker holds that have unread messages."""
    held: frozenset[str] | None = None
    """Runs this worker holds by the store's word. None if the store only took runs and looked at
    nothing else: claim none, to look."""
    dead: tuple[tuple[str, bool], ...] = ()
    """Workers that hold runs and whose lease is over (False) or that are known dead (True)."""
    unregistered: tuple[str, ...] = ()
    """Workflows with claimable runs that this worker does not know: `name`, or `name/version`."""
    unserved: tuple[str, ...] = ()
    """Queues that this worker does not serve, with runs that have been due for long."""
    next_wake_at: int | None = None
    first_events: Mapping[str, Event] = MappingProxyType({})
    """The history of those `runs` that have just been started and hold nothing else."""
    reaped: tuple[tuple[str, int], ...] = ()
    """Workers that runs were taken from in this commit, and how many from each."""
    convicts: tuple[Run, ...] = ()
    """Runs that were not taken because of their strikes."""
    ticketed: frozenset[str] = frozenset()
    """Those `runs` that have a ticket: whoever closes them gives it back."""
    overdue: tuple[Ticket, ...] = ()
    """Tickets of runs that have not begun, and may no longer."""
    schedule_at: int | None = None
    """When the next schedule is due, if the claim asked, and there was a look."""


class Outcome(NamedTuple):
    """What became of one write. `run` is the row: after the write, or as it refused the write.

    `Advance` leaves `run` out when it applied, because its caller knows the row; it gets the two
    things that others may have changed.
    """

    applied: bool
    run: Run | None = None
    inbox_seq: int = 0
    cancel: int = 0
    total: int = 0
    taken: str = ""
    """The id of a child that is other work, if a turn was refused for it."""
    heard: tuple[Notice, ...] = ()
    """What else changed: the runs that a turn or a move reached beside its own."""


class Notice(NamedTuple):
    """A hint that something changed; an empty `run` means: look yourself."""

    ns: str = ""
    run: str = ""
    what: str = "unknown"
    """`ready` (a run can be claimed), `mail`, `events`, `replied` (to messages, and events too),
    `closed`, `moved`, `job` (one can be taken, or was called off), `schedule` (one has to be looked
    at) or `unknown`."""
    event: Event | None = None
    """The event that closed the run, if it is closed now."""
    seq: int = 0


class Filter(NamedTuple):
    """Which runs to list; empty means all."""

    ns: str = "default"
    statuses: tuple[RunStatus, ...] = ()
    workflow: str = ""
    id_prefix: str = ""
    created_after: int = 0
    ids: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()
    """What the filter language added; all of them must hold."""


class Page(NamedTuple):
    """Newest first, after (`before_at`, `before_id`) of the former page's last run."""

    limit: int = 20
    before_at: int | None = None
    before_id: str = ""
