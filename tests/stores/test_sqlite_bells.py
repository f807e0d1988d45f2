"""What a dead process left beside the file goes when its runs have gone on."""

from pathlib import Path

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance import Harness
from tests.engine.places import until


def left_by(path: Path, worker: str) -> Path:
    """Leave what a worker leaves that was killed: a file that nobody holds the lock of."""
    left = path / "hf.db-workers" / worker
    left.write_text(f"w@holdfast-{worker}")
    return left


async def test_the_bell_of_the_dead_is_taken_down_a_moment_after_the_claim(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.held("r", worker="A")
        left = left_by(tmp_path, "A")
        claimed = await harness.claim("B", eager=True)
        assert claimed.reaped == (("A", 1),)
        await until(lambda: not left.exists())


async def test_who_closes_before_that_takes_it_down_at_once(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.held("r", worker="A")
        left = left_by(tmp_path, "A")
        await harness.claim("B", eager=True)
    assert not left.exists()
