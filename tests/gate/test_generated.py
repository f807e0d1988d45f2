"""What is written from the code is as the code says."""

from scripts import generate_sync


def test_the_sync_door_is_current() -> None:
    text = generate_sync.generate(generate_sync.SOURCE.read_text("utf-8"))
    assert generate_sync.TARGET.read_text("utf-8") == text, "run `make docs`"
