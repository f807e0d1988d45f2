"""W8's figures, from what a worker reported."""

from benchmarks.many import Tick, alone


def test_a_rate_that_halves_is_not_flat():
    steady = [Tick(at=float(i), done=100 * i, kib=5000.0) for i in range(10)]
    tired = [Tick(at=9.0 + 2 * i, done=900 + 100 * i, kib=5000.0 + 50 * i) for i in range(1, 11)]
    assert alone(steady)["flat"] == 1.0
    assert alone([*steady, *tired])["flat"] == 0.5
    assert alone(steady)["growth_kib"] == 0.0
    assert alone([*steady, *tired])["growth_kib"] == 500 / 1700
