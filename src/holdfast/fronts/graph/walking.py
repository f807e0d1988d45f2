"""The walk of a run through its graph: the body of every graph, written with what bodies have.

    visit a node -> its changes -> the first way out that fits -> the next node ... until END

A node that is a step is asked for like any step, so what it changed is recorded once, and after a
crash the walk comes to the same place without running it again. Branches of a fork are tasks: their
keys begin with the branch's first node, `detect[1]/classify.score#1`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, cast

from holdfast.errors import ExecutionError, HoldfastError, InvalidValue, Undecodable
from holdfast.fronts.graph.blueprint import Blueprint, Node
from holdfast.fronts.graph.carrying import since
from holdfast.fronts.graph.edges import END, START, Edge, Fork, Routes
from holdfast.fronts.graph.merging import Branch, merged
from holdfast.fronts.graph.shapes import Delta
from holdfast.machine import Machine, current
from holdfast.machine.decisions import decisions_of, told
from holdfast.machine.edits import has_edits, take_edit
from holdfast.machine.values import digest
from holdfast.model.events import Event
from holdfast.model.makers import maker


class Visit(NamedTuple):
    """Which visit of a walk it is, counted from 1, and on which event it began, and when."""

    iteration: int = 0
    began: int = 0
    at: int = 0


NO_VISIT = Visit()
WAY_OUT = "{}.next"
"""What the ways out of a node are called, which tell its visits apart in a task."""


class Place(NamedTuple):
    """Where a walk has come to, with which state and how that came about.

    A branch goes `until` its join, and knows who wrote its fields since it began.
    """

    node: str
    state: Any
    writers: Mapping[str, str] | None
    past: bytes
    until: str = END
    visit: Visit = NO_VISIT


_new_place, _new_visit = maker(Place), maker(Visit)


class Walk:
    """One run's way. The count of visits is that of all branches together."""

    def __init__(self, graph: Blueprint, visits: list[str] | None = None) -> None:
        self.graph = graph
        self.path: list[str] = [] if visits is None else visits
        self._machine = current()

    async def begin(self, state: Any, secrets: Sequence[str] = ()) -> Any:
        """Be the whole of a run, in which there are secrets of these names. See `run`."""
        machine = self._machine
        if machine is not None:
            state = self.graph.shape.entered(state, machine.run, machine.now, secrets)
        return await self.run(state)

    async def run(self, state: Any) -> Any:
        """Go from START to END; return the last state. Raises `ExecutionError`."""
        past = digest(self.graph.shape.told(state))
        first = await self._leave(Place(START, state, None, past))
        return (await self._go(first)).state

    async def _go(self, place: Place) -> Place:
        forks = self.graph.forks
        while place.node not in (place.until, END):
            place = await self._visit(place)
            # Most nodes have one way out at a time, and nothing is awaited to take it.
            place = await self._leave(place) if place.node in forks else self._follow(place)
        return place

    async def _visit(self, place: Place) -> Place:
        graph, name = self.graph, place.node
        if len(self.path) >= graph.max_iterations:
            raise self._error(place, f"max iterations ({graph.max_iterations:,}) exceeded")
        self.path.append(name)
        machine, visit = self._machine, NO_VISIT
        if machine is not None:
            visit = _new_visit((len(self.path), machine.seq, machine.now))
        node = graph.nodes[name]
        try:
            call = node.call(place.state, place.past)
            delta = await (call if node.kind in ("step", "run") else _in_a_task(node, call))
        except ExecutionError:
            raise
        except Exception as error:
            raise self._error(place._replace(visit=visit), in_short(error)) from error
        if machine is not None and machine.past is not None and has_edits(machine, machine.past):
            delta = _found(machine, machine.past, graph, name, delta)
        shape = graph.shape
        state = shape.changed(place.state, delta)
        if shape.is_placed:
            state = shape.passed(state, name, 0 if machine is None else machine.now)
        past = since(place.past, shape.told_change(delta))
        if graph.checkpoint.interval and graph.checkpoint.is_due(visit.iteration):
            _mark(machine, name, visit.iteration, preserve=graph.checkpoint.preserve)
        writers = None if place.writers is None else _wrote(place, delta)
        return _new_place((name, state, writers, past, place.until, visit))

    async def _leave(self, place: Place) -> Place:
        """Return where to go from a node that is done."""
        graph, name = self.graph, place.node
        if name in graph.exits or name not in graph.forks:
            return self._follow(place)
        fork = graph.forks[name]
        fields = {"from": name, "fork": fork.branches, "join": fork.join}
        self._record(place, WAY_OUT.format(name), told(fields))
        return await self._fork(fork, place)

    def _follow(self, place: Place) -> Place:
        """Return where the way out of a node leads."""
        name = place.node
        if name in self.graph.exits:
            self._record(place, WAY_OUT.format(name), told({"from": name, "to": END}), END)
            return place._replace(node=END)
        try:
            _, found = self._choose(place)
        except HoldfastError:
            raise
        except Exception as error:
            problem = f"the way out cannot be chosen: {type(error).__name__}: {error}"
            raise self._error(place, problem) from error
        return _new_place((
            found, place.state, place.writers, place.past, place.until, NO_VISIT,
        ))  # fmt: skip

    def _choose(self, place: Place) -> tuple[int, str]:
        """Return the first way that fits, by its place among those of the node, and its target."""
        node, ways = place.node, self.graph.ways.get(place.node, ())
        for index, way in enumerate(ways):
            if isinstance(way, Routes):
                target = self._routed(way, place)
            elif way.predicate is None or way.predicate(place.state):
                target = way.target
            else:
                continue
            if node != START or is_choice(way, ways):
                known = self.graph.decisions.get((node, index, target))
                self._record(place, *(known or self._decision(node, index, target)), target)
            return index, target
        tried = ", ".join(way.name for way in ways)
        raise self._error(place, f"no valid transition: {tried} did not hold")

    def _decision(self, node: str, index: int, target: str) -> tuple[str, bytes]:
        """Return what is recorded of a way that was taken; those before it did not hold."""
        decision = _decision(node, target, self.graph.ways[node][: index + 1])
        found = self.graph.decisions[node, index, target] = (WAY_OUT.format(node), decision)
        return found

    def _routed(self, routes: Routes, place: Place) -> str:
        chosen = routes.router(place.state)
        try:
            return routes.targets[chosen]
        except (KeyError, TypeError):
            known = ", ".join(map(repr, routes.targets))
            problem = f"router {routes.name} returned {chosen!r:.60}, which is none of {known}"
            raise self._error(place, problem) from None

    async def _fork(self, fork: Fork, place: Place) -> Place:
        graph = self.graph
        began = [Place(branch, place.state, {}, place.past, fork.join) for branch in fork.branches]
        ended = await _together([_named(b.node, self._go(b)) for b in began])
        shape = graph.shape
        done = [Branch(shape.values(each.state), each.writers or {}) for each in ended]
        try:
            update, writers = merged(shape.values(place.state), done, fork.rules)
            delta = shape.crossed({"set": update})
        except Exception as error:
            raise self._error(place, in_short(error)) from error
        state = shape.changed(place.state, delta)
        state = shape.joined(state, [each.state for each in ended])
        past = since(place.past, shape.told_change(delta))
        known = None if place.writers is None else {**place.writers, **writers}
        place = Place(fork.join, state, known, past, place.until)
        if fork.join not in (place.until, END):
            met = told({"from": fork.source, "to": fork.join})
            self._record(place, f"{fork.source}.join", met)
        return place

    def _record(self, place: Place, name: str, decision: bytes, target: str = "") -> None:
        """Record which way was taken, with the visit that it ends and the one that follows.

        Outside a machine, as in a unit test, there is no record.
        """
        machine = self._machine
        if machine is None:
            return
        (iteration, began, at), took = place.visit, None
        more = b""
        if iteration:
            took = machine.now - at
            more = b',"iteration":%d,"began":%d' % (iteration, began)
        if target not in (place.until, END):
            more = b'%b,"next":%d' % (more, len(self.path) + 1)
        (machine.decisions or decisions_of(machine)).say(name, decision[:-1] + more + b"}", took)

    def _error(self, place: Place, problem: str) -> ExecutionError:
        return ExecutionError(
            graph=self.graph.name, node=place.node, problem=problem, path=tuple(self.path),
            state=place.state, visit=_visit_of(place),
        )  # fmt: skip


