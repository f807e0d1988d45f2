"""The clock of a store: never back, never still, whatever is done to the wall clock."""

from holdfast.stores.clock import SteadyClock

HOUR = 3_600_000_000_000


class Hands:
    """A wall clock and a monotonic one, in nanoseconds."""

    def __init__(self) -> None:
        self.wall, self.ticks = 10 * HOUR, 5

    def passes(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.ticks += nanoseconds


def test_time_passes_as_on_the_wall() -> None:
    hands = Hands()
    clock = SteadyClock(lambda: hands.wall, lambda: hands.ticks)
    before = clock()
    hands.passes(7_000)
    assert clock() - before == 7


def test_a_jump_forward_is_taken() -> None:
    hands = Hands()
    clock = SteadyClock(lambda: hands.wall, lambda: hands.ticks)
    before = clock()
    hands.wall += HOUR
    assert clock() - before == HOUR // 1_000


def test_after_a_jump_back_time_goes_on_from_where_it_was() -> None:
    hands = Hands()
    clock = SteadyClock(lambda: hands.wall, lambda: hands.ticks)
    before = clock()
    hands.wall -= HOUR
    assert clock() == before
    for n in range(1, 100):
        hands.passes(60_000_000_000)
        assert clock() - before == n * 60_000_000


def test_a_mark_of_a_former_life_is_kept_up_with() -> None:
    hands = Hands()
    clock = SteadyClock(lambda: hands.wall, lambda: hands.ticks)
    ahead = clock() + HOUR // 1_000
    clock.raise_to(ahead)
    hands.passes(5_000)
    assert clock() == ahead + 5
