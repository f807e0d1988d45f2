"""What a body asks when its code has changed under open runs. `changes.py` has the theory."""

from __future__ import annotations

from holdfast.errors import BadDefinition, InvalidName
from holdfast.machine.changes import Changes, changes_of
from holdfast.machine.primitives import here

NAME_LIMIT = 255


def patched(change: str) -> bool:
    """Tell whether this run takes up the change of that name: the same for its whole life.

    True in a turn that is new, which leaves a note in the history; in a replayed one only if the
    note is there. Write `if hf.patched("..."):` around new code and keep the former in the `else`.
    """
    return _changes("hf.patched()", change).version(change, 1) > 0


def deprecate_patch(change: str) -> None:
    """Say that only the new code of a change is left: call it where `patched` was.

    Runs with the note and runs without it are accepted, and the note it leaves need not be asked
    for any more. When all runs that were open before are closed, remove the call.
    """
    _changes("hf.deprecate_patch()", change).deprecate(change)


def get_version(change: str, minimum: int, maximum: int) -> int:
    """Return which version of a change this run follows: the same for its whole life.

    `maximum` in a turn that is new, which leaves a note; in a replayed one what the note says, or
    0 without one: the code from before the change. Raises `UnsupportedVersion` if that is below
    `minimum` or above `maximum`; the run is then blocked until code that knows it is back.
    """
    changes = _changes("hf.get_version()", change)
    numbers: tuple[object, ...] = (minimum, maximum)
    is_fit = all(type(number) is int for number in numbers) and 0 <= minimum <= maximum
    if not is_fit or maximum == 0:
        raise BadDefinition(
            what=f"hf.get_version({change!r}, {minimum!r}, {maximum!r}) names no range of versions",
            hint="Give the oldest and the newest version this code knows: 0 <= oldest <= newest.",
        )
    return changes.supported(change, minimum, maximum)


def _changes(call: str, change: object) -> Changes:
    """Return the changes of the body that runs. Raises `NotInBody` or `InvalidName`."""
    machine = here(call)
    if not isinstance(change, str):
        raise InvalidName(field="change", value=repr(change), problem="is no text")
    if not 1 <= len(change) <= NAME_LIMIT:
        raise InvalidName(field="change", value=change, problem=f"has {len(change)} characters")
    if not change.isprintable():
        problem = "has a character that cannot be printed"
        raise InvalidName(field="change", value=change, problem=problem)
    return changes_of(machine)
