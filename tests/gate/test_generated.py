"""What is written from the code is as the code says."""

import pytest

from scripts import generate_sync


@pytest.mark.parametrize("door", generate_sync.DOORS, ids=lambda door: door.name)
def test_the_sync_door_is_current(door: generate_sync.Door) -> None:
    assert door.target.read_text("utf-8") == generate_sync.generate(door), "run `make docs`"
