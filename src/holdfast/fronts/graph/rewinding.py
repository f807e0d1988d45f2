"""The states of a run of a graph, at every node that is done: walked once more, from its history.

Nothing is stored for it. What each node changed is in the history, so a walk on a machine of its
own comes to the same states, whatever checkpoints the run has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.errors import InvalidValue, NonRetryable, UnknownKey
from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.exposing import refuse_exposed, warn_of_exposed
from holdfast.fronts.graph.shapes import NO_VALUES, Shape
from holdfast.fronts.graph.state import State
from holdfast.fronts.graph.tracing import TRACE
from holdfast.fronts.graph.walking import WAY_OUT, checkpoint_key
from holdfast.machine.looking import fed
from holdfast.machine.machine import Body, Machine
from holdfast.machine.values import Signature
from holdfast.model.run import Loaded
from holdfast.model.travel import Edit

At = str | int
"""A place in a run: a node (its last visit), `node:iteration`, or the number of an event."""

SAID = "Checkpoints.fork(...)"
SUPPLIED = "await fork.supply_secret({name!r}, hf.Secret(...))"


class Visit(NamedTuple):
    """A node that is done, with the states before and after it.

    `key` is `node:iteration`, behind the place of its branch or inner graph; `seq` is the number of
    the event with which it was done. The entry to a run is the visit of no node.
    """

    graph: Blueprint
    node: str
    iteration: int
    key: str
    seq: int
    at: int
    before: Any
    after: Any
    way: str = ""
    """The key of the way out of the node, which is to be taken next."""

    @property
    def state(self) -> Any:
        """The state after the node, for whoever wants to change what is in it; without secrets."""
        copied = self.graph.shape.copied(self.after)
        return copied.holding({}) if isinstance(copied, State) else copied


class Rewinding:
    """Keeps each state to which a walk comes. It is a trace."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self._machine: Machine | None = None
        self._open: dict[str, Any] = {}

    def tell(self, type: str, source: str, data: Mapping[str, Any]) -> None:
        """Take a word about what the body is doing right now."""
        machine = self._machine
        if machine is None or machine.loop.dead or type not in ("node.start", "node.complete"):
            return
        node, iteration = data["node"], data["iteration"]
        scope = machine.loop.scope()
        key = scope.path + checkpoint_key(node, iteration)
        if type == "node.start":
            graph, state = self._open[key] = data["input_snapshot"]
            if not self.visits:
                self.visits.append(Visit(graph, "", 0, "", machine.seq, machine.now, state, state))
        elif not data["error"]:
            (graph, before), (_, after) = self._open.pop(key), data["output_snapshot"]
            place, way = (machine.seq, machine.now), scope.next(WAY_OUT.format(node))
            self.visits.append(Visit(graph, node, iteration, key, *place, before, after, way))

    def snapshot(self, name: str, graph: Blueprint, state: Any) -> Mapping[str, Any]:
        """Return the state itself."""
        return {name: (graph, state)}

    def is_saved(self, graph: Blueprint, node: str, iteration: int) -> bool:
        """Tell nothing of checkpoints: each node is kept."""
        return False

    def follow(self, body: Body, signature: Signature, loaded: Loaded) -> list[Visit]:
        """Return what a run visited, in order. Raises what would block the run."""

        async def watched(*given: Any, **named: Any) -> Any:
            TRACE.set(self)
            return await body(*given, **named)

        run = loaded.run
        self._machine = Machine(watched, signature, ns=run.ns, run=run.id)
        with fed(self._machine, run, loaded.events):
            return self.visits


def visit_at(visits: Sequence[Visit], at: At | None, run: str) -> Visit:
    """Return the visit that is meant; without `at`, the last. Raises `UnknownKey`."""
    if isinstance(at, str) and at.isdecimal() and not any(each.node == at for each in visits):
        at = int(at)
    if at is None:
        found = visits[-1:]
    elif isinstance(at, int):
        found = [each for each in visits if each.seq <= at]
    else:
        found = [each for each in visits if at in _names(each)]
    if not found:
        raise UnknownKey(run=run, key=str(at), known=tuple(each.key for each in visits[1:]))
    return found[-1]


def _names(visit: Visit) -> tuple[str, str, str]:
    return visit.node, checkpoint_key(visit.node, visit.iteration), visit.key


def edited(visit: Visit, state: Any) -> Edit:
    """Return what a fork finds after a node that is to come to this state.

    `state` is a whole one, or a dict of the fields that are other than after the node. Raises
    `InvalidValue`, also if it is no node: then nothing is done yet. Warns of secrets as nodes do.
    """
    shape, after = visit.graph.shape, visit.after
    if not visit.node:
        raise InvalidValue(
            where="fork", path="state", problem="no node was done by then, so none left a state",
            hint="Name a node that is done, or begin with another state: "
            "run.fork(input=graph.bind(state)).",
        )  # fmt: skip
    try:
        change = shape.difference(shape.values(after), state, visit.node)
    except NonRetryable as error:
        hint = "Give a whole state, or the fields that are other."
        problem = str(error.args[0])
        raise InvalidValue(where="fork", path="state", problem=problem, hint=hint) from error
    if shape.cls is State:
        _look_for_secrets(shape, change.get("set", NO_VALUES), state)
    wanted = shape.changed(after, change)
    delta = shape.between(visit.before, wanted)
    if isinstance(after, State) and after.forgotten != visit.before.forgotten:
        delta = {**delta, "forget": [*after.forgotten]}
    told = shape.told_crossed(delta, f"state after {visit.key}")
    return Edit(visit.seq, visit.way, visit.key, told)


def _look_for_secrets(shape: Shape, new: Mapping[str, Any], state: Any) -> None:
    """Warn of secrets among new values, or refuse them. Raises `SecretInState`."""
    if shape.is_strict:
        refuse_exposed(new, SAID, line=SUPPLIED)
    elif not isinstance(state, State):  # which has warned where it was set
        warn_of_exposed(new, SAID, line=SUPPLIED, level=4)
