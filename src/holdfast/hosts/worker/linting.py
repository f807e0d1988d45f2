"""Telling what the lint finds, from a thread: reading source takes time that runs need."""

from __future__ import annotations

import threading

from holdfast.app import App


def lint_apart(app: App) -> None:
    """Look through the app's workflows, and log what could not be replayed."""
    workflows = tuple(app.workflows.values())

    def tell() -> None:
        # Imported late: a worker that lives for less than a second never needs it.
        from holdfast.fronts.function import lint

        lint.tell(workflows)

    threading.Thread(target=tell, name="holdfast-lint", daemon=True).start()
