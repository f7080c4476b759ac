"""Names are safe wherever they go, and replies never reach a topic that headrace reads."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk.errors import InvalidRequest
from producer_sdk.model_topics import model_topics
from producer_sdk.topics import (
    REQUEST_ID,
    Lane,
    ReplyTo,
    Topics,
    check_id,
    check_model_name,
    derived_id,
    new_id,
    parse_reply_to,
    shown,
)


def test_fresh_ids_are_valid_and_differ() -> None:
    ids = {check_id(new_id()) for _ in range(100)}
    assert len(ids) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_ids_of_a_forked_child_are_its_own() -> None:
    program = (
        "import os; from producer_sdk.topics import new_id; new_id(); child = os.fork(); "
        "os.write(1, new_id().encode() + b'\\n'); child and os.waitpid(child, 0)"
    )
    ids = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert len(ids) == len(set(ids)) == 2


def test_the_longest_derived_id_is_valid() -> None:
    topic = Topics("p" * 24).requests("m" * 64, Lane.INTERACTIVE)
    assert REQUEST_ID.fullmatch(derived_id(topic, 99_999, 2**63 - 1))


@pytest.mark.parametrize("id", ["", ".", "..", "a/b", "a b", "a\n", "\u00e9", "x" * 129, None, 5, b"a"])
def test_unsafe_ids_are_refused(id: object) -> None:
    with pytest.raises(InvalidRequest):
        check_id(id)


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "x" * 65, "m\n", None])
def test_unsafe_model_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidRequest):
        check_model_name(name)


@settings(deadline=None)
@given(st.from_regex(r"\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,60}\Z"), st.none() | st.integers(0, 99_999))
def test_a_return_address_is_read_back(topic: str, partition: int | None) -> None:
    address = ReplyTo(topic, partition)
    assert parse_reply_to(str(address)) == address


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:x", "t:1:2", "t:-1", "t:123456", "..", ".:1", "a b", "t:\u0661"])
def test_what_is_no_return_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_reply_to(text)


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [
        ("headrace.replies", True),
        ("headrace.m.results", True),
        ("headrace.mine", True),
        ("headrace.m.async", False),
        ("headrace.m.bulk", False),
        ("headrace.m.interactive", False),
        ("headrace.m.retry", False),
        ("headrace.m.dead", False),
        ("headrace.control", False),
        ("headrace.cancels", False),
        ("headracer.replies", False),
        ("other", False),
    ],
)
def test_replies_stay_under_the_prefix_and_out_of_headraces_own_topics(topic: str, allowed: bool) -> None:
    assert Topics().may_reply_to(topic) is allowed


@pytest.mark.parametrize("value", ["x" * 10_000, [["deep"] * 1000], {"a": "b" * 1000}, b"x" * 1000, "a\nb\ud800"])
def test_a_value_shown_in_a_message_is_short_and_on_one_line(value: object) -> None:
    text = shown(value)
    assert len(text) < 120
    assert text.encode().count(b"\n") == 0


@pytest.mark.parametrize("digits", [100, 4000, 5000])
def test_a_huge_number_shown_in_a_message_is_short(digits: int) -> None:
    assert max(len(shown(10**digits)), len(shown(-(10**digits)))) < 90


@pytest.mark.parametrize(("partitions", "of_retries"), [(1, 1), (3, 1), (8, 2), (64, 16)])
def test_the_retry_topic_has_one_partition_for_four_and_keeps_its_records_a_week_whatever_the_broker_does(
    partitions: int, of_retries: int
) -> None:
    (retry,) = (each for each in model_topics(Topics(), "m", partitions=partitions) if each.name == "headrace.m.retry")
    assert (retry.partitions, retry.config["cleanup.policy"]) == (of_retries, "delete")
    assert int(retry.config["retention.ms"]) >= 7 * 86_400_000
