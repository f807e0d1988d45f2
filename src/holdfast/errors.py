"""Every error of Holdfast: one tree, a code each, and a message that says what to do next.

HoldfastError
├── BadDefinition            HF101  a step, workflow or app was declared wrongly
│   └── InvalidGraph         HF107  a graph that no run could walk, with every problem of it
├── NotInBody                HF102  a body primitive was called outside a workflow body
├── UnknownWorkflow          HF103  no workflow of that name is registered
├── NotInStep                HF104  a step primitive was called outside a step
├── MissingExtra             HF105  a package that only some need is not installed
├── UnknownQueue             HF106  no queue of that name has limits or a line
├── InvalidValue             HF110  a value does not fit its annotation
│   └── InvalidArguments     HF117  a call with missing or unknown arguments (also a TypeError)
├── Unserialisable           HF111  a value would not come back equal
│   ├── UnserialisableResult HF112  ... and it was a step's or workflow's result
│   └── SecretSerialisationError HF127  it is a secret, and would be written down
├── PayloadTooLarge          HF113
├── InvalidName              HF114  a run id, signal name or namespace that cannot be stored
│   ├── InvalidCursor        HF122  a page cursor that this list did not give
│   └── InvalidToken         HF126  a text that is no token of a step
├── InvalidDuration          HF115
├── InvalidSchedule          HF128  a cron line, an interval or a rule that cannot be kept
├── TooManyAsks              HF116  a body waits for more steps at once than a run may
├── TooDeep                  HF119  a child of a child of a child of too many
├── HistoryTooLong           HF118  a run has recorded more events than it may
├── InvalidFilter            HF121  a filter that cannot be read
├── InvalidTag               HF123  a tag or attribute that cannot be stored
├── SyncInLoop               HF124  the sync door was used inside a running event loop
├── InvalidExport            HF125  a file that is no exported run, or no sound one
├── RunNotFound              HF201
├── RunClosed                HF202
│   └── UpdateUnfinished     HF215  the run ended before an update was done
├── RunConflict              HF203  the id is taken by a run of other work
├── IllegalMove              HF204  the run's status does not allow this command
├── UnknownKey               HF205  the run's history holds no such key, or no such event
├── AnswerRefused            HF206  nobody waits for this answer, or somebody was faster
├── ScheduleNotFound         HF207
├── ScheduleConflict         HF208  the id is taken by another schedule
├── UnknownQuery             HF211  the run has no handler for that query
├── QueryFailed              HF212  the handler of a query raised, or did more than look
├── UpdateRejected           HF213  the run refused an update; nothing of it is recorded
├── UpdateFailed             HF214  the handler of an update raised
├── MessageConflict          HF216  the id is taken by another message
├── RunFailed                HF301  what `result()` raises for a run that did not complete
│   ├── RunCancelled         HF302
│   ├── RunTerminated        HF303
│   ├── RunTimedOut          HF304
│   └── RunCompensationFailed HF305  ... and left something undone
├── StepFailed               HF401  what a body catches when a step failed for good
│   ├── StepTimedOut         HF402  (also a TimeoutError)
│   └── StepOutcomeUnknown   HF408  it began, may not begin again, and its end is not known
├── NonRetryable             HF403  raised by a step: do not try again
│   ├── BadStatement         HF409  a transaction asked for something it may not do
│   ├── BadCacheKey          HF413  the function that gives a step's cache key gave none
│   └── SecretInState        HF417  a secret would be stored with a state (also a UserWarning)
├── RetryAfter               HF404  raised by a step: try again after this long
├── ChildFailed              HF406  what a body catches when a child did not complete
├── MapFailed                HF407  more items of a fan-out failed than it tolerates
├── ParallelError            HF414  items of `process_parallel` failed
├── ChainError               HF415  a step of `process_chain` failed
├── ConditionalError         HF416  `process_conditional` found no route, or its handler failed
├── ExecutionError           HF411  a graph cannot go on from a node
├── MergeConflict            HF412  two branches of a graph changed one field, and no rule merges it
├── CompensationFailed       HF405  what a saga raises when an undo failed for good
├── ReplayMismatch           HF501  the code asks for something else than the history holds
├── BodyStuck                HF502  the body waits for nothing that can ever come
├── Undecodable              HF503  a stored payload cannot be read
├── GuardViolation           HF504  a body touched a file, socket, process or thread
├── UnsupportedVersion       HF505  the run follows a version of a change the code does not know
├── BodyMeddled              HF506  a validator woke or cancelled something in the body
├── CannotDecrypt            HF507  the key that opens it is not on the key ring
├── BlobMissing              HF508  a payload is not in the blob store, or other bytes are
├── StoreError               HF601
│   ├── StoreUnavailable     HF602  nothing was written
│   │   └── StoreFull        HF607  ... because there is no room
│   ├── OutcomeUnknown       HF603  the write may or may not have happened
│   ├── StoreVersion         HF604  the database is of another release
│   └── StoreSettings        HF605  the database cannot keep our promises
└── CrashtestFailed          HF701  a run that was crashed on purpose ended otherwise

`MachineClosed` stands outside: it is a BaseException that unwinds the bodies of closed machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import Any, NamedTuple

LISTED = 20
"""How many of the known names a message lists."""


class HoldfastError(Exception):
    """The root of everything Holdfast raises on purpose.

    `code` never changes its meaning. `hint` says what to do next; the message ends with it, or
    with advice that fits the case better. `holdfast explain CODE` prints the page of the code.
    """

    code = "HF000"
    hint = "Read the page of its code: `holdfast explain CODE`."
    blocked_as = "error"
    """The first word of the reason of a run that this blocks."""
    blames_history = True
    """Whether the turn it came in is doubtful, or only the code that went on after it."""

    @property
    def page(self) -> str:
        """Where to read more: the page of this code in the documentation."""
        return f"docs/errors/{self.code}.md"

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} [{self.code}]" if text else self.code


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, or nothing."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:255], tuple(known), n=1)), "")


class BadDefinition(HoldfastError):
    """A step, workflow or app was declared wrongly."""

    code = "HF101"
    hint = "Declare it as the message says; it is refused before any run depends on it."

    def __init__(self, *, what: str, hint: str) -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}. {hint}")


class InvalidGraph(BadDefinition):
    """A graph that no run could walk. `problems` are all of them, a sentence each."""

    code = "HF107"
    hint = "Mend what is named here; graph.validate() lists it."

    def __init__(self, *, graph: str, problems: tuple[str, ...]) -> None:
        self.graph, self.problems = graph, problems
        listed = " ".join(problems).removesuffix(".")
        super().__init__(what=f"Graph {graph!r} cannot be walked: {listed}", hint=self.hint)


class NotInBody(HoldfastError):
    """A primitive of workflow bodies was called somewhere else."""

    code = "HF102"
    hint = "Call it from the function marked @app.workflow, not from a step or from plain code."

    def __init__(self, *, call: str) -> None:
        self.call = call
        super().__init__(f"{call} works only in a workflow body. {self.hint}")


class UnknownWorkflow(HoldfastError):
    """No workflow of that name is registered here."""

    code = "HF103"
    hint = "Import the module that defines it before opening the app."

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        listed = ", ".join(known) or "none"
        near = nearest(name, known)
        meant = f" Did you mean {near!r}?" if near else ""
        super().__init__(
            f"No workflow named {name[:60]!r} is registered.{meant} Registered: {listed}. "
            f"{self.hint}"
        )


WorkflowNotFound = UnknownWorkflow
"""What an executor of graphs calls it."""


class UnknownQueue(HoldfastError):
    """No queue of that name has limits, or a line in which runs stand."""

    code = "HF106"
    hint = "Give it limits with app.queue(...) or `holdfast queues set`; others need none."

    def __init__(self, *, queue: str, known: tuple[str, ...]) -> None:
        self.queue, self.known = queue, known
        listed = ", ".join(known) or "none"
        near = nearest(queue, known)
        meant = f" Did you mean {near!r}?" if near else ""
        super().__init__(
            f"No queue named {queue[:60]!r} has limits.{meant} There are: {listed}. {self.hint}"
        )


class NotInStep(HoldfastError):
    """A primitive of steps was called somewhere else."""

    code = "HF104"
    hint = "Call it inside @app.step code."

    def __init__(self, *, call: str) -> None:
        self.call = call
        super().__init__(f"{call} works only while a step runs. {self.hint}")


class MissingExtra(HoldfastError):
    """A package that only some need is not installed."""

    code = "HF105"
    hint = "Install the extra that the message names."

    def __init__(self, *, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs an extra. Install it: `pip install 'holdfast[{extra}]'`.")


class InvalidValue(HoldfastError):
    """A value does not fit its annotation."""

    code = "HF110"
    hint = "Send a value of the annotated type."

    def __init__(self, *, where: str, path: str, problem: str, hint: str = hint) -> None:
        self.where, self.path, self.problem, self.hint = where, path, problem, hint
        super().__init__(f"{where}: {path}: {problem}. {hint}")


class Unserialisable(HoldfastError):
    """A value would not come back from storage equal and of the same type."""

    code = "HF111"
    hint = "Write the annotation that the message names, or send JSON natives."

    def __init__(self, *, where: str, path: str, found: str, wanted: str, hint: str) -> None:
        self.where, self.path, self.found, self.wanted, self.hint = where, path, found, wanted, hint
        super().__init__(f"{where}: {path}: {found} would come back as {wanted}. {hint}")


class UnserialisableResult(Unserialisable):
    """A result would not come back from storage equal and of the same type."""

    code = "HF112"
    hint = "Correct the annotation of the result, or the value."


class SecretSerialisationError(Unserialisable):
    """A secret, or a value that holds the text of one, would be written down."""

    code = "HF127"
    hint = (
        'Leave it out. A step that needs it lists its name, @app.step(secrets=["token"]), and '
        'calls hf.secret("token").'
    )

    def __init__(self, *, where: str, path: str, what: str = "a Secret") -> None:
        self.where, self.path, self.found, self.wanted = where, path, what, "nothing"
        HoldfastError.__init__(self, f"{where}: {path}: {what} is never stored. {self.hint}")


class InvalidArguments(InvalidValue, TypeError):
    """A step or workflow was called with other arguments than it takes."""

    code = "HF117"
    hint = "Give each parameter once, and no others."


class PayloadTooLarge(HoldfastError):
    """A value is larger than a store keeps."""

    code = "HF113"
    hint = "Open the store with blobs=..., or store the data elsewhere and pass its address."

    def __init__(self, *, where: str, size: int, limit: int, hint: str = hint) -> None:
        self.where, self.size, self.limit, self.hint = where, size, limit, hint
        super().__init__(f"{where}: {size:,} bytes, and the limit is {limit:,}. {hint}")


class InvalidName(HoldfastError):
    """An id or name cannot be stored."""

    code = "HF114"
    hint = (
        "Use 1 to 255 printable characters, of 512 bytes at most, without line breaks, slashes or "
        "leading dots."
    )

    def __init__(self, *, field: str, value: str, problem: str) -> None:
        self.field, self.value, self.problem = field, value, problem
        super().__init__(f"{field} {value[:60]!r} {problem}. {self.hint}")


class InvalidDuration(HoldfastError):
    """A delay or time-out is no usable length of time."""

    code = "HF115"
    hint = "Give seconds or a timedelta from 0 to 100 years."

    def __init__(self, *, field: str, value: object, hint: str = hint) -> None:
        self.field, self.value, self.hint = field, value, hint
        super().__init__(f"{field}={repr(value)[:60]} is no usable duration. {hint}")


class InvalidSchedule(HoldfastError):
    """A schedule that can be kept by no clock, or has a rule there is not."""

    code = "HF128"
    hint = (
        'Write hf.Schedule(cron="30 2 * * *", zone="Europe/Berlin"), or hf.Schedule(every=300): '
        "five fields, or a second and more."
    )

    def __init__(self, *, field: str, value: object, problem: str) -> None:
        self.field, self.value, self.problem = field, value, problem
        super().__init__(f"Schedule: {field}={repr(value)[:60]} {problem}. {self.hint}")


class TooManyAsks(HoldfastError):
    """A body waits for more steps at once than a run may."""

    code = "HF116"
    hint = "Await some before asking for more, for example with asyncio.Semaphore."

    def __init__(self, *, key: str, limit: int) -> None:
        self.key, self.limit = key, limit
        super().__init__(
            f"Step {key} would be one more than the {limit:,} steps a run may wait for at once. "
            f"{self.hint}"
        )


class TooDeep(HoldfastError):
    """A child would stand below more runs than it may."""

    code = "HF119"
    hint = "Start it from a run further up, or call its function: `await ship.plain(...)`."

    def __init__(self, *, key: str, depth: int, limit: int) -> None:
        self.key, self.depth, self.limit = key, depth, limit
        super().__init__(
            f"Child {key} would stand {depth} runs below the first, and {limit} is the limit. "
            f"{self.hint}"
        )


class HistoryTooLong(HoldfastError):
    """A run has recorded more events than it may."""

    code = "HF118"
    blocked_as = "limit"
    blames_history = False
    hint = (
        "Let its body call hf.continue_as_new() before that, or split its work into several runs. "
        "To let this one go on, raise Settings.history and `holdfast runs retry` it."
    )

    def __init__(self, *, events: int, limit: int) -> None:
        self.events, self.limit = events, limit
        super().__init__(
            f"The history has {events:,} events, and the limit is {limit:,}. {self.hint}"
        )


class InvalidFilter(HoldfastError):
    """A filter cannot be read."""

    code = "HF121"
    hint = "Mend it at that column; `holdfast runs list --help` shows what a filter is made of."

    def __init__(self, *, text: str, column: int, problem: str, hint: str = "") -> None:
        self.text, self.column, self.problem, self.hint = text, column, problem, hint or self.hint
        near = text[max(column - 21, 0) : column + 39]
        super().__init__(f"Filter, column {column}, in {near!r}: {problem}. {self.hint}")


class InvalidCursor(InvalidName):
    """A page cursor is none that a list of this filter and namespace gave."""

    code = "HF122"
    hint = "Pass the `next` of a listing unchanged, with the same filter."

    def __init__(self, *, value: object) -> None:
        self.field, self.value, self.problem = "cursor", str(value), "is not one that `list` gave"
        text = f"cursor {self.value[:60]!r} {self.problem} for this filter and namespace."
        HoldfastError.__init__(self, f"{text} {self.hint}")


class InvalidTag(HoldfastError):
    """A tag or attribute cannot be stored."""

    code = "HF123"
    hint = "Give at most 32 short tags, and attributes that are texts, numbers or bools."

    def __init__(self, *, field: str, value: object, problem: str, hint: str) -> None:
        self.field, self.value, self.problem, self.hint = field, value, problem, hint
        super().__init__(f"{field}: {repr(value)[:60]} {problem}. {hint}")


class SyncInLoop(HoldfastError):
    """The sync door was used inside a running event loop, which it would block."""

    code = "HF124"
    hint = "Use `async with app.open(url)` there, or call it by `asyncio.to_thread(...)`."

    def __init__(self, *, call: str) -> None:
        self.call = call
        super().__init__(f"{call} was called inside a running event loop. {self.hint}")


class InvalidExport(HoldfastError):
    """A file is no exported run, or not a sound one."""

    code = "HF125"
    hint = "Import a file as `holdfast runs export` wrote it, with the same or a newer release."

    def __init__(self, *, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}. {self.hint}")


class InvalidToken(InvalidName):
    """A text is no token that a step was given."""

    code = "HF126"
    hint = "Pass on unchanged what hf.completion_token() gave."

    def __init__(self, *, value: object) -> None:
        self.field, self.value, self.problem = "token", str(value), "is none that a step was given"
        HoldfastError.__init__(self, f"token {self.value[:60]!r} {self.problem}. {self.hint}")


class RunNotFound(HoldfastError):
    """There is no run of that id in this namespace."""

    code = "HF201"
    hint = "`holdfast runs list` shows the ones there are."

    def __init__(self, *, run: str) -> None:
        self.run = run
        super().__init__(f"No run {run!r}. {self.hint}")


class RunClosed(HoldfastError):
    """The run has ended and takes no more messages."""

    code = "HF202"
    hint = "Start a new run."

    def __init__(self, *, run: str, status: str) -> None:
        self.run, self.status = run, status
        super().__init__(f"Run {run!r} is {status} and takes no more messages. {self.hint}")


class RunConflict(HoldfastError):
    """The id belongs to a run of another workflow or with another input."""

    code = "HF203"
    hint = (
        "The id is the idempotency key: use another id, or start with the same workflow and input."
    )

    def __init__(self, *, run: str, differs: str) -> None:
        self.run, self.differs = run, differs
        super().__init__(f"Run {run!r} exists with another {differs}. {self.hint}")


class IllegalMove(HoldfastError):
    """The run's status does not allow this command."""

    code = "HF204"
    hint = "`holdfast runs why RUN` says what to do next."

    def __init__(self, *, run: str, status: str, command: str, allowed: tuple[str, ...]) -> None:
        self.run, self.status, self.command, self.allowed = run, status, command, allowed
        super().__init__(
            f"Cannot {command} run {run!r}: it is {status}, and that works on runs that are "
            f"{' or '.join(allowed)}. {self.hint.replace('RUN', quote(run))}"
        )


