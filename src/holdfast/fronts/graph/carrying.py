"""A state goes from node to node in memory. What a replay compares is how it came about.

To write a large state out for each node would cost more than all else, and most of it is as it was.
So a walk keeps a digest: that of the state it began with, and after each node one of the digest
before and of what the node changed. The arguments of a node's step are that digest; the state goes
along beside them, and in their place to whoever does the step in another process. A node with a
queue or a cache has the state itself in its arguments: there they are stored, or a key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from holdfast.fronts.graph.shapes import Shape
from holdfast.machine import current
from holdfast.machine.values import Signature, digest

_TOLD = json.JSONEncoder(separators=(",", ":")).encode


class Carried(NamedTuple):
    """A state in the hands of its run, and how it came about."""

    state: Any
    past: bytes


class Packed(bytes):
    """The arguments of a call as a replay compares them; `args` are what they stand for."""

    args: tuple[Any, ...]


class NodeSignature(Signature):
    """How the state of a graph is given to a node's step."""

    shape: Shape

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the digest of a carried state, with the rest of the arguments."""
        if kwargs or not args or not isinstance(args[0], Carried):
            return super().encode(args, kwargs)
        given, *rest = args
        listed = "".join(f",{_TOLD(each)}" for each in rest)
        packed = Packed(f'["{given.past.hex()}"{listed}]'.encode())
        packed.args = (given.state, *rest)
        return packed

    def sendable(self, payload: bytes) -> bytes:
        """Return the state itself, with the rest of the arguments."""
        return super().encode(payload.args, {}) if isinstance(payload, Packed) else payload

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what to call the function with: a state of its own, which it may change."""
        if not isinstance(payload, Packed):
            return super().decode(payload)
        state, *rest = payload.args
        return (self.shape.lent(state), *rest), {}


def carried(state: Any, past: bytes) -> Any:
    """Return what to call a node's step with: in a unit test, outside a run, the state itself."""
    return state if current() is None else Carried(state, past)


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
