"""What is written from the code is as the code says."""

from scripts import generate_sync


def test_the_sync_door_is_current() -> None:
    text = generate_sync.generate(*(source.read_text("utf-8") for source in generate_sync.SOURCES))
    assert generate_sync.TARGET.read_text("utf-8") == text, "run `make docs`"