InvalidStatus = IllegalMove
"""What an executor of graphs calls it."""


class UnknownKey(HoldfastError):
    """The history of the run holds nothing under that key."""

    code = "HF205"
    hint = "Name one of those; `holdfast runs show RUN` lists them with what they gave."

    def __init__(self, *, run: str, key: str, known: tuple[str, ...]) -> None:
        self.run, self.key, self.known = run, key, known
        near = nearest(key, known)
        meant = f" Did you mean {near!r}?" if near else ""
        more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
        listed = f"{', '.join(known[:LISTED])}{more}" if known else "nothing"
        super().__init__(
            f"Run {run!r} has recorded nothing under {key[:60]!r}.{meant} It has {listed}. "
            f"{self.hint.replace('RUN', quote(run))}"
        )


class AnswerRefused(HoldfastError):
    """Nobody waits for this answer any more, or somebody else was faster; nothing was stored."""

    code = "HF206"
    hint = "`holdfast questions` lists what is open."

    def __init__(
        self, *, run: str, key: str, problem: str, by: str = "", at: int | None = None
    ) -> None:
        self.run, self.key, self.problem, self.by, self.at = run, key, problem, by, at
        super().__init__(f"Run {run!r} takes no answer to {key}: {problem}. {self.hint}")


class ScheduleNotFound(HoldfastError):
    """There is no schedule of that id."""

    code = "HF207"
    hint = "List them with `holdfast schedules list`; each namespace has its own."

    def __init__(self, *, schedule: str) -> None:
        self.schedule = schedule
        super().__init__(f"There is no schedule {schedule[:60]!r}. {self.hint}")


