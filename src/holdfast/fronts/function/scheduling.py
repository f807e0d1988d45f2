"""What a schedule starts: a workflow with its input, and how its runs are started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from holdfast.errors import BadDefinition
from holdfast.fronts.function.step import Keep
from holdfast.fronts.function.workflow import Bound, Workflow, must_have_no_secrets, not_bound
from holdfast.machine.values import digest
from holdfast.model.durations import Duration, microseconds
from holdfast.model.labels import NO_LABELS, Value, checked_labels
from holdfast.model.queues import checked_priority, checked_queue
from holdfast.model.schedules import How, Schedule


class Work(NamedTuple):
    """What a schedule starts, and when."""

    bound: Bound[Any]
    schedule: Schedule
    how: How

    @property
    def mark(self) -> str:
        """A few letters that change when the declaration does; another release is no change."""
        kept = self.how._replace(version="", shape=b"")
        told = repr((self.schedule.encoded(), self.bound.workflow.name, self.bound.input, kept))
        return blake2b(told.encode(), digest_size=8).hexdigest()


def work_of(  # noqa: PLR0913 - each by its name
    bound: Bound[Any],
    schedule: Schedule,
    *,
    timeout: Duration | Keep | None,
    tags: Sequence[str],
    attributes: Mapping[str, Value],
    queue: str | None,
    priority: int | None,
) -> Work:
    """Return the work of a schedule, checked. Raises what `client.start` raises."""
    if not isinstance(bound, Bound):
        raise not_bound(bound, "app.schedule")
    must_have_no_secrets(bound, "app.schedule")
    if not isinstance(schedule, Schedule):
        raise BadDefinition(
            what=f"A schedule was given {schedule!r:.60} as its times",
            hint='Write hf.Schedule(cron="0 3 * * *").',
        )
    how = how_of(bound.workflow)._replace(input_digest=digest(bound.input))
    given = dict[str, Any]()
    if not isinstance(timeout, Keep):
        limit = None if timeout is None else microseconds(timeout, field="timeout")
        given["timeout"] = limit
    if queue is not None:
        given["queue"] = checked_queue(queue)
    if priority is not None:
        given["priority"] = checked_priority(priority, "schedule")
    labels = checked_labels(tags, attributes) if tags or attributes else NO_LABELS
    return Work(bound, schedule, how._replace(labels=labels, given=tuple(sorted(given)), **given))


def how_of(workflow: Workflow[..., Any]) -> How:
    """Return how runs of a workflow are started, as its code says."""
    return How(
        version=workflow.version, shape=workflow.shape, queue=workflow.queue,
        priority=workflow.priority, timeout=workflow.timeout,
    )  # fmt: skip
