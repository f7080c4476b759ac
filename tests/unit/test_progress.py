"""The watch over an intake: what stands still without a reason is noticed, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from workers.progress import ProgressWatch, Sight, Verdict

PATIENCE_S = 10.0
IDLE = Sight(can_read=False, can_commit=False, read=5, commits=3)
UNREAD = Sight(can_read=True, can_commit=False, read=5, commits=3)
UNCOMMITTED = Sight(can_read=False, can_commit=True, read=5, commits=3)


def verdicts(*sights: Sight, step_s: float = 4.0) -> list[Verdict]:
    watch = ProgressWatch(PATIENCE_S)
    return [watch.look(sight, place * step_s) for place, sight in enumerate(sights)]


def test_an_intake_with_nothing_to_do_is_fine_for_ever() -> None:
    assert set(verdicts(*[IDLE] * 100)) == {Verdict.FINE}


def test_records_that_wait_unread_get_another_consumer_and_then_another_process() -> None:
    seen = verdicts(*[UNREAD] * 12)
    assert [seen.index(Verdict.REBUILD), seen.index(Verdict.DEAD)] == [4, 8]


def test_finished_work_that_is_not_committed_is_noticed_too() -> None:
    assert Verdict.REBUILD in verdicts(*[UNCOMMITTED] * 6)


def test_whoever_reads_is_fine_however_much_waits() -> None:
    assert set(verdicts(*[Sight(True, False, read, 0) for read in range(100)])) == {Verdict.FINE}


def test_a_rebuilt_intake_that_reads_again_has_all_its_patience_back() -> None:
    seen = verdicts(*[UNREAD] * 5, Sight(True, False, 6, 3), *[Sight(True, False, 6, 3)] * 5)
    assert (seen.count(Verdict.REBUILD), seen.count(Verdict.DEAD)) == (2, 0)


def test_a_pardon_begins_the_wait_anew() -> None:
    watch = ProgressWatch(PATIENCE_S)
    for now in range(100):
        watch.pardon()
        assert watch.look(UNREAD, float(now)) is Verdict.FINE


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 2)), max_size=60))
def test_no_verdict_falls_before_the_patience_is_over(steps: list[tuple[bool, bool, int, int]]) -> None:
    watch, read, commits, bad_since = ProgressWatch(PATIENCE_S), 0, 0, None
    for now, (can_read, can_commit, more_read, more_commits) in enumerate(steps):
        read, commits = read + more_read, commits + more_commits
        verdict = watch.look(Sight(can_read, can_commit, read, commits), float(now))
        could = (can_read and not more_read) or (can_commit and not more_commits)
        bad_since = (now if bad_since is None else bad_since) if could and now else None
        if verdict is not Verdict.FINE:
            assert bad_since is not None
            assert now - bad_since >= PATIENCE_S
