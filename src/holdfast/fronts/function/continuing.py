"""`hf.continue_as_new`: the running workflow, begun again with other input."""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.errors import BadDefinition
from holdfast.fronts.function.workflow import Bound
from holdfast.machine.continuing import continue_with
from holdfast.machine.primitives import here


def continue_as_new(bound: Bound[Any]) -> NoReturn:
    """End the body, and begin it again with this input: `hf.continue_as_new(poll.bind(cursor))`.

    The run stays open under its id, in its next generation. What came before is kept, and replayed
    no more. Signals that nobody has taken go over, in their order. Steps and tasks under way are
    stopped, as at the end of a body. A run that was asked to cancel ends instead. Raises
    `BadDefinition` if `bound` is not the running workflow with its input, in a task of the body,
    in a saga that has something to undo, and before the body has waited for anything.
    """
    machine = here("hf.continue_as_new()")
    if not isinstance(bound, Bound):
        raise BadDefinition(
            what=f"hf.continue_as_new() was given {bound!r:.60}, not a workflow with its input",
            hint="Write hf.continue_as_new(poll.bind(...)), in the body of poll.",
        )
    if bound.workflow.function is not machine.body:
        raise BadDefinition(
            what=f"hf.continue_as_new() was given {bound.workflow!r}, and another workflow runs",
            hint="A run stays with its workflow: bind the one whose body this is.",
        )
    continue_with(machine, bound.input)
