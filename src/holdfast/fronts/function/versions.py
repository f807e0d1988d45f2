"""Which definition runs which run: workflows by name, side by side in several versions.

A run keeps the version it was started with. It is run by the definition of just that version; a
run without a version also by the newest one, and a definition without a version takes the runs of
every version that has none of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from holdfast.fronts.function.workflow import Workflow

AnyWorkflow = Workflow[..., Any]


class Versions:
    """The workflows of an app."""

    def __init__(self) -> None:
        self._newest: dict[str, AnyWorkflow] = {}
        self._all: dict[tuple[str, str], AnyWorkflow] = {}

    @property
    def newest(self) -> Mapping[str, AnyWorkflow]:
        """Of each name what was defined last: new runs start on it."""
        return MappingProxyType(self._newest)

    def __iter__(self) -> Iterator[AnyWorkflow]:
        return iter(self._all.values())

    def add(self, workflow: AnyWorkflow) -> None:
        """Take a definition in; its name and version must not be taken."""
        self._newest[workflow.name] = self._all[workflow.name, workflow.version] = workflow

    def taken(self, workflow: AnyWorkflow) -> AnyWorkflow | None:
        """Return the definition that has this name and version already."""
        return self._all.get((workflow.name, workflow.version))

    def of_run(self, name: str, version: str) -> AnyWorkflow | None:
        """Return the definition that runs what was started with this name and version."""
        found = self._all.get((name, version))
        if found is None:
            found = self._all.get((name, "")) if version else self._newest.get(name)
        return found

    def claims(self) -> tuple[str, ...]:
        """Return what a worker may claim: `name`, or `name/version` where it knows only some."""
        found = {name for name in self._newest if (name, "") in self._all}
        pinned = [(name, version) for name, version in self._all if name not in found]
        found.update(f"{name}/{version}" for name, version in pinned)
        found.update(f"{name}/" for name, _ in pinned)
        return tuple(sorted(found))
