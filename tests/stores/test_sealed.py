"""The store around a store: what it seals, and that it forgets nothing that can be sealed."""

import typing
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.blobs.memory import MemoryBlobs
from holdfast.codecs.keyring import KeyRing
from holdfast.errors import BlobMissing, CannotDecrypt
from holdfast.model import sizes, writes
from holdfast.model.events import CLASS_OF, Event
from holdfast.model.run import Message
from holdfast.model.writes import Advance
from holdfast.stores.envelope import BLOB, ENCRYPTED, Place, encrypted_in, fits, reference_in
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sealed import SealedStore
from holdfast.stores.sealed.blobs import Blobs
from holdfast.stores.sealed.opening import Opener
from holdfast.stores.sealed.sealing import Sealer

RING = KeyRing({"k": bytes(32)})
PLAIN = {
    "Create.input_digest": "hidden by a pad",
    "Create.also": "hidden by pads; never stored",
    "Run.input_digest": "hidden by a pad",
    "Event.digest": "inside the encrypted bytes if it tells of arguments; else of code",
    "How.input_digest": "hidden by a pad",
    "Define.shape": "of code",
    "How.shape": "of code",
    "Sealed.sealed": "encrypted where it is given",
    "Job.terms": "limits of time, and how it is to be done",
}
SEALED = {
    "Event.payload", "Message.payload", "Message.reply", "Replied.payload", "Answer.payload",
    "CachedResult.result",
    "Wait.asked", "Wait.answer", "Job.args", "Scheduled.input",
    "Progress.details", "LogLine.fields",
}  # fmt: skip


def bytes_in(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Yield each field of bytes that is reachable from a type."""
    for part in get_args(kind):
        yield from bytes_in(part, seen)
    if not hasattr(kind, "_fields") or kind in seen:
        return
    seen.add(kind)
    for field, hint in typing.get_type_hints(kind).items():
        if bytes in (hint, *get_args(hint)):
            yield f"{kind.__name__}.{field}"
        yield from bytes_in(hint, seen)


def test_every_field_of_bytes_that_is_written_is_sealed_or_says_why_not() -> None:
    found = set(bytes_in(writes.Write, set()))
    assert found == SEALED | PLAIN.keys()


class Kept:
    """Takes uploads at once."""

    def __init__(self) -> None:
        self.uploads = Blobs(MemoryBlobs(lambda: 0), lambda: 0).uploads()

    def opener(self, keys: KeyRing | None) -> Opener:
        return Opener(keys, dict(self.uploads.waiting))


@given(
    kind=st.sampled_from(sorted(CLASS_OF)),
    key=st.text(max_size=20).filter(lambda text: text.isprintable()),
    payload=st.none() | st.binary(max_size=300).map(lambda data: b'"' + data),
    digest=st.none() | st.binary(min_size=8, max_size=8) | st.binary(min_size=16, max_size=16),
    is_encrypted=st.booleans(),
)
def test_an_event_of_any_size_and_kind_comes_back(
    kind: Any, key: str, payload: bytes | None, digest: bytes | None, is_encrypted: bool
) -> None:
    keys, kept = RING if is_encrypted else None, Kept()
    given = Event(kind, 5, key, payload, digest=digest, seq=3)
    sealed = Sealer(keys, 100, kept.uploads.add).event("ns", "run", given)
    assert kept.opener(keys).event("ns", "run", sealed) == given
    assert len(sealed.payload or b"") <= 120
    if is_encrypted and digest is not None and len(digest) == 16:
        assert sealed.digest is None


def test_what_is_encrypted_names_its_key_and_its_place() -> None:
    sealed = Sealer(RING, 10_000, None).event("ns", "run", Event("step.completed", 0, "a#1", b"1"))
    assert (sealed.codec, (sealed.payload or b"")[0]) == (ENCRYPTED, ENCRYPTED)
    found = encrypted_in(sealed.payload or b"")
    assert (found.key, found.place) == ("k", Place("ns", "run", "event\0step.completed\0a#1"))


def test_a_blob_is_named_by_its_hash_and_never_alike() -> None:
    one, other = Kept(), Kept()
    names = set()
    for kept in (one, other):
        sealed = Sealer(None, 3, kept.uploads.add).event(
            "ns", "r", Event("run.started", 0, "", b"12345")
        )
        assert sealed.codec == BLOB
        reference = reference_in(sealed.payload)
        assert reference is not None
        assert reference.size == 5
        assert fits(reference.name, b"12345")
        names.add(reference.name)
    assert len(names) == 2


@pytest.mark.parametrize(
    "moved",
    [
        {"ns": "other"}, {"run": "other"}, {"key": "a#2"}, {"kind": "step.failed"},
    ],
    ids=str,
)  # fmt: skip
def test_bytes_that_were_moved_elsewhere_are_not_read(moved: dict[str, Any]) -> None:
    sealed = Sealer(RING, 10_000, None).event("ns", "run", Event("step.completed", 0, "a#1", b"1"))
    place = {"ns": "ns", "run": "run", **{k: v for k, v in moved.items() if k in ("ns", "run")}}
    changed = {name: value for name, value in moved.items() if name in ("key", "kind")}
    with pytest.raises(CannotDecrypt, match="belongs elsewhere"):
        Opener(RING, {}).event(place["ns"], place["run"], sealed._replace(**changed))


def test_an_event_that_a_fork_shares_was_sealed_for_another_run() -> None:
    sealed = Sealer(RING, 10_000, None).event(
        "ns", "run", Event("step.completed", 0, "a#1", b"1", seq=2)
    )
    mark = Event("run.forked", 0, seq=3)
    [read, _] = Opener(RING, {}).events("ns", "fork", [sealed, mark])
    assert read.payload == b"1"
    with pytest.raises(CannotDecrypt):
        Opener(RING, {}).events("ns", "fork", [mark, sealed._replace(seq=4)])


@pytest.mark.parametrize("cut", [1, 2, 5, 30, -1])
def test_bytes_that_were_cut_off_are_not_read(cut: int) -> None:
    sealed = Sealer(RING, 10_000, None).event("ns", "run", Event("step.completed", 0, "a#1", b"1"))
    with pytest.raises(CannotDecrypt):
        Opener(RING, {}).event("ns", "run", sealed._replace(payload=(sealed.payload or b"")[:cut]))


def test_a_message_in_a_blob_that_is_gone_says_which() -> None:
    kept = Kept()
    message = Message("id", "signal", "go", b'"long enough"', 0)
    sealed = Sealer(None, 3, kept.uploads.add).message("ns", "r", message)
    assert kept.opener(None).message("ns", "r", sealed) == message
    with pytest.raises(BlobMissing, match="message signal id of run r"):
        Opener(None, {}).message("ns", "r", sealed)


async def test_writes_are_the_other_stores_own_until_something_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "_were_large", False)
    store = SealedStore(MemoryStore(), blobs=MemoryBlobs(lambda: 0))
    await store.open()
    assert store.write == store.inner.write
    sizes.note_large()
    assert store.write != store.inner.write
    later = SealedStore(MemoryStore(), blobs=MemoryBlobs(lambda: 0))
    await later.open()
    assert later.write != later.inner.write
    without = SealedStore(MemoryStore())
    await without.open()
    assert without.write == without.inner.write


def test_a_plain_turn_is_not_touched() -> None:
    turn = Advance("ns", "r", "A", 1, 1, (Event("step.completed", 0, "a#1", b"1"),), 0)
    assert Sealer(None, 100, None).write(turn) == turn
