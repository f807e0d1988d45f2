"""What the driver raises, translated: whoever holds a run must be able to try again."""

import asyncpg
import pytest

from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.stores.postgres.failures import is_lost, of_a_read, of_a_write

LOST = [
    ConnectionResetError("reset by peer"),
    TimeoutError(),
    asyncpg.InterfaceError("connection is closed"),
    # Of a connection that was cut between two halves of a statement.
    asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
    asyncpg.AdminShutdownError("terminating connection due to administrator command"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_lost_connection_is_an_error_of_the_store(error: Exception) -> None:
    assert is_lost(error)
    assert isinstance(of_a_read(error), StoreUnavailable)
    assert isinstance(of_a_write(error), OutcomeUnknown)


def test_a_mistake_of_ours_stays_what_it_is() -> None:
    mistake = KeyError("ns")
    assert of_a_read(mistake) is mistake
    assert of_a_write(mistake) is mistake