class ScheduleConflict(HoldfastError):
    """The id is taken by a schedule that says something else."""

    code = "HF208"
    hint = "Change it with client.schedules.update, or choose another id."

    def __init__(self, *, schedule: str, differs: str) -> None:
        self.schedule, self.differs = schedule, differs
        super().__init__(f"Schedule {schedule[:60]!r} exists with another {differs}. {self.hint}")


class UnknownQuery(HoldfastError):
    """The run has no handler for a query of that name."""

    code = "HF211"
    hint = (
        "A body answers from where it calls hf.handle(...) on; `holdfast runs show` has its state."
    )

    def __init__(self, *, run: str, name: str, known: tuple[str, ...]) -> None:
        self.run, self.name, self.known = run, name, known
        near = nearest(name, known)
        meant = f" Did you mean {near!r}?" if near else ""
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"Run {run!r} answers no query {name[:60]!r}.{meant} It answers: {listed}. {self.hint}"
        )


class QueryFailed(HoldfastError):
    """The handler of a query raised, or did more than look; the run goes on as if nothing were."""

    code = "HF212"
    hint = "Mend the handler: a plain function that reads the body's state and returns it."

    def __init__(self, *, run: str, query: str, problem: str, traceback: str = "") -> None:
        self.run, self.query, self.problem, self.traceback = run, query, problem, traceback
        told = problem.rstrip(".")
        super().__init__(f"Query {query!r} of run {run!r} was not answered: {told}. {self.hint}")


