"""What a model.yaml says of batches and queues, in headrace's words and in Triton's."""

from pathlib import Path
from typing import Any

import pytest
from model_folders import python_model

from producer_sdk.topics import Lane
from workers.check import check_models
from workers.models import find_models
from workers.runners.policies import LANES, BatchPolicy, LanePolicy, Overdue, QueuePolicy


def policy_with(root: Path, **keys: Any) -> BatchPolicy:
    (spec,) = find_models(python_model(root, "m", **keys))
    return spec.batching


def test_what_a_model_does_not_say_has_its_default(tmp_path: Path) -> None:
    assert policy_with(tmp_path) == BatchPolicy()


def test_headraces_words_are_read(tmp_path: Path) -> None:
    policy = policy_with(
        tmp_path, preferred_batch_size=[16, 8], queue_timeout_s=2, overdue="singly", max_queue_size=9, cost="rows * 2",
        max_cost=100, slo_ms=50, lanes={"bulk": {"weight": 3}},
    )  # fmt: skip
    assert (policy.preferred_rows, policy.cost, policy.max_cost, policy.slo_ms) == ((8, 16), "rows * 2", 100.0, 50.0)
    assert policy.queue == QueuePolicy(2.0, Overdue.SINGLY, False, 9)
    assert policy.lanes == {**LANES, Lane.BULK: LanePolicy(3.0, 60.0)}


def test_tenants_have_a_limit_each_and_one_for_the_others(tmp_path: Path) -> None:
    policy = policy_with(tmp_path, tenants={"max_waiting": 64, "max_waiting_of": {"acme": 256, "free": 0}})
    assert policy.tenants is not None
    assert [policy.tenants.most_waiting(name) for name in ("acme", "free", "other", None)] == [256, 0, 64, 64]


def test_tritons_words_are_read(tmp_path: Path) -> None:
    rejects = {"timeout_action": "REJECT", "default_timeout_microseconds": 1500, "allow_timeout_override": True}
    triton = {
        "preferred_batch_size": [4], "priority_levels": 2, "default_priority_level": 2,
        "default_queue_policy": {"timeout_action": "DELAY", "max_queue_size": 7}, "priority_queue_policy": {1: rejects},
    }  # fmt: skip
    policy = policy_with(tmp_path, dynamic_batching=triton)
    assert (policy.preferred_rows, policy.priority_levels, policy.default_priority) == ((4,), 2, 2)
    assert policy.queue == QueuePolicy(None, Overdue.INCLUDE, False, 7)
    assert policy.queues == {1: QueuePolicy(0.0015, Overdue.DROP, True, 0)}


def test_order_is_kept_where_triton_would_keep_it(tmp_path: Path) -> None:
    triton = {"preserve_ordering": True, "default_queue_policy": {"default_timeout_microseconds": 1000}}
    assert policy_with(tmp_path, dynamic_batching=triton).preserve_ordering


def test_the_same_said_twice_is_no_contradiction(tmp_path: Path) -> None:
    triton = {"preferred_batch_size": [4], "default_queue_policy": {"default_timeout_microseconds": 2_000_000}}
    policy = policy_with(tmp_path, preferred_batch_size=[4], queue_timeout_s=2, overdue="drop", dynamic_batching=triton)
    assert policy.queue == QueuePolicy(2.0, Overdue.DROP)


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({"preferred_batch_size": [64]}, "preferred_batch_size", "64 is above max_batch_size, 32"),
        ({"preferred_batch_size": [0]}, "preferred_batch_size", "give a list of rows"),
        ({"cost": "open('x')"}, "cost", "it takes rows"),
        ({"max_cost": 5}, "max_cost", "there is no `cost`"),
        ({"slo_ms": 0}, "slo_ms", "above 0"),
        ({"overdue": "drop"}, "overdue", "there is no queue_timeout_s"),
        ({"queue_timeout_s": 1, "overdue": "reject"}, "overdue", "give singly or drop or include"),
        ({"lanes": {"bulky": {}}}, "lanes.bulky", "did you mean 'bulk'?"),
        ({"lanes": {"bulk": {"weight": 0}}}, "lanes.bulk.weight", "from 0.001"),
        ({"lanes": {"bulk": {"share": 1}}}, "lanes.bulk.share", "not a known key"),
        ({"tenants": {"max_wait": 1}}, "tenants.max_wait", "did you mean 'max_waiting'?"),
        ({"tenants": {"max_waiting": -1}}, "tenants.max_waiting", "from 0"),
        ({"tenants": {"max_waiting_of": {"a": "b"}}}, "tenants.max_waiting_of.a", "whole number"),
        ({"tenants": {"max_waiting_of": {"a": 0}}}, "tenants", "names no limit"),
    ],
)
def test_a_wrong_value_is_told_by_its_key(tmp_path: Path, keys: dict[str, Any], key: str, reason: str) -> None:
    (fault,) = check_models(python_model(tmp_path, "m", **keys)).faults
    assert (fault.key, reason in fault.reason) == (key, True), fault


@pytest.mark.parametrize(
    ("triton", "key", "reason"),
    [
        ({"preferred": [4]}, "preferred", "not a known key"),
        ({"preferred_batch_size": [4], "max_queue_delay_microseconds": "x"}, "max_queue_delay_microseconds", "give a"),
        ({"priority_levels": 2}, "default_priority_level", "give one from 1 to 2"),
        ({"default_priority_level": 1}, "default_priority_level", "there are no priority_levels"),
        ({"priority_queue_policy": {1: {}}}, "priority_queue_policy.1", "1 is no priority level: there are 0"),
        ({"priority_queue_policy": [1]}, "priority_queue_policy", "give `LEVEL: {...}` lines"),
        (
            {"default_queue_policy": {"timeout_action": "DROP"}},
            "default_queue_policy.timeout_action",
            "REJECT or DELAY",
        ),
        ({"default_queue_policy": {"size": 1}}, "default_queue_policy.size", "not a known key"),
        (
            {"preserve_ordering": True, "priority_levels": 2, "default_priority_level": 1},
            "preserve_ordering",
            "contradicts priority_levels",
        ),
        (
            {
                "preserve_ordering": True,
                "default_queue_policy": {"timeout_action": "DELAY", "default_timeout_microseconds": 5},
            },
            "preserve_ordering",
            "can only be dropped",
        ),
    ],
)
def test_a_wrong_word_of_triton_is_told_by_its_key(
    tmp_path: Path, triton: dict[str, Any], key: str, reason: str
) -> None:
    (fault,) = check_models(python_model(tmp_path, "m", dynamic_batching=triton)).faults
    assert (fault.key, reason in fault.reason) == (f"dynamic_batching.{key}", True), fault


def test_tenants_are_not_told_apart_where_order_is_kept(tmp_path: Path) -> None:
    model = python_model(tmp_path, "m", tenants={"max_waiting": 1}, dynamic_batching={"preserve_ordering": True})
    (fault,) = check_models(model).faults
    assert (fault.key, "contradicts tenants" in fault.reason) == ("dynamic_batching.preserve_ordering", True)


def test_two_words_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    triton = {"preferred_batch_size": [8], "default_queue_policy": {"default_timeout_microseconds": 1}}
    model = python_model(tmp_path, "m", preferred_batch_size=[4], queue_timeout_s=1, dynamic_batching=triton)
    faults = check_models(model).faults
    assert [fault.key for fault in faults] == ["preferred_batch_size", "dynamic_batching.default_queue_policy"]
