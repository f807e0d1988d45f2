"""One instance of every error, as a user may meet it: their messages stand on the errors' pages.

A new error needs a line here, a line in `docs/errors/ledger.txt`, and its page: `make docs` writes
the page's frame, and you write why it happens and what to do.
"""

from __future__ import annotations

from holdfast import errors

ALL = (
    errors.HoldfastError("The worker failed on this run: KeyError('x'). Report it, with its log."),
    errors.BadDefinition(
        what="order (shop.py:7) is not async and cannot be a workflow",
        hint="Write `async def`; its steps may be sync.",
    ),
    errors.NotInBody(call="hf.now()"),
    errors.UnknownQueue(queue="mial", known=("mail", "reports")),
    errors.UnknownWorkflow(name="ordr", known=("invoice", "order")),
    errors.NotInStep(call="hf.idempotency_key()"),
    errors.MissingExtra(what="Encryption", extra="crypto"),
    errors.InvalidValue(
        where="arguments of order", path="cents", problem="Input should be a valid integer"
    ),
    errors.InvalidArguments(
        where="arguments of order",
        path="order(item: str) -> str",
        problem="missing a required argument: 'item'",
        hint=errors.InvalidArguments.hint,
    ),
    errors.InvalidSchedule(
        field="cron", value="0 0 31 2 *", problem="is no cron: bad day-of-month"
    ),
    errors.ScheduleNotFound(schedule="nigthly"),
    errors.ScheduleConflict(schedule="nightly", differs="workflow (report)"),
    errors.HistoryTooLong(events=51_200, limit=51_200),
    errors.Unserialisable(
        where="arguments of order",
        path="data.size",
        found="tuple",
        wanted="list",
        hint="Write `tuple[int, int]` as its annotation.",
    ),
    errors.UnserialisableResult(
        where="result of charge#1",
        path="result.paid_at",
        found="datetime",
        wanted="str",
        hint="Write `datetime` as its annotation.",
    ),
    errors.SecretSerialisationError(where="result of step connect#1", path="result.token"),
    errors.PayloadTooLarge(where="arguments of order", size=4_000_012, limit=2_097_152),
    errors.InvalidName(field="run id", value="../order", problem="has a slash or a leading dot"),
    errors.InvalidDuration(field="hf.sleep", value=-1),
    errors.TooManyAsks(key="pack#10001", limit=10_000),
    errors.TooDeep(key="ship#1", depth=33, limit=32),
    errors.InvalidFilter(
        text="tag:vip statuz:failed",
        column=9,
        problem="no key 'statuz' (did you mean 'status'?)",
        hint="Keys are status, workflow, tag, since, before, id, reason.",
    ),
    errors.InvalidCursor(value="bm9uc2Vuc2U"),
    errors.InvalidToken(value="bm9uc2Vuc2U"),
    errors.InvalidTag(field="tags", value="vip", problem="is no list", hint='Write ["vip"].'),
    errors.SyncInLoop(call="open_sync"),
    errors.InvalidExport(where="events[3].kind", problem="it is no kind of event"),
    errors.RunNotFound(run="order-42"),
    errors.RunClosed(run="order-42", status="completed"),
    errors.RunConflict(run="order-42", differs="input"),
    errors.IllegalMove(run="order-42", status="running", command="resume", allowed=("paused",)),
    errors.UnknownKey(run="order-42", key="chrage#1", known=("reserve#1", "charge#1")),
    errors.UnknownQuery(run="cart-7", name="totl", known=("items", "total")),
    errors.QueryFailed(run="cart-7", query="item", problem="KeyError: 'lamp'"),
    errors.UpdateRejected(
        run="cart-7", update="add", id="u-1", type="ValueError", message="the cart is full"
    ),
    errors.UpdateFailed(
        run="cart-7", update="add", id="u-1", type="StepFailed", message="Step reserve#1 failed"
    ),
    errors.UpdateUnfinished(
        run="cart-7", status="completed", update="add", id="u-1", is_accepted=True
    ),
    errors.MessageConflict(run="cart-7", id="u-1", differs="value"),
    errors.AnswerRefused(
        run="order-42", key="ask#1", problem="ada gave one at 2026-11-16 10:00:00 UTC"
    ),
    errors.RunFailed(run="order-42", type="ValueError", message="no such item"),
    errors.RunCancelled(run="order-42"),
    errors.RunTerminated(run="order-42"),
    errors.RunTimedOut(run="order-42"),
    errors.RunCompensationFailed(
        run="order-42",
        type="CompensationFailed",
        message="still owed: refund of charge#1 (ConnectionError: the bank is away), after "
        "StepFailed: Step ship#1 failed after 5 attempts: RuntimeError: too heavy",
    ),
    errors.MapFailed(
        failed=((17, errors.StepFailed(step="check#18", type="OSError", message="no answer")),),
        done=40,
        tolerated=0,
    ),
    errors.ParallelError(
        errors=(
            errors.TaskError(3, "p3.png", ValueError("no text")),
            errors.TaskError(1, "p1.png", OSError("no such page")),
        ),
        results=("one",),
        done=(0,),
        total=9,
    ),
    errors.ChainError(
        step_index=2, item="p2.png", state="so far", intermediate=(), cause=ValueError("no text")
    ),
    errors.ConditionalError(
        route="", state={}, problem="route 'red' not found and no default handler; there are: blue"
    ),
    errors.SecretInState(name="token", where="state.set", line="state.set_secret('token', ...)"),
    errors.InvalidGraph(
        graph="classify",
        problems=(
            "Node 'score' is never reached: no edge leads there from START.",
            "Node 'detect' is a dead end: it has no edges and is no exit.",
        ),
    ),
    errors.ExecutionError(
        graph="classify",
        node="detect",
        problem="Step classify.detect#2 failed after 5 attempts: OSError: no answer",
        path=("load", "detect", "enhance", "detect"),
    ),
    errors.MergeConflict(field="notes", first="style", second="facts"),
    errors.ChildFailed(
        child="order-42/ship#1",
        key="ship#1",
        status="failed",
        type="StepFailed",
        message="Step pack#1 failed after 5 attempts: OSError: no box",
    ),
    errors.StepFailed(
        step="charge#1", type="ConnectionError", message="the bank did not answer", attempts=5
    ),
    errors.StepTimedOut(step="charge#1", type="StepTimedOut", message="longer than 30 s"),
    errors.StepOutcomeUnknown(
        step="charge#1",
        type="StepOutcomeUnknown",
        message="it had begun when its worker was lost; whether it ended is not known",
    ),
    errors.ProcessDied(step="render#1", how="signal SIGKILL"),
    errors.NonRetryable("no such customer"),
    errors.BadCacheKey(step="fetch", problem="is no text, it is int"),
    errors.BadStatement(
        sql="COMMIT",
        what="begins with COMMIT",
        hint="Leave that out: it begins with the step, and ends with it",
    ),
    errors.RetryAfter(30, "rate limit"),
    errors.CompensationFailed(
        owed=(errors.Owed("charge#1", "refund", "ConnectionError", "the bank is away"),),
        original=errors.HoldfastError("too heavy"),
    ),
    errors.ReplayMismatch(
        seq=2,
        recorded="the result of step reserve#1",
        asked="waits for step check_stock#1",
        source="shop.py:31",
    ),
    errors.BodyStuck(source="shop.py:31"),
    errors.Undecodable(seq=2, what="result of reserve#1", problem="result.shelf: Field required"),
    errors.GuardViolation(
        call="open('prices.csv')", hint="Read it in a step.", source="shop.py:31"
    ),
    errors.UnsupportedVersion(
        change="price", version=0, minimum=1, maximum=2, source="shop.py:31 in checkout"
    ),
    errors.BodyMeddled(update="add"),
    errors.CannotDecrypt(key="2026-05", problem="is not on the key ring"),
    errors.BlobMissing(
        blob="9f2b…-51c0",
        where="event step.completed charge#1 of run order-42",
        problem="is not there",
    ),
    errors.StoreError(f"Event 4 cannot follow 2. {errors.StoreError.hint}"),
    errors.StoreUnavailable("The read failed: disk I/O error. Try again."),
    errors.StoreFull(
        "Nothing was written, the database has no room: database or disk is full. "
        "Make room on the disk, or raise its quota; workers go on by themselves."
    ),
    errors.StoreMoved(role="source", place="postgresql://db:5432/shop"),
    errors.MoveRefused(
        "postgresql://db:5432/shop is not empty. Name an empty store, or one that is not there "
        "yet; a move that has begun is taken back with `holdfast move --undo`."
    ),
    errors.OutcomeUnknown(
        "The commit failed, and may have happened: disk I/O error. "
        "Read again, or repeat it with the same id."
    ),
    errors.StoreVersion(
        "The database has schema version 9, and this release knows 1. "
        "Upgrade holdfast, or open another file."
    ),
    errors.StoreSettings(
        "The folder '/var/lib/shp' does not exist. Create it, or name another file."
    ),
    errors.CrashtestFailed(
        workflow="checkout",
        store="memory",
        where="the process dies before the commit of step.completed charge#1",
        problems=("the effects are ['lamp', 'lamp'], and should be ['lamp']",),
        only="before@14",
        tried="13 of 42",
    ),
)

EXAMPLES: dict[type[errors.HoldfastError], errors.HoldfastError] = {type(e): e for e in ALL}
