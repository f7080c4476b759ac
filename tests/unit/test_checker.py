"""Every part of the promise, a to h: one history in which it is broken, and the nearest one in which it is kept."""

from typing import Any

import msgspec
import pytest

from headrace.checker import MOST_SHOWN, Report, check
from headrace.verify import document, sentences, verdict
from headrace.verify_facts import Accepted, Buried, CommitMade, Finished, History, Moved, Sample, Seen, Started, Told
from producer_sdk.broker import TopicPartition

LANE, RETRY = TopicPartition("p.m.async", 0), TopicPartition("p.m.retry", 0)
RESULTS, DEAD = TopicPartition("p.m.results", 0), TopicPartition("p.m.dead", 0)


def accepted(id: str = "a", offset: int = 0, at_ms: int = 1_000, **more: Any) -> Accepted:
    return Accepted(id, LANE, offset, at_ms, RESULTS, **more)


def moved(id: str = "a", offset: int = 0, origin: int = 0, at_ms: int = 2_000) -> Moved:
    return Moved(id, RETRY, offset, at_ms, RESULTS, LANE, origin)


def told(id: str = "a", code: str = "OK", at_ms: int = 2_000, worker: str = "") -> Told:
    return Told(id, code, RESULTS, 0, at_ms, worker)


def committed(worker: str, at_ms: int, base: int, highest: int | None = None, *incomplete: int) -> CommitMade:
    return CommitMade(worker, LANE, Finished(base, highest, frozenset(incomplete)), at_ms)


def started(worker: str = "w", at_ms: int = 1_500, partition: TopicPartition = LANE, **more: Any) -> Started:
    return Started("a", worker, partition, 0, at_ms, **more)


def finished(base: int, highest: int | None = None, *incomplete: int) -> dict[TopicPartition, Finished]:
    return {LANE: Finished(base, highest, frozenset(incomplete))}


def parts(report: Report) -> list[str]:
    return [violation.part for violation in report.violations]


def judged(**facts: Any) -> list[str]:
    """The parts that a history breaks in which one request is accepted, answered and finished, unless it says else."""
    facts = {"accepted": [accepted()], "told": [told()], "finished": finished(1)} | facts
    return parts(check(History(**facts), limit=2, batch_s=1.0, healed_at_ms=facts.pop("healed_at_ms", None)))


def test_nothing_is_nothing() -> None:
    report = check(History())
    assert (report.accepted, report.lost, report.kept, report.violations) == (0, 0, True, ())


@pytest.mark.parametrize(
    ("state", "lost"),
    [(finished(1), 1), (finished(0), 0), ({}, 0), (finished(0, 0), 1), (finished(0, 2, 0, 1), 0)],
    ids=["below the base", "at the base", "nothing committed", "completed in the map", "incomplete in the map"],
)
def test_a_without_an_outcome_a_finished_request_is_lost_and_another_waits(
    state: dict[TopicPartition, Finished], lost: int
) -> None:
    report = check(History(accepted=[accepted()], finished=state))
    assert (report.lost, report.waiting, report.kept) == (lost, 1 - lost, not lost)


def test_a_long_list_is_cut_but_counted() -> None:
    requests = [accepted(str(n), n) for n in range(MOST_SHOWN + 5)]
    report = check(History(accepted=requests, finished=finished(1000)))
    assert (report.lost, len(report.lost_requests)) == (len(requests), MOST_SHOWN)
    assert len(report.violations) == MOST_SHOWN + 1
    assert report.violations[-1].sentence == "and 5 more of the same kind"


def test_a_conflict_is_told_as_a_violation_and_many_are_cut() -> None:
    def contradicted(count: int) -> Report:
        ids = [f"{n:02}" for n in range(count)]
        return check(History(told=[told(id, code) for id in ids for code in ("OK", "INTERNAL")]))

    (only,) = contradicted(1).violations
    assert (
        only.sentence
        == "id 00 has replies OK at p.m.results:0:0, INTERNAL at p.m.results:0:0: they contradict each other"
    )
    many = contradicted(MOST_SHOWN + 3)
    assert (many.conflicting, len(many.conflicting_requests), many.kept) == (MOST_SHOWN + 3, MOST_SHOWN, False)
    assert many.violations[-1].sentence == "and 3 more of the same kind"


