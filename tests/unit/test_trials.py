"""A bucket that seems hopeless is tried now and then: a wrong prediction does not refuse it for ever."""

from made_works import backlog_of, ids, work

from producer_sdk.topics import Lane
from workers.backlog import Backlog
from workers.trials import Trials

TAKES_S = 10.0


class Takes:
    """Buckets named `slow` are believed to take 10 s, others nearly nothing."""

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = 0.95) -> float:
        return TAKES_S if bucket == "slow" else 0.001


def refused(backlog: Backlog, now: float, bucket: str = "slow") -> bool:
    """Whether a request that arrives now, and has 2 s, is refused; what is not is taken."""
    backlog.add(work("it", arrived=now, expires=now + 2.0, bucket=bucket))
    gone = backlog.take_hopeless(now, now)
    if not gone:
        assert ids(backlog.take(now)) == ["it"]
    return bool(gone)


def tried(backlog: Backlog, seconds: float) -> list[float]:
    """When one was not refused, of ten a second."""
    return [tenth / 10 for tenth in range(round(10 * seconds)) if not refused(backlog, tenth / 10)]


def test_while_nothing_of_it_runs_one_is_tried_after_a_second_and_then_after_pauses_that_double() -> None:
    assert tried(backlog_of(run_times=Takes()), 70.0) == [1.0, 3.0, 7.0, 15.0, 31.0, 63.0]


def test_in_the_end_trials_take_a_twentieth_of_the_time() -> None:
    times = tried(backlog_of(run_times=Takes()), 3000.0)
    assert times[-1] - times[-2] == 20 * TAKES_S


def test_what_others_run_meanwhile_changes_nothing() -> None:
    backlog = backlog_of(run_times=Takes())
    assert refused(backlog, 0.0)
    assert not refused(backlog, 0.9, bucket="quick")
    assert not refused(backlog, 1.0)


def test_one_of_a_bucket_that_runs_anyway_needs_no_trial() -> None:
    backlog = backlog_of(run_times=Takes())
    assert refused(backlog, 0.0)
    backlog.add(work("without a deadline", bucket="slow", lane=Lane.BULK))
    backlog.take(0.5)
    assert refused(backlog, 1.0)


def test_a_request_on_trial_is_not_refused_while_it_waits_and_expires_like_others() -> None:
    backlog = backlog_of(run_times=Takes())
    refused(backlog, 0.0)
    backlog.add(work("it", arrived=1.0, expires=3.0, bucket="slow"))
    assert backlog.take_hopeless(1.0, 1.0) == backlog.take_hopeless(1.5, 9.0) == []
    assert [each.request.id for each in backlog.take_expired(3.0)] == ["it"]


def test_nothing_is_kept_of_requests_that_are_gone() -> None:
    trials = Trials()
    for number in range(1000):
        it = work(bucket=number)
        trials.choose(it, 1.0, 0.0)
        assert trials.choose(it, 1.0, 2.0)
        (trials.ran if number % 2 else trials.left)([it])
    assert not trials._chosen
    assert len(trials._pauses) <= 256