def is_choice(way: Edge | Routes, ways: Sequence[Edge | Routes]) -> bool:
    """Tell whether a way is one of several that could have been taken."""
    return len(ways) > 1 or isinstance(way, Routes)


def _decision(source: str, target: str, ways: Sequence[Edge | Routes]) -> bytes:
    """Return the record of the last of these ways."""
    *before, taken = ways
    fields: dict[str, Any] = {"from": source, "to": target}
    if taken.name:
        fields["by"] = taken.name
    if before:  # of edges only: a router goes somewhere, or fails
        fields["rejected"] = [{"to": e.target, "by": e.name} for e in before if isinstance(e, Edge)]
    return told(fields)


def _visit_of(place: Place) -> dict[str, object]:
    """Return what the record of a failure tells of the visit that failed."""
    machine = current()
    if machine is None or not place.visit.iteration:
        return {}
    within, took = machine.loop.scope().path, machine.now - place.visit.at
    fields = {"iteration": place.visit.iteration, "took": took}
    return {**fields, "within": within} if within else {**fields}


def _wrote(place: Place, delta: Delta) -> Mapping[str, str]:
    """Return who wrote what, with what a node has changed now."""
    names = (*delta.get("set", ()), *delta.get("unset", ()))
    return {**(place.writers or {}), **dict.fromkeys(names, place.node)}