def test_neither_kind_takes_the_place_of_the_other() -> None:
    lost = [accepted(f"lost {n}", n) for n in range(MOST_SHOWN + 5)]
    report = check(History(accepted=lost, told=[told(), told(code="INTERNAL")], finished=finished(1000)))
    assert [part for part in parts(report) if part != "a"] == ["b"]


def test_a_moved_request_waits_until_all_its_records_are_finished() -> None:
    facts: dict[str, Any] = {"accepted": [accepted()], "moved": [moved(offset=0), moved(offset=1)]}
    on_retry = [check(History(finished=finished(1) | {RETRY: Finished(base)}, **facts)).lost for base in (0, 1, 2)]
    assert on_retry == [0, 0, 1]


def test_a_request_that_only_the_retry_topic_still_holds_is_accounted_for() -> None:
    report = check(History(moved=[moved()], finished=finished(1) | {RETRY: Finished(1)}))
    assert (report.accepted, report.lost) == (1, 1)


def test_b_a_call_that_is_given_two_answers_is_told_of() -> None:
    history = History(seen=[Seen("call 1", "a", "OK"), Seen("call 2", "a", "OK"), Seen("call 1", "a", "CANCELLED")])
    report = check(history)
    assert (report.seen_twice, parts(report)) == (1, ["b"])
    assert report.violations[0].sentence == "the call call 1 was given 2 answers: OK for a, CANCELLED for a"


@pytest.mark.parametrize(
    ("commits", "broken"),
    [
        ([committed("w", 1_500, 1)], ["c"]),
        ([committed("w", 1_500, 0, 0)], ["c"]),
        ([committed("w", 1_500, 0), committed("w", 1_600, 5)], ["c"]),
        ([committed("w", 1_500, 0, 0), committed("w", 2_000, 5)], ["c"]),
        ([committed("w", 2_000, 1)], []),
        ([committed("w", 1_500, 0), committed("w", 2_000, 0, 0)], []),
        ([committed("w", 1_500, 0, 3, 0), committed("w", 2_000, 4)], []),
        ([committed("w", 2_000, 5), committed("w", 1_500, 0)], []),
    ],
)
def test_c_no_commit_comes_before_its_outcome(commits: list[CommitMade], broken: list[str]) -> None:
    assert judged(commits=commits) == broken


def test_c_a_request_is_done_with_when_it_is_moved_and_its_move_when_it_is_answered() -> None:
    state = finished(1) | {RETRY: Finished(1)}
    retry_commit = CommitMade("w", RETRY, Finished(1), 2_500)
    facts: dict[str, Any] = {"moved": [moved()], "finished": state}
    assert judged(commits=[committed("w", 2_100, 1)], told=[told(at_ms=9_000)], **facts) == []
    assert judged(commits=[retry_commit], told=[told(at_ms=9_000)], **facts) == ["c"]
    assert judged(commits=[retry_commit], told=[told(at_ms=2_400)], **facts) == []


def test_c_clocks_may_differ_a_little() -> None:
    assert judged(commits=[committed("w", 1_950, 1)]) == []


# w has the partition, z gets it at 3000 and commits past the request.
HANDED_OVER = [committed("w", 1_000, 0), committed("z", 3_000, 0), committed("z", 5_000, 1)]


def test_d_what_a_fenced_owner_published_is_not_the_only_outcome() -> None:
    late = [told(at_ms=4_000)]
    assert judged(commits=HANDED_OVER, told=late, started=[started("w")]) == ["d"]
    assert judged(commits=HANDED_OVER, told=[told(at_ms=4_000, worker="w")]) == ["d"]


