"""The suite every store passes. An adapter of your own runs it in ten lines:

    import asyncio
    import pytest
    from holdfast.testing import conformance

    @pytest.mark.parametrize("case", conformance.cases("durable"), ids=str)
    def test_my_store(case, tmp_path):
        asyncio.run(case.run(lambda clock: MyStore(tmp_path / "runs.db", clock=clock)))

Name the capabilities your store has (see `Capability`); the cases that need others are left out.
A store takes `clock`, a function that returns microseconds, and uses it for every lease and timer.
"""

from holdfast.testing.conformance.harness import Capability, Harness, Make, needs, refused
from holdfast.testing.conformance.suite import Case, cases

__all__ = ["Capability", "Case", "Harness", "Make", "cases", "needs", "refused"]