class UpdateRejected(HoldfastError):
    """The run refused an update; nothing of it is in the history."""

    code = "HF213"
    hint = "Send what its validator accepts, under another id: this one stays refused."

    def __init__(self, *, run: str, update: str, id: str, type: str, message: str) -> None:
        self.run, self.update, self.id, self.type, self.message = run, update, id, type, message
        told = f"{type}: {message}".rstrip(".")
        super().__init__(f"Run {run!r} refused update {update!r} ({id}): {told}. {self.hint}")


class UpdateFailed(HoldfastError):
    """The handler of an update raised; the run goes on."""

    code = "HF214"
    hint = "What it did before it failed is done; the run's history has each step."

    def __init__(
        self, *, run: str, update: str, id: str, type: str, message: str, traceback: str = ""
    ) -> None:
        self.run, self.update, self.id = run, update, id
        self.type, self.message, self.traceback = type, message, traceback
        told = f"{type}: {message}".rstrip(".")
        super().__init__(f"Update {update!r} ({id}) of run {run!r} failed: {told}. {self.hint}")


class UpdateUnfinished(RunClosed):
    """The run ended before an update was done."""

    code = "HF215"
    hint = "Call `await hf.handlers_finished()` at the end of the body, so that it waits for them."

    def __init__(self, *, run: str, status: str, update: str, id: str, is_accepted: bool) -> None:
        self.run, self.status, self.update, self.id = run, status, update, id
        self.is_accepted = is_accepted
        left = "was accepted and not done" if is_accepted else "was not accepted"
        HoldfastError.__init__(
            self, f"Run {run!r} is {status}; update {update!r} ({id}) {left}. {self.hint}"
        )