def test_d_a_killed_owner_may_have_taken_the_event_of_its_run_along() -> None:
    silent_after = [committed("w", 1_000, 0), committed("z", 3_000, 0), committed("y", 5_000, 1)]
    assert judged(commits=silent_after, told=[told(at_ms=4_000)], started=[started("w")]) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"told": [told(at_ms=2_900)]},
        {"told": [told(at_ms=4_000)], "started": [started("w"), started("z")]},
        {"told": [told(at_ms=4_000), told(at_ms=4_500, worker="z")]},
        {"told": [told(code="DEADLINE_EXCEEDED", at_ms=4_000)]},
        {"told": [told(at_ms=4_000)], "finished": finished(0)},
        {"told": [told(at_ms=4_000)], "silent": frozenset({"z"})},
    ],
    ids=["before", "the owner ran it", "the owner answered", "needs no run", "will be read again", "unknown"],
)
def test_d_says_nothing_that_it_does_not_know(facts: dict[str, Any]) -> None:
    assert judged(**({"commits": HANDED_OVER, "started": [started("w")]} | facts)) == []


@pytest.mark.parametrize(("attempts", "broken"), [(2, []), (3, ["e"])])
def test_e_attempts_stay_within_the_limit(attempts: int, broken: list[str]) -> None:
    assert judged(started=[started(attempts=attempts)]) == broken


@pytest.mark.parametrize(("times", "broken"), [(3, []), (4, ["e"])])
def test_e_runs_that_were_not_counted_count_too(times: int, broken: list[str]) -> None:
    assert judged(started=[started(alone=True)] * times) == broken


def test_e_attempts_go_on_on_the_retry_topic() -> None:
    runs = [started(alone=True)] * 2 + [started(partition=RETRY, alone=True)] * 2
    assert judged(started=runs, moved=[moved()]) == ["e"]


@pytest.mark.parametrize(("at_ms", "broken"), [(2_050, []), (2_200, ["f"])])
def test_f_nothing_starts_later_than_a_batch_after_its_deadline(at_ms: int, broken: list[str]) -> None:
    assert judged(started=[started(at_ms=at_ms, deadline_ms=1_000)]) == broken


def test_g_what_is_bounded_stays_so() -> None:
    assert judged(samples=[Sample("memory in MB", 99, 100)]) == []
    assert judged(samples=[Sample("memory in MB", 101, 100)]) == ["g"]


def test_h_the_next_outcome_after_a_fault_is_timed() -> None:
    history = History(accepted=[accepted()], told=[told(at_ms=1_000), told(at_ms=4_500)])
    in_time = check(history, healed_at_ms=2_000, recovery_limit_s=3)
    assert (in_time.recovery_s, parts(in_time)) == (2.5, [])
    assert parts(check(history, healed_at_ms=2_000, recovery_limit_s=2)) == ["h"]


def test_h_work_that_does_not_go_on_is_told_of() -> None:
    report = check(History(accepted=[accepted(), accepted("b", 1)], told=[told()]), healed_at_ms=3_000)
    assert (report.recovery_s, parts(report)) == (None, ["h"])


def test_a_dead_letter_counts_for_the_record_that_it_came_from() -> None:
    letter = Buried("INVALID_REQUEST", DEAD, 0, 2_000, LANE, 0)
    report = check(
        History(accepted=[accepted(readable=False), accepted("b", 1)], buried=[letter], finished=finished(2))
    )
    assert (report.dead, report.lost, report.lost_requests[0].id) == (1, 1, "b")


def test_the_report_is_told_in_sentences_and_as_json() -> None:
    report = check(History(accepted=[accepted()], finished=finished(1)))
    lines = sentences(report)
    assert lines == ["request a at p.m.async:0:0 is finished, and has no outcome"]
    assert verdict(report).startswith("The delivery promise is broken: 1 lost")
    assert document(report).keys() >= {"accepted", "answered", "dead", "waiting", "lost", "conflicting", "repeats"}
    assert "seen_twice" not in document(report)
    assert msgspec.json.encode(document(report))


def test_a_kept_promise_is_said_in_one_line() -> None:
    report = check(History(accepted=[accepted()], told=[told()], finished=finished(1)))
    assert (sentences(report), verdict(report)) == ([], "Nothing is lost, and no outcome contradicts another.")
