"""A state goes from node to node in memory. What a replay compares is how it came about.

To write a large state out for each node would cost more than all else, and most of it is as it was.
So a walk keeps a digest: that of the state it began with, and after each node one of the digest
before and of what the node changed. The arguments of a node's step are that digest; the state goes
along beside them, and in their place to whoever does the step in another process. A node with a
queue or a cache has the state itself in its arguments: there they are stored, or a key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, cast

from holdfast.fronts.graph.shapes import Shape
from holdfast.machine import current
from holdfast.machine.values import Signature, digest

_TOLD = json.JSONEncoder(separators=(",", ":")).encode


class Packed(bytes):
    """The arguments of a call as a replay compares them; `args` are what they stand for."""

    args: tuple[Any, ...]


class NodeSignature(Signature):
    """How the state of a graph is given to a node's step."""

    shape: Shape

    def sendable(self, payload: bytes) -> bytes:
        """Return the state itself, with the rest of the arguments."""
        return self.encode(payload.args, {}) if isinstance(payload, Packed) else payload

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what to call the function with: a state of its own, which it may change."""
        if not isinstance(payload, Packed):
            return super().decode(payload)
        state, *rest = payload.args
        return (self.shape.lent(state), *rest), {}


def carry(step: Any, state: Any, past: bytes, *rest: Any) -> Coroutine[Any, Any, Any]:
    """Call a node's step with a state that came about by `past`, and the rest of its arguments."""
    machine = current()
    if machine is None:  # a unit test, outside a run
        call: Coroutine[Any, Any, Any] = step(state, *rest)
        return call
    listed = "".join(f",{_TOLD(each)}" for each in rest) if rest else ""
    packed = Packed(f'["{past.hex()}"{listed}]'.encode())
    packed.args = (state, *rest)
    return machine.call_as(machine.take_key(step.name), step, packed, step.settings)


def carried_in(args: bytes) -> Any:
    """Return the state that goes beside these arguments, which nobody may change; or None."""
    return args.args[0] if isinstance(args, Packed) else None


def taking(shape: Shape) -> Callable[..., Signature]:
    """Return what makes the signature of a node's step."""

    def make(function: Callable[..., Any], *, names: Any = None) -> Signature:
        made = cast("NodeSignature", NodeSignature.of(function, names=names))
        made.shape = shape
        return made

    return make


def since(past: bytes, change: bytes) -> bytes:
    """Return the digest after a change of what had the digest `past`."""
    return digest(past + change)
