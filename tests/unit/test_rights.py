"""One table says what each role needs of Kafka's rights; sentences, commands and docs are made from it."""

from pathlib import Path

import pytest

from headrace.docs_rights import RIGHTS_PAGE, with_rights
from producer_sdk._kafka_rights import Held, lacking
from producer_sdk.broker import NotAllowed
from producer_sdk.kafka import KafkaBroker
from producer_sdk.memory import MemoryBroker
from producer_sdk.rights import Operation, Resource, Right, Role, commands, missing_rights, refusal, rights_of

WRITE_A = Right(Operation.WRITE, Resource.TOPIC, "a")
READ_A = Right(Operation.READ, Resource.TOPIC, "a")
READ_B = Right(Operation.READ, Resource.TOPIC, "b")
GROUP = Right(Operation.READ, Resource.GROUP, "g")
CREATE_A = Right(Operation.CREATE, Resource.TOPIC, "a")


def test_a_right_reads_as_kafka_calls_it() -> None:
    assert str(WRITE_A) == "WRITE on topic a"
    assert str(Right(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)) == "IDEMPOTENT_WRITE on cluster"
    assert str(Right(Operation.CREATE, Resource.TOPIC, "p.", True)) == "CREATE on topic beginning with p."


def test_what_gets_the_same_operations_is_granted_by_one_command() -> None:
    granted = commands([WRITE_A, READ_B, READ_A, GROUP], "User:u", "k:1")
    head = "kafka-acls.sh --bootstrap-server k:1 --add --allow-principal User:u"
    assert granted == [
        f"{head} --operation Write --operation Read --topic a",
        f"{head} --operation Read --topic b",
        f"{head} --operation Read --group g",
    ]


def test_a_refusal_names_the_principal_the_rights_and_the_cure() -> None:
    said = refusal([WRITE_A], "User:u", "k:1,l:1", "publish")
    assert said.startswith("Kafka at k:1,l:1 does not let User:u publish: it needs WRITE on topic a. Grant it by: ")
    assert "--bootstrap-server k:1 " in said
    assert "User:NAME" in refusal([WRITE_A], None, "k:1", "publish")


def test_rights_that_are_not_told_are_taken_as_held() -> None:
    nobody_tells = Held(None, {"a": None}, {"g": None})
    assert lacking([WRITE_A, GROUP], nobody_tells) == []


def test_rights_are_read_from_the_bits_that_kafka_answers_with() -> None:
    held = Held(0, {"a": 1 << 3 | 1 << 8, "b": 0}, {"g": 1 << 8})
    assert lacking([WRITE_A, READ_A, READ_B, GROUP, READ_B], held) == [WRITE_A, READ_B, GROUP]


def test_create_on_the_cluster_is_create_on_each_topic() -> None:
    assert lacking([CREATE_A], Held(1 << 5, {"a": 0}, {})) == []
    assert lacking([CREATE_A], Held(0, {"a": 1 << 5}, {})) == []
    assert lacking([CREATE_A], Held(0, {"a": 0}, {})) == [CREATE_A]


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.WORKER])
def test_only_workers_are_members_of_groups(role: Role) -> None:
    rights = rights_of(role, "p", ["m"])
    assert not [right for right in rights if right.resource is Resource.GROUP and right.operation is Operation.READ]


def test_nobody_but_the_operator_may_create_topics() -> None:
    creators = {role for role in Role if any(r.operation is Operation.CREATE for r in rights_of(role, "p", ["m"]))}
    assert creators == {Role.TOPICS}


async def test_in_memory_nothing_is_missing() -> None:
    assert await missing_rights(MemoryBroker(), Role.WORKER, ["m"]) == []


def test_an_error_of_missing_rights_tells_them_and_is_not_worth_repeating() -> None:
    err = NotAllowed("no", rights=[WRITE_A])
    assert (err.rights, err.retryable) == ((WRITE_A,), False)


def test_the_docs_list_the_rights_of_the_table() -> None:
    text = Path(RIGHTS_PAGE).read_text(encoding="utf-8")
    assert text == with_rights(text), "run `python -m headrace.docs_rights`"


def test_the_principal_is_known_where_it_is_a_name_of_sasl() -> None:
    assert KafkaBroker("k:1").options.security.principal == "User:ANONYMOUS"
