"""JSON Schema for annotations, also where pydantic would give up.

In a module of its own, because a subclass cannot be made before pydantic is imported.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema


class Describer(GenerateJsonSchema):
    """Leaves open what JSON Schema cannot say, and stays silent about it."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        """Return a schema that allows anything, marked with the kind that was not described."""
        return {"$comment": f"python: {schema['type']}"}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Do nothing: a default that is no JSON is left out, and that is enough."""

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Return text: pydantic's pattern for it changes between releases, and digests with it."""
        return {"type": "string", "format": "decimal"}
