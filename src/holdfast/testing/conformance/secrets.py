"""What a run is given for its steps, encrypted: kept with it, and gone when it closes."""

from __future__ import annotations

from holdfast.errors import RunClosed, RunNotFound
from holdfast.model.commands import SupplySecrets
from holdfast.model.secrets import Sealed
from holdfast.model.status import CLOSED
from holdfast.testing.conformance.children import family
from holdfast.testing.conformance.harness import Harness, refused

TOKEN = Sealed("token", "2026-11", b"\x00nonce and bytes\xff")
OTHER = Sealed("other", "2026-11", b"2")


async def kept(harness: Harness, run: str = "r", ns: str = "default") -> tuple[Sealed, ...]:
    """Return what the store has for one run."""
    return await harness.store.secrets(ns, run)


def supplying(
    harness: Harness, *secrets: Sealed, run: str = "r", ns: str = "default", id: str = "s1"
) -> SupplySecrets:
    """Return the command that gives a run these."""
    names = tuple(each.name for each in secrets)
    return SupplySecrets(ns, run, names, id, harness.store.now(), secrets)


async def test_a_start_keeps_its_secrets(harness: Harness) -> None:
    await harness.start("r", secrets=(TOKEN, OTHER))
    assert await kept(harness) == (OTHER, TOKEN)
    assert await kept(harness, "nobody") == ()


async def test_a_run_born_claimed_has_its_secrets(harness: Harness) -> None:
    await harness.held("r", secrets=(TOKEN,))
    assert await kept(harness) == (TOKEN,)


async def test_a_start_that_finds_the_run_changes_no_secret(harness: Harness) -> None:
    first = await harness.start("r", secrets=(TOKEN,))
    assert await harness.start("r", secrets=(TOKEN._replace(sealed=b"new"), OTHER)) == first
    assert await kept(harness) == (TOKEN,)


async def test_a_supply_replaces_a_secret_and_wakes_the_run(harness: Harness) -> None:
    run = await harness.park(await harness.held("r", secrets=(TOKEN,)))
    new = TOKEN._replace(sealed=b"new")
    assert await harness.send(supplying(harness, new, OTHER)) is True
    assert await kept(harness) == (OTHER, new)
    row = await harness.row()
    assert (row.inbox_seq, row.wake_at) == (run.inbox_seq + 1, harness.store.now())
    [message] = (await harness.load()).mail
    assert (message.kind, message.name, message.payload) == ("secret", "token, other", None)


async def test_a_supply_counts_once_for_each_id(harness: Harness) -> None:
    await harness.start("r")
    assert await harness.send(supplying(harness, TOKEN)) is True
    assert await harness.send(supplying(harness, OTHER)) is False
    assert await kept(harness) == (TOKEN,)


async def test_a_supply_may_bring_no_bytes(harness: Harness) -> None:
    await harness.start("r")
    command = supplying(harness)._replace(names=("token",))
    assert await harness.send(command) is True
    assert await kept(harness) == ()


async def test_a_run_that_is_closed_or_not_there_takes_no_secret(harness: Harness) -> None:
    await harness.closed("r")
    with refused(RunClosed):
        await harness.send(supplying(harness, TOKEN))
    with refused(RunNotFound):
        await harness.send(supplying(harness, TOKEN, run="nobody"))
    assert await kept(harness) == await kept(harness, "nobody") == ()


async def test_a_run_that_closes_leaves_no_secret(harness: Harness) -> None:
    for status in sorted(CLOSED - {"moved", "terminated"}):
        await harness.closed(status, status, secrets=(TOKEN,))
        assert await kept(harness, status) == ()
    await harness.start("t", secrets=(TOKEN,))
    await harness.move("terminate", "t")
    assert await kept(harness, "t") == ()


async def test_a_run_that_is_set_aside_keeps_its_secrets(harness: Harness) -> None:
    run = await harness.held("r", secrets=(TOKEN,))
    await harness.park(run)
    await harness.move("quarantine")
    assert await kept(harness) == (TOKEN,)


async def test_a_run_that_is_terminated_with_its_parent_leaves_none(harness: Harness) -> None:
    _, child = await family(harness)
    assert await harness.send(supplying(harness, TOKEN, run=child.id)) is True
    await harness.move("terminate", "p")
    assert (await harness.row(child.id)).status == "terminated"
    assert await kept(harness, child.id) == ()


async def test_secrets_stay_in_their_namespace_and_run(harness: Harness) -> None:
    await harness.start("r", secrets=(TOKEN,))
    await harness.start("r", ns="other", secrets=(OTHER,))
    await harness.start("s")
    await harness.move("terminate", "r", ns="other")
    assert await kept(harness) == (TOKEN,)
    assert await kept(harness, ns="other") == await kept(harness, "s") == ()


async def test_an_exported_run_brings_no_secret(harness: Harness) -> None:
    await harness.start("r", secrets=(TOKEN,))
    export = await harness.store.export("default", "r")
    assert TOKEN.sealed not in repr(export).encode("unicode_escape")
    assert "nonce and bytes" not in repr(export)
