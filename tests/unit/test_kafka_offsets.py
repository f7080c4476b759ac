"""Errors that concern a whole group are never taken for "nothing is committed"."""

import pytest
from aiokafka.errors import GroupLoadInProgressError, IllegalGenerationError, NotCoordinatorForGroupError
from aiokafka.protocol.commit import OffsetCommitResponse_v3, OffsetFetchResponse_v3

from producer_sdk._kafka_offsets import read_committed, read_fetched
from producer_sdk.broker import Committed, TopicPartition

GROUP_LOADING, NOT_COORDINATOR, ILLEGAL_GENERATION = 14, 16, 22


def test_committed_offsets_are_read_with_their_text() -> None:
    response = OffsetFetchResponse_v3(0, [("t", [(0, 5, "text", 0), (1, -1, "", 0), (2, 0, None, 0)])], 0)
    assert read_fetched(response) == {
        TopicPartition("t", 0): Committed(5, "text"),
        TopicPartition("t", 2): Committed(0),
    }


def test_a_group_that_is_still_loading_is_an_error_and_not_an_empty_group() -> None:
    with pytest.raises(GroupLoadInProgressError):
        read_fetched(OffsetFetchResponse_v3(0, [], GROUP_LOADING))


def test_an_error_of_one_partition_is_an_error() -> None:
    with pytest.raises(NotCoordinatorForGroupError):
        read_fetched(OffsetFetchResponse_v3(0, [("t", [(0, 5, "", 0), (1, -1, "", NOT_COORDINATOR)])], 0))


def test_of_several_errors_of_a_commit_the_final_one_counts() -> None:
    with pytest.raises(IllegalGenerationError):
        read_committed(OffsetCommitResponse_v3(0, [("t", [(0, 0), (1, GROUP_LOADING), (2, ILLEGAL_GENERATION)])]))


def test_a_commit_without_errors_is_silent() -> None:
    read_committed(OffsetCommitResponse_v3(0, [("t", [(0, 0)])]))
