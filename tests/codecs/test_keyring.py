"""Keys: what they encrypt comes back, in its own place and with its own key only."""

from pathlib import Path

import pytest

import holdfast as hf

OLD, NEW = hf.KeyRing.new_key(), hf.KeyRing.new_key()
AAD = b"default/order-42/token"


def test_what_is_sealed_comes_back() -> None:
    ring = hf.KeyRing({"2026-11": NEW})
    key, sealed = ring.seal(b"hunter22", AAD)
    assert key == "2026-11"
    assert b"hunter22" not in sealed
    assert ring.unseal(key, sealed, AAD) == b"hunter22"


def test_the_same_bytes_are_sealed_differently_each_time() -> None:
    ring = hf.KeyRing({"k": NEW})
    assert ring.seal(b"hunter22", AAD) != ring.seal(b"hunter22", AAD)


def test_the_current_key_seals_and_a_former_one_still_opens() -> None:
    _, sealed = hf.KeyRing({"old": OLD}).seal(b"x", AAD)
    ring = hf.KeyRing({"new": NEW, "old": OLD}, current="new")
    assert ring.seal(b"x", AAD)[0] == "new"
    assert ring.unseal("old", sealed, AAD) == b"x"


def test_without_a_current_key_the_last_one_seals() -> None:
    assert hf.KeyRing({"old": OLD, "new": NEW}).current == "new"


def test_a_key_that_is_not_on_the_ring_is_named() -> None:
    ring = hf.KeyRing({"new": NEW})
    with pytest.raises(hf.CannotDecrypt, match="Key 'old' is not on the key ring"):
        ring.unseal("old", b"x" * 40, AAD)


@pytest.mark.parametrize(
    ("key", "aad", "cut"),
    [(OLD, AAD, 0), (NEW, b"default/order-43/token", 0), (NEW, AAD, 1)],
    ids=["key", "place", "bytes"],
)
def test_another_key_another_place_or_other_bytes_do_not_open_it(
    key: str, aad: bytes, cut: int
) -> None:
    id, sealed = hf.KeyRing({"k": NEW}).seal(b"hunter22", AAD)
    with pytest.raises(hf.CannotDecrypt, match="does not open it"):
        hf.KeyRing({"k": key}).unseal(id, sealed[: len(sealed) - cut], aad)


@pytest.mark.parametrize("key", [b"short", "c2hvcnQ=", "no base64!", 7, ""])
def test_a_key_of_another_length_is_refused_and_not_shown(key: object) -> None:
    with pytest.raises(hf.BadDefinition, match="Key 'k' of the key ring is not 32 bytes") as raised:
        hf.KeyRing({"k": key})  # type: ignore[dict-item]
    assert "short" not in str(raised.value)


def test_a_ring_without_its_current_key_is_refused() -> None:
    with pytest.raises(hf.BadDefinition, match="no key 'other'"):
        hf.KeyRing({"k": NEW}, current="other")
    with pytest.raises(hf.BadDefinition, match="no key ''"):
        hf.KeyRing({})


def test_the_keys_are_not_shown() -> None:
    ring = hf.KeyRing({"old": OLD, "new": NEW})
    assert repr(ring) == "<key ring of old, new; current new>"


def test_a_ring_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"old:{OLD}, new:{NEW}\n")
    ring = hf.KeyRing.from_env()
    assert (ring.ids, ring.current) == (("old", "new"), "new")
    monkeypatch.setenv("HOLDFAST_KEYS", " ")
    with pytest.raises(hf.BadDefinition, match="HOLDFAST_KEYS holds no keys"):
        hf.KeyRing.from_env()


def test_a_ring_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"old:{OLD}\nnew:{NEW}\n")
    assert hf.KeyRing.from_file(file).ids == ("old", "new")
