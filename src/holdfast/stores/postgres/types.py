"""What only the inside of the driver knows, or is told: array types, and whether TLS is spoken.

The array types that our statements bind and return are told to it beforehand.

The driver knows plain types by heart and asks the server for the rest: on each new connection, in
three round trips, with a query that takes the server longer than all that a start needs. The
numbers of built-in types are part of PostgreSQL's catalogue and never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ARRAYS: Mapping[str, tuple[int, int]] = {
    "bool": (1000, 16),
    "bytea": (1001, 17),
    "int2": (1005, 21),
    "int4": (1007, 23),
    "int8": (1016, 20),
    "numeric": (1231, 1700),
}
"""The number of each array type, and of the type of its elements."""

RECORDS: tuple[Mapping[str, Any], ...] = tuple(
    {
        "oid": array, "name": f"_{name}", "ns": "pg_catalog", "kind": b"b", "basetype": None,
        "elemtype": element, "elemdelim": ",", "elemtype_name": name, "range_subtype": None,
        "attrtypoids": None, "attrnames": None,
    }
    for name, (array, element) in ARRAYS.items()
)  # fmt: skip
"""As the driver's own query would return them."""


def teach(connection: object) -> None:
    """Have the driver know the arrays. One that has no ear for it asks the server, as ever."""
    protocol: Any = getattr(connection, "_protocol", None)
    try:
        protocol.get_settings().register_data_types(RECORDS)
    except (AttributeError, KeyError, TypeError):
        return


def is_encrypted(connection: object) -> bool:
    """Tell whether a connection is, or may be, if the driver does not tell."""
    return bool(getattr(getattr(connection, "_protocol", None), "is_ssl", True))