class MessageConflict(HoldfastError):
    """The id belongs to another message of the run."""

    code = "HF216"
    hint = "The id is the idempotency key of a message: use another one, or send the same again."

    def __init__(self, *, run: str, id: str, differs: str) -> None:
        self.run, self.id, self.differs = run, id, differs
        super().__init__(f"Run {run!r} has a message {id!r} with another {differs}. {self.hint}")


class RunFailed(HoldfastError):
    """The run ended without a result."""

    code = "HF301"
    hint = "See `holdfast runs show RUN`."
    status = "failed"

    def __init__(
        self,
        *,
        run: str,
        type: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        traceback: str = "",
    ) -> None:
        self.run, self.type, self.message = run, type, message
        self.details, self.traceback = dict(details or {}), traceback
        cause = ": ".join(part for part in (type, message) if part)
        told = f" with {cause}" if cause else ""
        super().__init__(
            f"Run {run!r} {self.status}{told.rstrip('.')}. {self.hint.replace('RUN', quote(run))}"
        )


class RunCancelled(RunFailed):
    """The run was cancelled."""

    code = "HF302"
    hint = "See `holdfast runs show RUN`; to do the work after all, start a run with another id."
    status = "was cancelled"


class RunTerminated(RunFailed):
    """The run was terminated."""

    code = "HF303"
    hint = "See `holdfast runs show RUN`, and clean up by hand what it had begun."
    status = "was terminated"


class RunTimedOut(RunFailed, TimeoutError):
    """The run took longer than it may."""

    code = "HF304"
    hint = "See `holdfast runs show RUN` for what took so long."
    status = "timed out"


class Owed(NamedTuple):
    """A call of a saga that is still to be undone: its key, by what, and why that failed."""

    key: str
    undo: str
    type: str
    message: str

    def __str__(self) -> str:
        return f"{self.undo} of {self.key} ({self.type}: {self.message})"


class RunCompensationFailed(RunFailed):
    """The run could not undo all it had done."""

    code = "HF305"
    hint = "Mend what is in the way of the undo; then `holdfast runs retry RUN` goes on with it."
    status = "left something undone, and ended"

    @property
    def owed(self) -> tuple[Owed, ...]:
        """What is still to be undone, in that order."""
        return tuple(Owed(**each) for each in self.details.get("owed", ()))


class StepFailed(HoldfastError):
    """A step failed for good: what a body catches."""

    code = "HF401"
    hint = "Catch it in the body to go another way, or mend the cause and retry the run."

    def __init__(
        self,
        *,
        step: str,
        type: str,
        message: str,
        attempts: int = 1,
        details: Mapping[str, Any] | None = None,
        traceback: str = "",
    ) -> None:
        self.step, self.type, self.message, self.attempts = step, type, message, attempts
        self.details, self.traceback = dict(details or {}), traceback
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"Step {step} failed after {tries}: {type}: {message}")

    def __str__(self) -> str:
        # Not in `args`: there the message becomes the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


class StepTimedOut(StepFailed, TimeoutError):
    """A step took longer than its `timeout` or `total_timeout`."""

    code = "HF402"
    hint = "Give the step more time, or catch TimeoutError in the body."


class StepOutcomeUnknown(StepFailed):
    """A step that runs at most once had begun when its worker was lost: it may have had effects."""

    code = "HF408"
    hint = "Look at the other side for what it did; retry the run only if it may run again."


class ProcessDied(HoldfastError):
    """The process of an isolated step ended before the step did: the attempt has failed."""

    code = "HF410"
    hint = "See whether it ran out of memory or crashed in native code; it is tried again."

    def __init__(self, *, step: str, how: str) -> None:
        self.step, self.how = step, how
        super().__init__(f"The process of step {step} died: {how}. {self.hint}")


class NonRetryable(HoldfastError):
    """Raise it in a step, or subclass it, to fail the step without another attempt."""

    code = "HF403"
    hint = "Raise it with a message of your own; the body catches hf.StepFailed."


class BadStatement(NonRetryable):
    """A transaction asked its database for something it may not do."""

    code = "HF409"
    hint = "Give one statement at a time, on tables of your own, with a value for each :name."

    def __init__(self, *, sql: str, what: str, hint: str) -> None:
        self.sql, self.what, self.hint = sql, what, f"{hint}."
        shown = " ".join(sql.split())
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        super().__init__(f"The statement `{shown}` {what}. {hint}.")


class BadCacheKey(NonRetryable):
    """The function of a step's cache gave no key for a call; the step did not begin."""

    code = "HF413"
    hint = "Return a text of 1 to 255 printable characters; a digest of what is longer."

    def __init__(self, *, step: str, problem: str) -> None:
        self.step, self.problem = step, problem
        super().__init__(f"The cache key of step {step!r} {problem}. {self.hint}")


