"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli import completing
from holdfast.cli.door import DEFAULT_NAMESPACE, DEFAULT_STORE, Door

APP = "HOLDFAST_APP"
F = TypeVar("F", bound=Callable[..., Any])


def _store(required_by: F) -> F:
    return click.option(
        "--store", "url", envvar="HOLDFAST_STORE", default=DEFAULT_STORE, show_default=True,
        metavar="URL", help="The store (or HOLDFAST_STORE).",
    )(required_by)  # fmt: skip


def _namespace(required_by: F) -> F:
    return click.option(
        "--namespace", envvar="HOLDFAST_NAMESPACE", default=DEFAULT_NAMESPACE, show_default=True,
        metavar="NAME", help="The namespace (or HOLDFAST_NAMESPACE).",
    )(required_by)  # fmt: skip


def with_url(function: F) -> F:
    """Give the command the store's `url`."""
    return _store(function)


def with_door(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command a `door` to the store."""
    from functools import update_wrapper

    def command(*args: Any, url: str, namespace: str, **kwargs: Any) -> Any:
        return function(*args, door=Door(url, namespace), **kwargs)

    return _store(_namespace(update_wrapper(command, function)))


class AppName(click.types.StringParamType):
    """An app as it is typed; who types none is told both ways to name it."""

    name = "app"
    HOW = f"Name the file that defines it, such as shop.py, here or once: export {APP}=shop.py"

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Say how to name it."""
        return self.HOW


def app_to_type() -> str:
    """Return how a command that we propose should name the app."""
    from os import environ

    return environ.get(APP) or "APP"


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
reason = click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
run_id = click.argument("run", metavar="RUN", shell_complete=completing.runs)
"""An id, a unique prefix of one, `@last` or `@failed`."""
