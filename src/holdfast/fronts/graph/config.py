"""How the helpers of graphs work, as data. To change one: `dataclasses.replace(config, ...)`."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import BadDefinition

WORKER_CAP = 16
"""How many items `process_parallel` works on at once, at most, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """How `process_parallel` works on its items.

    `max_workers` of them at once; with 0, two for each processor of the machine, but no more than
    `worker_cap` and than there are items. With `fail_fast` the first error ends all; without it
    every item is tried, and what failed is told beside the results.
    """

    max_workers: int = 0
    worker_cap: int = WORKER_CAP
    fail_fast: bool = True

    def __post_init__(self) -> None:
        _check_count("ParallelConfig: max_workers", self.max_workers)
        _check_count("ParallelConfig: worker_cap", self.worker_cap)
        _check_bool("ParallelConfig: fail_fast", self.fail_fast)


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """How `process_chain` works: with `capture_intermediate_states` it keeps each state."""

    capture_intermediate_states: bool = False

    def __post_init__(self) -> None:
        _check_bool("ChainConfig: capture_intermediate_states", self.capture_intermediate_states)


def default_parallel_config() -> ParallelConfig:
    """Return how `process_parallel` works if it is not told otherwise."""
    return ParallelConfig()


def _check_count(field: str, value: object) -> None:
    if type(value) is not int or value < 0:
        raise BadDefinition(
            what=f"{field}={value!r:.60} is no number of workers", hint="Give an int, 0 or more."
        )


def _check_bool(field: str, value: object) -> None:
    if type(value) is not bool:
        raise BadDefinition(what=f"{field}={value!r:.60} is no bool", hint="Give True or False.")