def _found(
    machine: Machine, events: Sequence[Event], graph: Blueprint, node: str, delta: Delta
) -> Delta:
    """Return what a node changed that is done now, or what a fork finds in its place."""
    edit = take_edit(machine, events, WAY_OUT.format(node))
    if edit is None:
        return delta
    try:
        return graph.shape.change_in(edit.change)
    except InvalidValue as error:
        what, problem = f"the state after {edit.after}", str(error.args[0])
        machine.violation = Undecodable(seq=machine.seq, what=what, problem=problem)
        raise machine.violation from error


def _mark(machine: Machine | None, node: str, iteration: int, *, preserve: bool) -> None:
    """Record that a node is done whose checkpoint is wanted."""
    if machine is not None:
        more = {"preserve": True} if preserve else {}
        payload = told({"node": node, "iteration": iteration, **more})
        decisions_of(machine).mark(checkpoint_key(node, iteration), payload)


def checkpoint_key(node: str, iteration: int) -> str:
    """Return how a checkpoint is named among those of one walk."""
    return f"{node}:{iteration}"


def in_short(error: BaseException) -> str:
    """Return what an error says, for a message that names the place itself."""
    told = str(error.args[0]) if error.args else ""
    if isinstance(error, HoldfastError):
        return told
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


async def _in_a_task(node: Node, call: Awaitable[Delta]) -> Delta:
    """Await code of the graph itself in a task, and so with keys of its own."""
    return await asyncio.create_task(_named(node.name, _awaited(call)))


async def _awaited(call: Awaitable[Delta]) -> Delta:
    return await call


def _named(name: str, coroutine: Any) -> Coroutine[Any, Any, Any]:
    """Name a coroutine, and so the keys of its task."""
    coroutine.__name__ = name
    return cast("Coroutine[Any, Any, Any]", coroutine)


async def _together(branches: Sequence[Coroutine[Any, Any, Place]]) -> list[Place]:
    """Go all branches to their ends. One that fails ends the others."""
    tasks = [asyncio.create_task(branch) for branch in branches]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    failed = [task for task in tasks if not task.cancelled() and task.exception() is not None]
    for task in failed:
        task.result()
    return [task.result() for task in tasks]
