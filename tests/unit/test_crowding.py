"""A tenant that would fill the batches of the interactive lane by itself does not make others' runs longer."""

from made_works import AT_ONCE, Takes, backlog_of, due, work

from producer_sdk.topics import Lane
from workers.backlog import Backlog
from workers.crowding import Crowding, most_s, rows_beside
from workers.line import Line
from workers.runners.policies import BatchPolicy
from workers.shares import Shares
from workers.work import Work


def asks(tenant: str, count: int = 1, lane: Lane = Lane.INTERACTIVE) -> list[Work]:
    return [work(tenant, tenant=tenant, lane=lane) for _ in range(count)]


def lines_of(**rows: int) -> dict[str | None, Line]:
    lines: dict[str | None, Line] = {}
    for tenant, count in rows.items():
        line = lines[tenant] = Line(0.0)
        line.add_all([(0.0, place, each) for place, each in enumerate(asks(tenant, count))])
    return lines


def crowded(lane: Lane = Lane.INTERACTIVE, policy: BatchPolicy = BatchPolicy()) -> Backlog:  # noqa: B008 (frozen)
    """One tenant has much waiting, another was served just before; a row runs for 2 s, each further one for 1 s."""
    both = asks("light", lane=lane) + asks("heavy", lane=lane)
    backlog = backlog_of(*both, run_times=Takes(1.0, 1.0), policy=policy, max_requests=1000)
    backlog.take(0.0)
    for each in asks("heavy", 100, lane):
        backlog.add(each)
    return backlog


def taken(backlog: Backlog, now: float = 1.0) -> list[str]:
    return [each.request.id for each in backlog.take(now).works]


def test_a_tenant_crowds_a_lane_that_has_half_a_batch_and_more_than_all_others() -> None:
    assert rows_beside(lines_of(a=16, b=3, c=4), 32) == 7
    assert rows_beside(lines_of(a=15, b=3), 32) is None
    assert rows_beside(lines_of(a=20, b=10, c=10), 32) is None


def test_it_gets_short_batches_while_others_are_to_be_expected_and_full_ones_later() -> None:
    backlog = crowded()
    assert taken(backlog) == ["heavy"] * 2
    assert taken(backlog, 20.0) == ["heavy"] * 32


def test_beside_others_it_gets_barely_more_than_they_run_for() -> None:
    backlog = crowded()
    for at in range(5):
        assert taken(backlog, float(at)) == ["heavy"] * 2
    for each in asks("light", 3):
        backlog.add(each)
    assert taken(backlog, 5.0) == ["light"] * 3


def test_its_batch_does_not_lie_ready_behind_another() -> None:
    backlog = crowded()
    assert due(backlog, 1.0, idle=False) > 1.0
    assert due(backlog, 1.0) == AT_ONCE


def test_an_slo_leaves_it_longer_batches() -> None:
    assert len(taken(crowded(policy=BatchPolicy(slo_ms=22_000)))) == 9  # half of what is left beside a run of 2 s


def test_a_tenant_alone_gets_full_batches() -> None:
    backlog = backlog_of(*asks("heavy", 100), run_times=Takes(1.0, 1.0))
    assert [len(taken(backlog, now)) for now in (0.0, 1.0)] == [32, 32]


def test_in_a_lane_where_nobody_waits_for_replies_only_turns_are_kept() -> None:
    assert len(taken(crowded(Lane.ASYNC))) == 32


def test_others_are_seen_where_the_one_with_most_rows_changes() -> None:
    crowding = Crowding()
    crowding.note(asks("a", 3), 1.0, 0.0)
    assert crowding.is_watched(0.0)
    crowding = Crowding()
    crowding.note(asks("a", 3), 1.0, 0.0)
    crowding.note(asks("a", 3), 1.0, 60.0)
    assert not crowding.is_watched(60.0)


def test_a_batch_without_others_may_run_for_half_as_long_again_as_one_row() -> None:
    assert most_s(2.0, 0.0, 0.0) == 3.0
    assert most_s(2.0, 2.0, 0.0) == 2.6
    assert most_s(2.0, 9.0, 5.0) == 9.9
    assert most_s(2.0, 9.0, 50.0) == 50.0


def test_a_tenant_that_asked_for_little_goes_first_for_a_few_requests_and_no_more() -> None:
    shares: Shares[str] = Shares()
    shares.enter("light")
    shares.leave("light")
    shares.enter("heavy")
    for _ in range(100):
        shares.charge("heavy", 1.0)
    shares.enter("light", credit=8.0)
    ahead = 0
    while shares.clock("light") < shares.clock("heavy"):
        shares.charge("light", 1.0)
        ahead += 1
    assert ahead == 9
