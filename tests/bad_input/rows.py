"""The table of bad input: every row that is promised, and where it is tested.

A row has cases in `test_bad_input.py`, or a reason why there is nothing to feed it to yet.
"""

LATER_HTTP = "there is no HTTP server yet"

ROWS: dict[str, str] = {
    "unknown workflow": "",
    "arguments do not fit": "",
    "value too large": "",
    "value too complex": "",
    "value without a JSON form": "",
    "Secret in a value": "",
    "duplicate JSON keys": "",
    "bad bytes or files": "",
    "result of an unknown type": "",
    "id or name that cannot be stored": "",
    "same id, other work": "",
    "signal to nobody": "",
    "key that is none": "",
    "query or update": "",
    "answer to nobody": "",
    "point that is none": "",
    "delay that is none": "",
    "retry policy": "",
    "settings": "",
    "reason": "",
    "page": "",
    "filter": "",
    "tag or attribute": "",
    "imported file": "",
    "definition": "",
    "cache": "",
    "duplicate step": "",
    "store URL": "",
    "cron text": "",
    "undecodable history": "blocks the run: tests/engine/test_blocked.py",
    "unknown signal name in strict mode": "no workflow declares its signals",
    "nested functions": "allowed: a step is found by its registered name, never imported by it",
    "non-JSON body, content type, gzip": LATER_HTTP,
    "Last-Event-ID": LATER_HTTP,
    "priority, concurrency, unknown queue": "tests/engine/test_limits.py, test_queues.py",
    "graph that cannot be built": "tests/fronts/graph/test_building.py",
    "clock off the store's": "no other clock counts: tests/stores/test_postgres_clock.py",
    "blob missing": "blocks the run: tests/engine/test_payloads.py",
}
"""Row -> why it is not here, or nothing if it is."""
