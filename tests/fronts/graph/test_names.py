"""The names that programs with graphs are written with, and how each is called."""

import dataclasses
import inspect
from collections.abc import AsyncIterator, Mapping
from typing import Any, get_args

import pytest

import holdfast as hf

CALLS = {
    "State": "data=",
    "State.get": "key default=",
    "State.set": "key value",
    "State.merge": "other",
    "State.clone": "",
    "State.set_secret": "name value",
    "State.get_secret": "name",
    "State.delete_secret": "name",
    "StateGraph": "config",
    "StateGraph.add_node": "name function",
    "StateGraph.add_edge": "source target predicate=",
    "StateGraph.add_conditional_edge": "source router targets",
    "StateGraph.set_entry_point": "node",
    "StateGraph.set_exit_point": "node",
    "StateGraph.validate": "",
    "StateGraph.execute": "state",
    "StateGraph.resume": "run_id",
    "GraphConfig": "name observer= max_iterations= checkpoint=",
    "default_graph_config": "name",
    "CheckpointConfig": "interval= preserve=",
    "CheckpointStore.save": "state",
    "CheckpointStore.load": "run_id",
    "CheckpointStore.delete": "run_id",
    "CheckpointStore.list": "",
    "ParallelConfig": "max_workers= worker_cap= fail_fast=",
    "default_parallel_config": "",
    "new_graph_with_deps": "config observer= store=",
    "process_parallel": "items processor config= progress=",
    "process_chain": "items initial processor config= progress=",
    "process_conditional": "state predicate routes default=",
    "WorkflowFactory.__call__": "graph runtime params",
    "WorkflowInfo": "name description",
    "Factories.register": "name factory description=",
    "Factories.get": "name",
    "Factories.list": "",
    "Runtime": "logger= services= lifecycle=",
    "Executor": "client runtime=",
    "Executor.execute": "name params= token=",
    "Executor.create_run": "name params= token=",
    "Executor.find_run": "run_id",
    "Executor.cancel": "run_id",
    "Executor.resume": "run_id token=",
    "ExecutionEvent": "type timestamp source data run_id seq part=",
    "Observer.on_event": "event",
    "MultiObserver": "*observers",
    "StoreObserver": "store",
    "StoreObserver.on_event": "event",
    "StreamingObserver": "buffer_size=",
    "StreamingObserver.events": "run=",
}
"""What stands first in each call, in order; `=` may be left out, and so may whatever follows."""
WAITED_FOR = (
    "StateGraph.execute", "StateGraph.resume", "Executor.execute", "Executor.create_run",
    "Executor.find_run", "Executor.cancel", "Executor.resume", "Observer.on_event",
    "CheckpointStore.save", "CheckpointStore.load", "process_parallel", "process_chain",
    "process_conditional",
)  # fmt: skip


def named(name: str) -> Any:
    found: Any = hf
    for part in name.split("."):
        found = getattr(found, part)
    return found


def told(given: inspect.Parameter) -> str:
    if given.kind is given.VAR_POSITIONAL:
        return f"*{given.name}"
    return given.name if given.default is given.empty else f"{given.name}="


@pytest.mark.parametrize("name", CALLS)
def test_a_name_is_called_like_this(name: str) -> None:
    parameters = [*inspect.signature(named(name)).parameters.values()]
    if "." in name:
        parameters = parameters[1:]  # self
    wanted = CALLS[name].split()
    assert [told(each) for each in parameters[: len(wanted)]] == wanted
    for each in parameters[len(wanted) :]:
        assert each.default is not each.empty or each.kind is each.VAR_KEYWORD, each


@pytest.mark.parametrize("name", WAITED_FOR)
def test_a_call_is_awaited(name: str) -> None:
    assert inspect.iscoroutinefunction(named(name))


def test_the_rest_is_what_it_is_taken_for() -> None:
    assert (hf.START, hf.END) == ("START", "END")
    assert len(get_args(hf.NodeFunc)) == 2, "a function of the state, async or not"
    assert isinstance(hf.State({"a": 1}), Mapping)
    assert {each.name for each in dataclasses.fields(hf.CheckpointConfig)} >= {
        "interval", "preserve",
    }  # fmt: skip
    assert hf.default_graph_config("g") == hf.GraphConfig("g", observer="slog")
    assert hf.default_parallel_config() == hf.ParallelConfig(0, 16, fail_fast=True)
    assert isinstance(hf.StreamingObserver(buffer_size=1).events(), AsyncIterator)
    for error in (hf.WorkflowNotFound, hf.InvalidStatus):
        assert issubclass(error, hf.HoldfastError)
