"""When runners will be free, and whether what is expected of them can be relied on."""

from workers.occupancy import LATE_S, Occupancy


def test_the_first_runner_that_is_free_counts() -> None:
    occupancy = Occupancy(2)
    occupancy.takes(0, 5.0)
    assert occupancy.first_free_at(1.0) == 1.0
    occupancy.takes(1, 3.0)
    occupancy.takes(2, 6.0)
    assert (occupancy.first_free_at(1.0), occupancy.free_at(2, 1.0)) == (3.0, 6.0)


def test_a_batch_that_runs_longer_than_expected_is_late_until_it_ends() -> None:
    occupancy = Occupancy(1)
    occupancy.takes(0, 5.0)
    occupancy.takes(1, 5.001)
    assert [occupancy.is_late(now) for now in (5.0, 5.0 + LATE_S / 2, 5.0 + 2 * LATE_S)] == [False, False, True]
    occupancy.leaves(0)
    occupancy.leaves(1)
    assert not occupancy.is_late(9.0)