class SecretInState(NonRetryable, UserWarning):
    """A field of a state has the name of a secret, and what is in a state is stored.

    A warning, and an error of graphs that are `strict`. `line` is what to write instead.
    """

    code = "HF417"
    hint = "Write instead what the message says: what is in a state is stored, and shown."

    def __init__(self, *, name: str, where: str, line: str) -> None:
        self.name, self.where, self.line = name, where, line
        self.hint = f"A state is stored, and shown. Write {line} instead."
        super().__init__(f"{where}: {name!r:.60} sounds like a secret. {self.hint}")


class RetryAfter(HoldfastError):
    """Raise it in a step to have the next attempt start after `delay`, not by the back-off."""

    code = "HF404"
    hint = "Raise it with the delay that the other side asked for; it counts as an attempt."

    def __init__(self, delay: float | timedelta, message: str = "") -> None:
        try:
            self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        except (ValueError, OverflowError, TypeError):
            raise InvalidDuration(field="RetryAfter.delay", value=delay) from None
        super().__init__(message or f"try again after {self.delay}")


class ChildFailed(HoldfastError):
    """A child did not complete: what the body of its parent catches.

    `status` is how it ended: "failed", "cancelled", "terminated", "timed_out",
    "compensation_failed"; or "refused" if its id was taken by other work.
    """

    code = "HF406"
    hint = "Catch it in the body to go another way, or mend the cause and retry the run."

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        *,
        child: str,
        key: str,
        status: str,
        type: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        traceback: str = "",
    ) -> None:
        self.child, self.key, self.status = child, key, status
        self.type, self.message = type, message
        self.details, self.traceback = dict(details or {}), traceback
        why = f": {type}: {message}" if type else ""
        super().__init__(f"Child {child} ended as {status}{why}")

    def __str__(self) -> str:
        # As with StepFailed: in `args`, the message is the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


def _in_short(error: Exception) -> str:
    return str(error.args[0]) if error.args else type(error).__name__


class MapFailed(HoldfastError):
    """More items of a fan-out failed than it tolerates: what `hf.map` raises.

    `failed` are the indexes of the items that failed, with their errors; `done` is how many ended.
    """

    code = "HF407"
    hint = "Let more of them fail with tolerate=, or mend the cause and retry the run."

    def __init__(
        self, *, failed: tuple[tuple[int, Exception], ...], done: int, tolerated: int
    ) -> None:
        self.failed, self.done, self.tolerated = failed, done, tolerated
        told = [f"item {index}: {_in_short(error)}" for index, error in failed]
        more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
        super().__init__(
            f"{len(failed)} of {done} items failed, and {tolerated} may: "
            f"{'; '.join(told[:3])}{more}"
        )

    def __str__(self) -> str:
        # As with StepFailed: in `args`, the message is the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


@dataclass(frozen=True, slots=True)
class TaskError:
    """An item that failed: the how-manieth it is, itself, and why."""

    index: int
    item: Any
    error: Exception


class ParallelError(HoldfastError):
    """Items failed: what `process_parallel` raises.

    `errors` has them all. If the first ended the others, it stands first, and those that were
    cancelled for it are none. `results` are those of the items in `done`, `total` is how many items
    there were.
    """

    code = "HF414"
    hint = (
        "Mend the cause; with ParallelConfig(fail_fast=False) the others go on, and what failed is "
        "told beside the results."
    )

    def __init__(
        self,
        *,
        errors: tuple[TaskError, ...],
        results: tuple[Any, ...],
        done: tuple[int, ...],
        total: int,
    ) -> None:
        self.errors, self.results, self.done, self.total = errors, results, done, total
        super().__init__(f"Parallel processing failed: {_of_tasks(errors)}")
        causes = [each.error for each in errors]
        self.__cause__ = causes[0] if len(causes) == 1 else ExceptionGroup("what failed", causes)

    def __str__(self) -> str:
        # As with StepFailed: in `args`, the message is the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


def _of_tasks(errors: tuple[TaskError, ...]) -> str:
    """Tell what failed; equal errors together, the first first, then the most frequent."""
    if len(errors) == 1:
        return f"item {errors[0].index}: {_named(errors[0].error)}"
    counts: dict[str, int] = {}
    for each in errors:
        told = _named(each.error)
        counts[told] = counts.get(told, 0) + 1
    first, *others = counts
    others.sort(key=lambda told: -counts[told])
    listed = ", ".join(
        f"{told!r} ({_items(counts[told])})" for told in (first, *others[: LISTED - 1])
    )
    kinds = "one error" if len(counts) == 1 else f"{len(counts)} different errors"
    return f"item {errors[0].index} and {len(errors) - 1} more failed with {kinds}: {listed}"


def _named(error: Exception) -> str:
    """Tell an error in short: one of ours by its words, any other by its type, too."""
    told = str(error.args[0]) if error.args else ""
    if isinstance(error, HoldfastError):
        return told
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


