"""A workflow's input as it is typed: JSON, `@file`, or `name=value` pairs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.cli.strict_json import decoded, parse
from holdfast.errors import InvalidArguments, InvalidTag, InvalidValue

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.fronts.function.workflow import Bound, Workflow


def bound(workflow: Workflow[..., Any], given: Sequence[str]) -> Bound[Any]:
    """Return the workflow with its input, checked by its annotations."""
    names = _parameters(workflow)
    payload = json.dumps(_arguments(workflow, names, _value(given))).encode()
    args, kwargs = workflow.signature.decode(payload)
    return workflow.bind(*args, **kwargs)


def time_of(text: str, field: str) -> datetime:
    """Return a time as it is typed: with a zone, or in the reader's own. Raises `InvalidValue`."""
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r:.60} is no time"
        hint = "Write it as 2027-01-31T08:00 or 2027-01-31T08:00+01:00."
        raise InvalidValue(where="run", path=field, problem=problem, hint=hint) from None
    return found if found.tzinfo else found.astimezone()


def _parameters(workflow: Workflow[..., Any]) -> dict[str, bool]:
    """Return each parameter of the workflow, and whether it must be given."""
    import inspect

    parameters = inspect.signature(workflow.function).parameters.values()
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p.default is p.empty and p.kind not in free for p in parameters}


def _arguments(workflow: Workflow[..., Any], names: dict[str, bool], value: Any) -> dict[str, Any]:
    """Return the value by parameter: an object that names them, or all of it for the only one."""
    given = cast("dict[str, Any] | None", value if isinstance(value, dict) else None)
    by_name = given is not None and set(given) <= set(names)
    if not by_name and len(names) == 1:
        return {next(iter(names)): value}
    missing = [name for name, is_needed in names.items() if is_needed and name not in (given or {})]
    if given is None or not by_name or missing:
        wanted = ", ".join(names) or "nothing"
        what = f"misses {', '.join(missing)}" if by_name else "does not fit"
        raise InvalidArguments(
            where=f"input of {workflow.name}",
            path="-i",
            problem=f"{what}. It takes: {wanted}",
            hint="Give -i name=value for each, or one JSON object: -i '{...}'.",
        )
    return given


def _value(given: Sequence[str]) -> Any:
    """Return what all the `-i` say together. Nothing at all is an empty object."""
    if len(given) == 1 and not _is_pair(given[0]):
        return _json(given[0])
    pairs: dict[str, Any] = {}
    for text in given:
        if not _is_pair(text):
            problem = f"{text!r:.60} is no name=value"
            raise _wrong(problem, "Give several -i only of that kind.")
        name, _, value = text.partition("=")
        if name in pairs:
            raise _wrong(f"{name!r} stands there twice", "Give each name once.")
        pairs[name] = _plain(value)
    return pairs


def attributes_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Return attributes as they are typed: `amount=12`, `is_new=true`, `customer="42"`."""
    attributes: dict[str, Any] = {}
    for text in pairs:
        name, sign, value = text.partition("=")
        if not sign:
            raise InvalidTag(
                field="--attribute", value=text, problem="is no name=value", hint="Write both."
            )
        read = _plain(value) if not value.startswith("@") else value
        attributes[name] = read if isinstance(read, str | int | float) else value
    return attributes


def _is_pair(text: str) -> bool:
    name, sign, _ = text.partition("=")
    return bool(sign) and name.isidentifier()


def _plain(text: str) -> Any:
    """Return JSON if it is some, else the text itself: `total=12`, `name=Ada`."""
    if text.startswith("@"):
        return _json(text)
    if text in ("NaN", "Infinity", "-Infinity"):
        return text
    try:
        return parse(text, where="-i")
    except json.JSONDecodeError:
        return text


def _json(text: str) -> Any:
    source = text
    if text.startswith("@"):
        source = _read(text[1:])
    try:
        return parse(source, where="-i")
    except json.JSONDecodeError as error:
        hint = "Quote a text: -i '\"Ada\"', or name the parameter: -i name=Ada."
        raise _wrong(f"{text[:60]!r} is no JSON ({error})", hint) from error


def _read(name: str) -> str:
    if name == "-":
        return decoded(sys.stdin.buffer.read(), where="-i @-")
    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise _wrong(f"Cannot read {name!r}: {told}", "Name a file you may read.") from error
    return decoded(data, where=f"-i @{name}")


def _wrong(problem: str, hint: str) -> InvalidValue:
    return InvalidValue(where="input", path="-i", problem=problem, hint=hint)
