"""Tenants of a lane are served in turn, by cost."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from made_works import backlog_of, work

from workers.shares import MOST_REMEMBERED, Shares


def test_a_tenant_with_one_request_is_in_the_next_batch_whatever_another_has_waiting() -> None:
    backlog = backlog_of(*(work("heavy", tenant="a") for _ in range(90)), rows=8)
    backlog.take(0.0)
    backlog.add(work("light", tenant="b"))
    assert [each.request.id for each in backlog.take(0.0).works].count("light") == 1


def test_tenants_get_the_same_cost_not_the_same_number_of_requests() -> None:
    backlog = backlog_of(
        *(work(tenant="a", cost=4.0) for _ in range(40)), *(work(tenant="b", cost=1.0) for _ in range(40)), rows=10
    )
    taken: Counter[str | None] = Counter()
    for _ in range(4):
        taken += Counter(each.request.tenant for each in backlog.take(0.0).works)
    assert taken == {"a": 8, "b": 32}


def test_requests_without_a_tenant_are_one_tenant() -> None:
    backlog = backlog_of(*(work() for _ in range(40)), *(work(tenant="b") for _ in range(40)), rows=10)
    assert Counter(each.request.tenant for each in backlog.take(0.0).works) == {None: 5, "b": 5}


def test_deadlines_order_the_requests_of_a_tenant() -> None:
    backlog = backlog_of(*(work(str(at), tenant="a", expires=float(at)) for at in (9, 2, 5)), work(tenant="b"))
    order = [each.request.id for each in backlog.take(0.0).works if each.request.tenant == "a"]
    assert order == ["2", "5", "9"]


def test_a_tenant_with_another_bucket_gets_its_turn() -> None:
    backlog = backlog_of(*(work(tenant="a", bucket=1) for _ in range(40)), work(tenant="b", bucket=2), rows=4, wait_s=0)
    leads = [backlog.take(0.0).works[0].request.tenant for _ in range(2)]
    assert set(leads) == {"a", "b"}


def test_nobody_saves_up_a_share_while_away() -> None:
    shares: Shares[str] = Shares()
    shares.enter("a")
    for _ in range(100):
        shares.charge("a", 1.0)
    shares.enter("b")
    shares.charge("b", 2.0)
    assert shares.clock("b") > shares.clock("a")


def test_tenants_that_are_gone_are_forgotten() -> None:
    shares: Shares[int] = Shares()
    for tenant in range(5 * MOST_REMEMBERED):
        shares.enter(tenant)
        shares.charge(tenant, 1.0)
        shares.leave(tenant)
    assert len(shares) <= MOST_REMEMBERED + 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 10.0)), min_size=1, max_size=200))
def test_of_those_that_always_wait_nobody_is_ahead_by_more_than_one_request(costs: list[tuple[str, float]]) -> None:
    shares: Shares[str] = Shares()
    for key in "abc":
        shares.enter(key)
    for _, cost in costs:
        shares.charge(min(shares.waiting, key=shares.clock), cost)
    clocks = [shares.clock(key) for key in "abc"]
    assert max(clocks) - min(clocks) <= max(cost for _, cost in costs) * (1 + 1e-9)