class ChainError(HoldfastError):
    """A step of a chain failed: what `process_chain` raises. The processor's error is the cause.

    `step_index` says which, from 0 on, and so how many were done before it; `item` is what it was
    given with `state`. `intermediate` are the states up to there, if they were kept.
    """

    code = "HF415"
    hint = "Mend the cause; go on from `state` with the items from `step_index` on."

    def __init__(
        self, *, step_index: int, item: object, state: object, intermediate: tuple[Any, ...],
        cause: Exception,
    ) -> None:  # fmt: skip
        self.step_index, self.item, self.state = step_index, item, state
        self.intermediate = intermediate
        super().__init__(f"Chain failed at step {step_index}: {_named(cause)}")
        self.__cause__ = cause

    def __str__(self) -> str:
        # As with StepFailed: in `args`, the message is the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


class ConditionalError(HoldfastError):
    """What `process_conditional` raises. `state` is the one it was given.

    `route` is empty if none was chosen yet, and "default" if no other fitted. An error of the
    predicate or of the handler is the cause.
    """

    code = "HF416"
    hint = "Mend the cause, or give the missing route, or a default=."

    def __init__(
        self, *, route: str, state: object, problem: str = "", cause: Exception | None = None
    ) -> None:
        self.route, self.state = route, state
        where = f" for route {route!r:.60}" if route else ""
        told = problem or ("" if cause is None else _named(cause))
        super().__init__(f"Conditional routing failed{where}: {told}")
        self.__cause__ = cause

    def __str__(self) -> str:
        # As with StepFailed: in `args`, the message is the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


class ExecutionError(HoldfastError):
    """A graph cannot go on: a node failed, no way out of it fits, or there were too many.

    `path` are the nodes it came to, in order; `state` is the last good one. The node's own error is
    the cause.
    """

    code = "HF411"
    hint = "Mend the cause and retry the run: it goes on at this node."

    def __init__(
        self,
        *,
        graph: str,
        node: str,
        problem: str,
        path: tuple[str, ...],
        state: object = None,
        visit: Mapping[str, object] = {},
    ) -> None:
        self.graph, self.node, self.problem = graph, node, problem
        self.path, self.state = path, state
        self.details: Mapping[str, object] = {"graph": graph, "node": node, **visit}
        super().__init__(f"Execution of graph {graph} failed at node {node}: {problem}")

    def __str__(self) -> str:
        # As with StepFailed: in `args`, the message is the reason of a run that failed by it.
        return f"{str(self.args[0]).rstrip('.')}. {self.hint} [{self.code}]"


class MergeConflict(HoldfastError):
    """Two branches of a fork changed one field, and no rule says what becomes of it."""

    code = "HF412"
    hint = 'Name a rule for the field: add_fork(..., merge={"field": "append"}).'

    def __init__(self, *, field: str, first: str, second: str) -> None:
        self.field, self.first, self.second = field, first, second
        super().__init__(f"Nodes {first} and {second} both changed {field!r}. {self.hint}")


class CompensationFailed(HoldfastError):
    """An undo of a saga failed for good: the run ends so, even if the body catches this."""

    code = "HF405"
    hint = "Mend what is in the way of the undo, and retry the run: it goes on with what is owed."

    def __init__(self, *, owed: tuple[Owed, ...], original: BaseException) -> None:
        self.owed, self.original = owed, original
        listed = "; ".join(map(str, owed))
        super().__init__(f"Still owed: {listed}. {self.hint}")


class ReplayMismatch(HoldfastError):
    """The code asks for something else than the history holds."""

    code = "HF501"
    blocked_as = "mismatch"
    hint = (
        'Restore the step, put the change under `if hf.patched("..."):`, or register the changed '
        'workflow beside the former one with version="..."; then `holdfast runs retry` the run.'
    )

    def __init__(self, *, seq: int, recorded: str, asked: str, source: str = "") -> None:
        self.seq, self.recorded, self.asked, self.source = seq, recorded, asked, source
        at = f" at {source}" if source else ""
        super().__init__(f"Event {seq} is {recorded}, and the code now {asked}{at}. {self.hint}")


class BodyStuck(HoldfastError):
    """The body waits for nothing that can ever come."""

    code = "HF502"
    blocked_as = "deadlock"
    blames_history = False
    hint = "Wait for a step, hf.sleep or hf.wait_for instead; then `holdfast runs retry` the run."

    def __init__(self, *, source: str) -> None:
        self.source = source
        super().__init__(
            f"The body waits for something no step, timer or signal can settle, at {source}. "
            f"{self.hint}"
        )


class Undecodable(HoldfastError):
    """A stored payload cannot be read with today's annotations."""

    code = "HF503"
    blocked_as = "undecodable"
    hint = (
        "Restore the former annotation or give the new field a default; then `holdfast runs retry` "
        "the run."
    )

    def __init__(self, *, seq: int, what: str, problem: str) -> None:
        self.seq, self.what, self.problem = seq, what, problem
        super().__init__(f"Event {seq} ({what}) cannot be read: {problem}. {self.hint}")


class GuardViolation(HoldfastError):
    """A body called something that touches the world: a file, a socket, a process, a thread."""

    code = "HF504"
    hint = "Do it in a step; then `holdfast runs retry` the run."
    blocked_as = "guard"
    blames_history = False

    def __init__(self, *, call: str, hint: str, source: str = "") -> None:
        self.call, self.hint, self.source = call, hint, source
        at = f", at {source}" if source else ""
        super().__init__(
            f"{call} was called in a workflow body{at}. A body runs again in every replay, so it "
            f"does no I/O. {hint} Then `holdfast runs retry` the run."
        )


