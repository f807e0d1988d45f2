"""Several items done by one execution of a step, with one record.

Each item has a key of its own, which is its idempotency key there. An item that fails in its chunk
is asked for again under that key, as an ordinary step with the attempts that its policy allows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.errors import HoldfastError, StepFailed, Undecodable
from holdfast.fronts.function.context import CURRENT, Attempt
from holdfast.fronts.function.step import Step, make_step
from holdfast.machine.machine import Machine
from holdfast.model.annotations import LogLine
from holdfast.model.failures import in_a_line, said
from holdfast.model.options import StepOptions
from holdfast.model.retry import NO_RETRY
from holdfast.model.secrets import Secret

_CHUNKED: WeakKeyDictionary[Step[..., Any], Step[..., Any]] = WeakKeyDictionary()


def run_chunk(machine: Machine, step: Step[..., Any], items: Sequence[Any]) -> Any:
    """Return a coroutine that gives what came of each item: a tuple with its value, or an error."""
    calls = [step.signature.encode((item,), {}) for item in items]
    return chunk(machine, step, calls)


async def chunk(machine: Machine, step: Step[..., Any], calls: list[bytes]) -> list[Any]:
    """Do all of them together, and those that fail one by one. Its name is a part of the keys."""
    keys = [machine.take_key(step.name) for _ in calls]
    texts = [call.decode() for call in calls]
    together: Any = _chunked(step)
    told: list[dict[str, str]] = [{} for _ in calls]
    with suppress(StepFailed):
        told = await machine.call(together, (texts, keys), {}, _options(step, len(calls)))
    return [
        _decoded(machine, step, each["result"], key)
        if "result" in each
        else await _again(machine, step, call, key)
        for call, key, each in zip(calls, keys, told, strict=True)
    ]


async def _again(machine: Machine, step: Any, call: bytes, key: str) -> Any:
    """Do one item alone."""
    try:
        return (await machine.call_as(key, step, call, step.settings),)
    except Exception as error:
        return error


def _decoded(machine: Machine, step: Step[..., Any], result: str, key: str) -> tuple[Any]:
    where = f"result of {key}"
    try:
        return (step.signature.result.decode(result.encode(), where=where),)
    except HoldfastError as error:
        problem = str(error.args[0])
        # Whatever the body catches: it must not go on with what cannot be read.
        machine.violation = Undecodable(seq=machine.seq, what=f"the {where}", problem=problem)
        raise machine.violation from error


def _options(step: Step[..., Any], count: int) -> StepOptions:
    timeout = step.settings.timeout
    return step.settings._replace(
        retry=NO_RETRY, timeout=None if timeout is None else timeout * count, total_timeout=None
    )


def _chunked(step: Step[..., Any]) -> Step[..., Any]:
    """Return the step that does several calls of `step`."""
    found = _CHUNKED.get(step)
    if found is None:
        found = _CHUNKED[step] = make_step(
            _runner(step), name=f"{step.name}*", secrets=step.secrets
        )
    return found


def _runner(step: Step[..., Any]) -> Any:
    # `step.function` is looked up at each call: a test may have put a fake in its place.
    async def run(calls: list[str], keys: list[str]) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for call, key in zip(calls, keys, strict=True):
            with _as_item(key) as told:
                args, kwargs = step.signature.decode(call.encode())
                told["result"] = _crossed(step, await step.function(*args, **kwargs), key)
            found.append(told)
        return found

    def run_here(calls: list[str], keys: list[str]) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for call, key in zip(calls, keys, strict=True):
            with _as_item(key) as told:
                args, kwargs = step.signature.decode(call.encode())
                told["result"] = _crossed(step, step.function(*args, **kwargs), key)
            found.append(told)
        return found

    return run if step.is_async else run_here


def _crossed(step: Step[..., Any], value: Any, key: str) -> str:
    return step.signature.result.cross(value, where=f"result of step {key}")[0].decode()


@contextmanager
def _as_item(key: str) -> Generator[dict[str, str]]:
    """Let the code of one item see its own key; keep why it failed, if it does."""
    told: dict[str, str] = {}
    token = CURRENT.set(_Item(CURRENT.get(), key))
    try:
        yield told
    except Exception as error:
        told["error"] = in_a_line(type(error).__name__, said(error))
    finally:
        CURRENT.reset(token)


class _Item(Attempt):
    """One item of a chunk: it speaks through the attempt that does the whole."""

    __slots__ = ("_whole",)

    def __init__(self, whole: Attempt, key: str) -> None:
        super().__init__(whole.ns, whole.run, whole.generation, key, whole.number)
        self._whole, self.stopped = whole, whole.stopped

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """What the step lists, by name."""
        return self._whole.secrets

    @property
    def keyed_as(self) -> int:
        """The generation in its idempotency key."""
        return self._whole.keyed_as

    def beat(self, details: bytes | None) -> None:
        """Say that the chunk is alive."""
        self._whole.beat(details)

    def say(self, line: LogLine) -> None:
        """Leave a line in the run's log."""
        self._whole.say(line)

    def earlier(self) -> bytes | None:
        """Return the details that an earlier attempt left."""
        return self._whole.earlier()
