"""`--json`, with or without a choice of fields: `--json`, `--json id,status`, `--json=id`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

ALL = "*"
NAMES = re.compile(r"[a-z_]+(,[a-z_]+)*")
NEGATED = re.compile(r"-[A-Za-z_][A-Za-z0-9_.-]*[:=<>]")

option = click.option(
    "--json", "chosen", metavar="[FIELDS]",
    help="Print JSON and nothing else; --json id,status for chosen fields.",
)  # fmt: skip


class JsonCommand(click.Command):
    """A command whose `--json` may stand alone, and whose words may begin with `-key:`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say which word belongs to `--json`, and that `-tag:x` is no option."""
        return super().parse_args(ctx, _sorted(_joined(args)))


def _joined(args: Sequence[str]) -> list[str]:
    """Put the fields behind `--json=`; a word that names none is the next argument."""
    joined: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        if word != "--json":
            joined.append(word)
        elif rest and _names_fields(rest[0]):
            joined.append(f"--json={rest.pop(0)}")
        else:
            joined.append(f"--json={ALL}")
    return joined


def _names_fields(word: str) -> bool:
    from holdfast.cli.documents import RUN_FIELDS

    return bool(NAMES.fullmatch(word)) and ("," in word or word in (*RUN_FIELDS, "history"))


def _sorted(args: list[str]) -> list[str]:
    end = args.index("--") if "--" in args else len(args)
    negated = [word for word in args[:end] if NEGATED.match(word)]
    if not negated:
        return args
    return [*(word for word in args[:end] if word not in negated), "--", *negated, *args[end + 1 :]]


def fields_of(chosen: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen names. Raises `click.BadParameter` for one that is not there."""
    if chosen in (None, ALL):
        return tuple(known)
    names = tuple(name.strip() for name in str(chosen).split(","))
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(known)
        raise click.BadParameter(
            f"no field {unknown[0]!r}; there are: {listed}", param_hint="--json"
        )
    return names


def only(document: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the chosen fields of a document, in their order."""
    return {name: document[name] for name in names}
