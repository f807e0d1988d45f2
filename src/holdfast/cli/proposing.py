"""Commands that we propose: a shell takes them as they are meant, on the store this one was on.

What a command would find by itself, from the variables or by default, is not said again. A
password is never shown: who has one in the URL types it again, or sets the variable.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from os import environ

import click

from holdfast.cli.door import DEFAULT_NAMESPACE, DEFAULT_STORE
from holdfast.cli.options import app_to_type


def typed(verb: str, *words: str, options: Sequence[str] = (), namespace: str | None = None) -> str:
    """Return a command on a run, a queue and so on, in the namespace of this command."""
    name = namespace or _here("namespace") or DEFAULT_NAMESPACE
    is_known = name == (environ.get("HOLDFAST_NAMESPACE") or DEFAULT_NAMESPACE)
    place = () if is_known else ("--namespace", name)
    return _joined(verb, words, (*options, *_store(), *place))


def typed_of_store(verb: str) -> str:
    """Return a command on the whole store."""
    return _joined(verb, (), _store())


def typed_worker(url: str, *, app: str = "", queue: str = "") -> str:
    """Return the command that starts a worker; it names the store, whatever is set elsewhere."""
    serves = ("--queue", queue) if queue else ()
    return _joined("worker", (app or app_to_type(),), ("--store", _shown(url), *serves))


def _store() -> tuple[str, ...]:
    url = _here("url")
    is_known = url in ("", environ.get("HOLDFAST_STORE") or DEFAULT_STORE)
    return () if is_known else ("--store", _shown(url))


def _here(parameter: str) -> str:
    """Return what the command that runs was given, or found."""
    context = click.get_current_context(silent=True)
    return str(context.params.get(parameter) or "") if context else ""


def _shown(url: str) -> str:
    from holdfast.compose import masked

    return masked(url)


def _joined(verb: str, words: Sequence[str], options: Sequence[str]) -> str:
    head = ("holdfast", *verb.split())
    if any(word.startswith("-") for word in words):
        return shlex.join([*head, *options, "--", *words])
    return shlex.join([*head, *words, *options])
