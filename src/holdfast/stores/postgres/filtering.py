"""A filter as one statement: fixed fragments from `filters.sql`, everything typed is bound."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from holdfast.model.filters import Term
from holdfast.model.writes import Filter, Page
from holdfast.stores.postgres.statements import Statement, fragments, queries, statement

SQL = queries()
TEXT = fragments()
FRAGMENTS: Mapping[str, str] = {
    key: TEXT[f"term_{key}"]
    for key in ("status", "workflow", "queue", "id", "reason", "since", "before", "text")
}
COMPARED: Mapping[str, str] = {
    ":": "is", "=": "is", ">": "above", ">=": "from", "<": "below", "<=": "to",
}  # fmt: skip
LABELLED = ("tag", "attribute")

Binds = dict[str, Any]


def statement_of(filter: Filter, page: Page) -> tuple[Statement, Binds]:
    """Return the statement that finds the page, and what is bound in it."""
    binds: Binds = {
        "ns": filter.ns,
        "statuses": list(filter.statuses) or None,
        "workflow": filter.workflow,
        "id_prefix": filter.id_prefix,
        "ids": list(filter.ids) or None,
        "created_after": filter.created_after,
        "before_at": page.before_at,
        "before_id": page.before_id,
        "limit": page.limit,
    }
    if filter.terms:
        conditions = [_condition(term, f"t{n}", binds) for n, term in enumerate(filter.terms)]
        head, order, tail = TEXT["find_runs"].partition("ORDER BY")
        return statement(
            "".join((head, "AND ", "\nAND ".join(conditions), "\n", order, tail))
        ), binds
    if filter == Filter(filter.ns, statuses=("blocked",)):
        return SQL.find_blocked_runs, binds
    by_id = filter.ids and not filter.workflow and not filter.id_prefix and page.before_at is None
    return (SQL.find_runs_by_id if by_id else SQL.find_runs), binds


def _condition(term: Term, prefix: str, binds: Binds) -> str:
    """Return what must hold for one term; add its values to the binds, under names of ours."""
    choices: list[str] = []
    for n, value in enumerate(term.values):
        is_word = isinstance(value, str)
        if isinstance(value, str) and "\0" in value:
            choices.append(TEXT["term_never"])
            continue
        # A float's exact value: as it is kept, and as Python compares it.
        exact = term.key in LABELLED and not is_word
        binds[f"{prefix}_v{n}"] = Decimal(value) if exact else value
        fragment = (
            FRAGMENTS.get(term.key)
            or TEXT[f"{'word' if is_word else 'number'}_{COMPARED[term.operator]}"]
        )
        choices.append(fragment.replace(":value", f":{prefix}_v{n}"))
    condition = " OR ".join(choices)
    if term.key in LABELLED:
        binds[f"{prefix}_name"] = term.name if term.key == "attribute" else ""
        labelled = TEXT["term_labelled"].replace(":name", f":{prefix}_name")
        condition = labelled.replace(":conditions", condition)
    return f"NOT ({condition})" if term.negated else f"({condition})"
