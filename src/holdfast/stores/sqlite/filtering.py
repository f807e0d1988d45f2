"""A filter as one statement: fixed fragments from `filters.sql`, everything typed is bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from holdfast.model.filters import Operand, Term
from holdfast.model.writes import Filter, Page
from holdfast.stores.sqlite.statements import queries

SQL = queries()
FRAGMENTS: Mapping[tuple[str, str], str] = {
    ("status", ":"): SQL.term_status,
    ("workflow", ":"): SQL.term_workflow,
    ("id", ":"): SQL.term_id,
    ("reason", ":"): SQL.term_reason,
    ("since", ":"): SQL.term_since,
    ("before", ":"): SQL.term_before,
    ("tag", ":"): SQL.term_tag,
    ("text", ":"): SQL.term_text,
    ("attribute", "="): SQL.term_attribute_is,
    ("attribute", ">"): SQL.term_attribute_above,
    ("attribute", ">="): SQL.term_attribute_from,
    ("attribute", "<"): SQL.term_attribute_below,
    ("attribute", "<="): SQL.term_attribute_to,
}

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
        head, order, tail = SQL.find_runs.partition("ORDER BY")
        return "".join((head, "AND ", "\nAND ".join(conditions), "\n", order, tail)), binds
    by_id = filter.ids and not filter.workflow and not filter.id_prefix and page.before_at is None
    return (SQL.find_runs_by_id if by_id else SQL.find_runs), binds


def _condition(term: Term, prefix: str, binds: Binds) -> str:
    """Return what must hold for one term; add its values to the binds, under names of ours."""
    binds[f"{prefix}_name"] = term.name
    fragments: list[str] = []
    for n, value in enumerate(term.values):
        bind = f"{prefix}_v{n}"
        binds[bind] = value
        fragments.append(_renamed(term.key, term.operator, bind, f"{prefix}_name"))
    return ("NOT (" if term.negated else "(") + " OR ".join(fragments) + ")"


@cache
def _renamed(key: str, operator: str, value: str, name: str) -> str:
    fragment = FRAGMENTS[key, operator]
    return fragment.replace(":value", f":{value}").replace(":name", f":{name}")