class UnsupportedVersion(HoldfastError):
    """The run follows a version of a change that the code does not know."""

    code = "HF505"
    blocked_as = "version"
    hint = "Restore the code of that version, or widen hf.get_version; then retry the run."

    def __init__(
        self, *, change: str, version: int, minimum: int, maximum: int, source: str = ""
    ) -> None:
        self.change, self.version, self.source = change, version, source
        self.minimum, self.maximum = minimum, maximum
        at = f" at {source}" if source else ""
        known = f"only version {minimum}" if minimum == maximum else f"{minimum} to {maximum}"
        super().__init__(
            f"The run follows version {version} of change {change!r}, and the code knows "
            f"{known}{at}. Restore the code of version {version}, or widen "
            f"hf.get_version({change!r}, ...) to it; then `holdfast runs retry` the run."
        )


class BodyMeddled(HoldfastError):
    """The validator of an update woke or cancelled something in the body."""

    code = "HF506"
    hint = "Let the validator only read, and the handler do; then `holdfast runs retry` the run."
    blocked_as = "guard"
    blames_history = False

    def __init__(self, *, update: str) -> None:
        self.update = update
        super().__init__(
            f"The validator of update {update!r} woke or cancelled something in the body. Nothing "
            f"of it is recorded, so a replay would go another way. {self.hint}"
        )


class CannotDecrypt(HoldfastError):
    """What is stored cannot be decrypted with the keys that are here."""

    code = "HF507"
    blocked_as = "undecodable"
    hint = "Put the key it was encrypted with back on the key ring, under the same id."

    def __init__(self, *, key: str, problem: str, where: str = "") -> None:
        self.key, self.problem, self.where = key, problem, where
        told = f"{where}: key" if where else "Key"
        super().__init__(f"{told} {key!r:.60} {problem}. {self.hint}")


class BlobMissing(HoldfastError):
    """A payload is in the blob store, and it is not there, or is not what it was."""

    code = "HF508"
    blocked_as = "blob_missing"
    hint = "Bring the blob back from a backup; then `holdfast runs retry` the run."

    def __init__(self, *, blob: str, where: str, problem: str) -> None:
        self.blob, self.where, self.problem = blob, where, problem
        super().__init__(f"{where}: blob {blob!r} {problem}. {self.hint}")


UNREADABLE = (CannotDecrypt, BlobMissing)
"""What reading a run may raise because of what is stored, not because of who reads it."""


class StoreError(HoldfastError):
    """The store could not do what it was asked."""

    code = "HF601"
    hint = "Follow the page of the code you see."


class StoreUnavailable(StoreError):
    """The store cannot be reached or is busy; nothing was written."""

    code = "HF602"
    hint = "Try again: nothing was written."


class StoreFull(StoreUnavailable):
    """The store has no room; nothing was written. It goes on by itself when there is room."""

    code = "HF607"
    hint = "Make room on the disk, or raise its quota; workers go on by themselves."


class StoreMoved(StoreError):
    """The store takes no writes: its runs were moved to another, or are being moved into it."""

    code = "HF608"
    hint = "Open the store that its runs went to; nothing was written."

    def __init__(self, *, role: str, place: str) -> None:
        self.role, self.place = role, place
        if role == "source":
            told = f"This store was moved to {place} and takes no more writes. Open that one"
        else:
            told = (
                f"This store is being filled from {place} and is not complete. Wait until "
                f"`holdfast move` has ended, or type it again if it was stopped"
            )
        super().__init__(f"{told}; nothing was written.")


class MoveRefused(StoreError):
    """A move cannot begin, go on or be taken back as the two stores stand; no run is lost."""

    code = "HF609"
    hint = "Do what it says, then type `holdfast move` again; it goes on where it was."


class OutcomeUnknown(StoreError):
    """The write may or may not have happened; read again, or repeat it with the same key."""

    code = "HF603"
    hint = "Read again, or repeat it with the same id."


class StoreVersion(StoreError):
    """The database was made by another release."""

    code = "HF604"
    hint = "Upgrade holdfast, or open another file."


class StoreSettings(StoreError):
    """The database's settings or place cannot keep our promises."""

    code = "HF605"
    hint = "Put the file on a local disk, and name it as sqlite:///shop.db."


class CrashtestFailed(HoldfastError, AssertionError):
    """A run that was crashed on purpose did not end as it does undisturbed."""

    code = "HF701"
    hint = (
        "A step runs again if its process dies before it is recorded: make what it does harmless "
        "to repeat, for example by hf.idempotency_key()."
    )

    loose = (
        "If it may differ from one execution to the next, name the step, or the workflow, in "
        "loose=[...]; else have the body depend on nothing but its input and its answers."
    )

    def __init__(
        self, *, workflow: str, store: str, where: str, problems: tuple[str, ...], only: str,
        tried: str,
    ) -> None:  # fmt: skip
        self.workflow, self.store, self.where = workflow, store, where
        self.problems, self.only, self.tried = problems, only, tried
        listed = "\n".join(f"  - {problem}" for problem in problems)
        is_effect = any(problem.startswith("the effects") for problem in problems)
        advice = self.hint if is_effect else self.loose
        if not only:
            text = f"{workflow} on {store} is wrong without any crash:\n{listed}"
        else:
            text = (
                f"{workflow} on {store} ends otherwise if {where} ({tried} points tried):\n"
                f"{listed}\n{advice} To try this point alone: crashtest(..., only={only!r})."
            )
        super().__init__(text)


class MachineClosed(BaseException):
    """Unwinds the body of a machine that was closed; never seen by a running body."""
