"""No tenant has more requests waiting in a lane than its model allows, so that none can fill it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import ledger_with
from made_works import backlog_of, work

from producer_sdk.errors import QuotaExceeded
from producer_sdk.topics import Lane
from workers.backlog import Backlog
from workers.quotas import Quotas, quotas_of
from workers.runners.policies import BatchPolicy, TenantPolicy
from workers.work import Work


def quotas(backlog: Backlog, max_waiting: int = 3, **of: int) -> Quotas:
    return Quotas(TenantPolicy(max_waiting, of), backlog.waiting_of)


def receive(backlog: Backlog, quotas: Quotas, *works: Work) -> list[str]:
    """As the reception does; the ids of those that were refused."""
    admitted, refused = quotas.admit(list(works))
    for each in admitted:
        backlog.add(each)
    return [each.request.id for each, _ in refused]


def test_what_exceeds_a_tenants_quota_is_refused_and_told_who_why_and_what_to_do() -> None:
    backlog = backlog_of(work(tenant="a"), work(tenant="a", bucket=1), work(tenant="b"))
    admitted, refused = quotas(backlog).admit([work(str(n), tenant="a") for n in range(3)])
    assert [each.request.id for each in admitted] == ["0"]
    (_, error), _ = refused
    assert (error.code, error.retryable) == (QuotaExceeded.code, True)
    assert all(part in str(error) for part in ("3 requests", "'a'", "send it again", "under tenants"))


def test_there_is_room_again_when_a_batch_has_taken_what_waited() -> None:
    backlog = backlog_of(rows=2)
    limits = quotas(backlog)
    assert receive(backlog, limits, *(work(str(n), tenant="a") for n in range(4))) == ["3"]
    backlog.take(0.0)
    assert receive(backlog, limits, *(work(str(n), tenant="a") for n in range(4))) == ["2", "3"]


def test_tenants_and_lanes_are_counted_apart() -> None:
    backlog = backlog_of(*(work(tenant="a") for _ in range(3)))
    others = work(tenant="b"), work(), work(tenant="a", lane=Lane.BULK)
    assert receive(backlog, quotas(backlog), *others) == []


def test_a_tenant_may_have_a_quota_of_its_own_or_none() -> None:
    backlog = backlog_of()
    limits = quotas(backlog, 1, big=2, free=0)
    asked = [work(f"{tenant}{n}", tenant=tenant) for tenant in ("big", "free", "other") for n in range(3)]
    assert receive(backlog, limits, *asked) == ["big2", "other1", "other2"]


def test_requests_without_a_tenant_are_one_tenant_with_the_empty_name() -> None:
    backlog = backlog_of()
    limits = Quotas(TenantPolicy(0, {"": 1}), backlog.waiting_of)
    assert receive(backlog, limits, work("1"), work("2"), work("3", tenant="a"), work("4", tenant="a")) == ["2"]
    assert "without a tenant" in str(limits.admit([work()])[1][0][1])


def retried() -> Work:
    again = work("again", tenant="a")
    again.attempts = 1
    return again


def on_trial() -> Work:
    ledger = ledger_with(7)
    ledger.trying([7])
    return work("again", tenant="a", ledger=ledger, offset=7)


@pytest.mark.parametrize("again", [retried(), on_trial(), work("again", tenant="a", alone=True)])
def test_who_was_admitted_before_and_is_tried_again_is_not_refused(again: Work) -> None:
    backlog = backlog_of(*(work(tenant="a") for _ in range(3)))
    assert receive(backlog, quotas(backlog), work("new", tenant="a"), again, work("new", tenant="a")) == ["new"] * 2


def test_a_model_without_quotas_has_nothing_to_ask() -> None:
    assert quotas_of(BatchPolicy(), backlog_of().waiting_of) is None


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2])), max_size=30), max_size=8),
    st.integers(1, 9),
)
def test_a_tenant_that_floods_never_fills_a_lane(hauls: list[list[tuple[str, int]]], most: int) -> None:
    backlog = backlog_of(max_requests=2 * most + 1, rows=4)
    limits = quotas(backlog, most)
    for haul in hauls:
        works = [work(tenant=tenant, bucket=bucket) for tenant, bucket in haul]
        before = Counter({tenant: backlog.waiting_of(Lane.ASYNC, tenant) for tenant in "ab"})
        refused = receive(backlog, limits, *works)
        asked = before + Counter(tenant for tenant, _ in haul)
        waits = {tenant: backlog.waiting_of(Lane.ASYNC, tenant) for tenant in "ab"}
        assert waits == {tenant: min(most, asked[tenant]) for tenant in "ab"}
        assert len(refused) == asked.total() - sum(waits.values())
        assert backlog.room(Lane.ASYNC) > 0
        if len(backlog):
            backlog.take(0.0)
