"""How values cross the line between bodies and steps.

A value becomes canonical JSON by its annotation, is read back, and is compared with the original:
what would come back different is refused at the call, with the path and the annotation to write.
So no object is shared across the line, and nothing is lost in silence.

- `schema` holds one annotation, `signature` the parameters of one function
- `codec` encodes, decodes and compares by a core schema; `core` prepares that schema
- `compare`, `walk`, `limits` and `advice` are for the values that are not plain, or not allowed
"""

from holdfast.machine.values.codec import MAX_DEPTH, MAX_DIGITS, MAX_PAYLOAD
from holdfast.machine.values.schema import Schema, digest, encoded
from holdfast.machine.values.signature import Signature

__all__ = ["MAX_DEPTH", "MAX_DIGITS", "MAX_PAYLOAD", "Schema", "Signature", "digest", "encoded"]
