"""A filter as one statement: fixed fragments from `filters.sql`, everything typed is bound."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holdfast.model.filters import Operand, Term
from holdfast.model.writes import Filter, Page
from holdfast.stores.sqlite.statements import queries

SQL = queries()
FRAGMENTS: Mapping[tuple[str, str], str] = {
    ("status", ":"): SQL.term_status,
    ("workflow", ":"): SQL.term_workflow,
    ("queue", ":"): SQL.term_queue,
    ("id", ":"): SQL.term_id,
    ("reason", ":"): SQL.term_reason,
    ("since", ":"): SQL.term_since,
    ("before", ":"): SQL.term_before,
    ("text", ":"): SQL.term_text,
    ("tag", ":"): SQL.value_is,
    ("attribute", "="): SQL.value_is,
    ("attribute", ">"): SQL.value_above,
    ("attribute", ">="): SQL.value_from,
    ("attribute", "<"): SQL.value_below,
    ("attribute", "<="): SQL.value_to,
}

INDEXED = ("tag", "attribute")
"""Keys that an index of their own finds, instead of a walk through all runs."""

Binds = dict[str, Operand | None]


def statement_of(filter: Filter, page: Page) -> tuple[str, Binds]:
    """Return the statement that finds the page, and what is bound in it."""
    binds: Binds = {
        "ns": filter.ns,
        "statuses": json.dumps(filter.statuses) if filter.statuses else None,
        "workflow": filter.workflow,
        "id_prefix": filter.id_prefix,
        "ids": json.dumps(filter.ids) if filter.ids else None,
        "created_after": filter.created_after,
        "before_at": page.before_at,
        "before_id": page.before_id,
        "limit": page.limit,
    }
    if filter.terms:
        conditions = [_condition(term, f"t{n}", binds) for n, term in enumerate(filter.terms)]
        is_indexed = any(term.key in INDEXED and not term.negated for term in filter.terms)
        whole = SQL.find_labelled_runs if is_indexed else SQL.find_runs
        head, order, tail = whole.partition("ORDER BY")
        return "".join((head, "AND ", "\nAND ".join(conditions), "\n", order, tail)), binds
    if filter == Filter(filter.ns, statuses=("blocked",)):
        return SQL.find_blocked_runs, binds
    by_id = filter.ids and not filter.workflow and not filter.id_prefix and page.before_at is None
    return (SQL.find_runs_by_id if by_id else SQL.find_runs), binds


def _condition(term: Term, prefix: str, binds: Binds) -> str:
    """Return what must hold for one term; add its values to the binds, under names of ours."""
    fragment = FRAGMENTS[term.key, term.operator]
    choices: list[str] = []
    for n, value in enumerate(term.values):
        binds[f"{prefix}_v{n}"] = value
        choices.append(fragment.replace(":value", f":{prefix}_v{n}"))
    condition = " OR ".join(choices)
    if term.key in INDEXED:
        binds[f"{prefix}_name"] = term.name if term.key == "attribute" else ""
        labelled = SQL.term_labelled.replace(":name", f":{prefix}_name")
        condition = labelled.replace(":conditions", condition)
    return f"NOT ({condition})" if term.negated else f"({condition})"
