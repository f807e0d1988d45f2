"""Rows of runs for pure tests."""

from holdfast.model.run import Run


def run(**fields) -> Run:
    """Return the row of a run that worker A holds, with two events."""
    row = Run(
        ns="default", id="r", workflow="w", version="1", status="running", reason="", generation=1,
        epoch=1, seq=2, owner="A", wake_at=None, inbox_seq=0, inbox_read=0, cancel=0, strikes=0,
        input_digest=b"d", created_at=1, updated_at=1, closed_at=None,
    )  # fmt: skip
    return row._replace(**fields)
