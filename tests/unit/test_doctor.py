"""What `headrace doctor` makes of facts: each check says ok, or what is wrong and what to do."""

import json
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from model_folders import python_model
from typer.testing import CliRunner

from headrace.cli import app
from headrace.doctor_describe import Clock, Described, TopicFacts
from headrace.doctor_engines import judge_devices, judge_onnxruntime, judge_torch
from headrace.doctor_kafka import Part, client_lines, judge_presence, models_of
from headrace.doctor_line import Line, State
from headrace.doctor_machine import MemoryFacts, batch_bytes, judge_cores, judge_files, judge_memory, machine_lines
from headrace.doctor_models import look_at_models
from headrace.doctor_table import document, print_lines, summary, worst
from headrace.doctor_topics import Limits, judge_clock, judge_topics, needs_of
from producer_sdk.setting import SettingsError
from producer_sdk.settings import KafkaSettings
from producer_sdk.tensors import Datatype
from producer_sdk.topics import Topics
from workers.runners.engine import ModelSpec, TensorSpec
from workers.settings import WorkerSettings

TOPICS = Topics("p")
DAY_MS = 86_400_000
GOOD = {
    "max.message.bytes": "1048588",
    "retention.ms": str(7 * DAY_MS),
    "cleanup.policy": "delete",
    "min.insync.replicas": "1",
}


def spec(name: str = "m", **values: object) -> ModelSpec:
    return ModelSpec(name, "1", Path("/models/m/1"), **({"engine": "python"} | values))  # type: ignore[arg-type]


def topic(name: str, partitions: int = 8, replicas: int = 1, **config: str) -> TopicFacts:
    """A topic as it should be, but for the settings named, with `_` for `.`."""
    own = {"cleanup.policy": "compact"} if name == TOPICS.control else {}
    changed = {key.replace("_", "."): value for key, value in config.items()}
    return TopicFacts(name, 1 if name == TOPICS.control else partitions, replicas, config=GOOD | own | changed)


def judged(*odd: TopicFacts, deadline_s: float | None = None, brokers: int = 1) -> list[Line]:
    """The lines for a model's topics, all well but for the odd ones."""
    needs = needs_of(TOPICS, {"m": deadline_s})
    facts = {need.topic: topic(need.topic) for need in needs} | {each.name: each for each in odd}
    return judge_topics(needs, Described(brokers, tuple(facts.values()), None), Limits(1_048_000, brokers))


def bad(lines: Sequence[Line]) -> list[tuple[str, State]]:
    return [(line.name, line.state) for line in lines if line.state is not State.OK]


def test_topics_that_are_well_get_a_line_for_each_aspect() -> None:
    assert [line.name for line in judged()] == ["record size", "retention", "cleanup", "partitions", "replication"]
    assert bad(judged()) == []


@pytest.mark.parametrize(
    ("odd", "aspect", "state", "words"),
    [
        (topic("p.m.bulk", max_message_bytes="1000"), "record size", State.FAULT, "max.message.bytes=1048000"),
        (topic("p.m.bulk", retention_ms="1000"), "retention", State.FAULT, "keeps records 1 s"),
        (topic("p.m.bulk", retention_ms="3600000"), "retention", State.NOTE, "retention.ms=86400000"),
        (topic("p.m.retry", retention_ms="3600000"), "retention", State.FAULT, "wanted for 24 h"),
        (topic("p.m.async", cleanup_policy="compact"), "cleanup", State.FAULT, "cleanup.policy=delete"),
        (topic("p.control", cleanup_policy="delete"), "cleanup", State.FAULT, "cleanup.policy=compact"),
        (topic("p.m.async", partitions=1), "partitions", State.NOTE, "no second worker"),
        (TopicFacts("p.control", 3, 1, config={}), "partitions", State.FAULT, "only the first is read"),
        (
            TopicFacts("p.m.async", 8, 1, leaderless=2, config={}),
            "partitions",
            State.FAULT,
            "2 of 8 partitions without",
        ),
        (TopicFacts("p.m.async", 8, 2, lagging=2, config={}), "replication", State.NOTE, "not in sync"),
        (topic("p.m.async", min_insync_replicas="2"), "replication", State.FAULT, "every publish is refused"),
        (topic("p.m.async", replicas=3), "replication", State.NOTE, "min.insync.replicas=2"),
    ],
)
def test_a_topic_that_is_not_well_is_named_with_its_cure(
    odd: TopicFacts, aspect: str, state: State, words: str
) -> None:
    lines = judged(odd, deadline_s=60.0)
    assert bad(lines) == [(aspect, state)]
    (text,) = [line.text for line in lines if line.state is state]
    assert odd.name in text
    assert words in text


def test_topics_with_the_same_fault_share_a_line() -> None:
    small = [topic(name, max_message_bytes="1000") for name in TOPICS.lanes("m")]
    (line,) = [line for line in judged(*small) if line.state is State.FAULT]
    assert "--entity-name TOPIC" in line.text


def test_settings_that_may_not_be_read_are_told_and_are_no_fault() -> None:
    lines = judged(TopicFacts("p.replies", 8, 1, config=None))
    assert {name for name, _ in bad(lines)} == {"record size", "retention", "cleanup", "replication"}
    assert worst(lines) is State.OK


def test_one_copy_on_many_brokers_is_noted() -> None:
    assert bad(judged(brokers=3)) == [("replication", State.NOTE)]


@pytest.mark.parametrize(
    ("ahead_s", "state"), [(0.05, State.OK), (-0.5, State.NOTE), (3.0, State.FAULT), (-3.0, State.FAULT)]
)
def test_clocks_may_differ_as_far_as_is_allowed(ahead_s: float, state: State) -> None:
    assert judge_clock(Clock(ahead_s, 0.01), allowance_s=0.1).state is state
    assert judge_clock(Clock(ahead_s, 4.0), allowance_s=0.1).state is State.OK, "it is not sure that they differ"
    assert judge_clock(None, 0.1).state is State.SKIPPED


@pytest.mark.parametrize(
    ("part", "makes_all", "missing", "state"),
    [
        (Part.WORKER, True, "p.m.bulk", State.OK),
        (Part.WORKER, False, "p.m.bulk", State.FAULT),
        (Part.GATEWAY, False, "p.m.bulk", State.FAULT),
        (Part.GATEWAY, False, "p.replies", State.OK),
        (Part.OPERATOR, False, "p.replies", State.FAULT),
    ],
)
def test_a_missing_topic_is_a_fault_where_nobody_makes_it(
    part: Part, makes_all: bool, missing: str, state: State
) -> None:
    line = judge_presence(["p.a", missing], ["p.a"], part, makes_all=makes_all, models=["m"])
    assert line.state is state
    assert missing in line.text


def test_a_password_in_the_clear_is_noted_and_not_shown() -> None:
    secret: dict[str, Any] = {"sasl_username": "ada", "sasl_password": "hunter2"}
    lines = client_lines(KafkaSettings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", **secret))
    assert [line.state for line in lines] == [State.OK, State.NOTE]
    assert "hunter2" not in str(lines)


def test_models_are_told_from_their_topics() -> None:
    assert models_of(["p.m.interactive", "p.m.bulk", "q.n.interactive", "p.replies", "p.a.b.interactive"], "p") == ["m"]


def x(shape: tuple[int, ...], datatype: Datatype = Datatype.FP32) -> tuple[TensorSpec, ...]:
    return (TensorSpec("x", datatype, shape),)


def test_the_bytes_of_a_batch_follow_from_declared_shapes_alone() -> None:
    assert batch_bytes(spec(inputs=x((10,)), max_batch_size=4), 1 << 20) == 160
    assert batch_bytes(spec(inputs=x((10,)), max_batch_size=4), 100) == 100
    assert batch_bytes(spec(inputs=x((-1,))), 1 << 20) is None
    assert batch_bytes(spec(inputs=x((1,), Datatype.BYTES)), 1 << 20) is None
    assert batch_bytes(spec(), 1 << 20) is None


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (MemoryFacts(True, "", 1 << 30, "/tmp", 0), State.OK),
        (MemoryFacts(True, "", None, "/tmp", 0), State.OK),
        (MemoryFacts(True, "", 1000, "/tmp", 1 << 30), State.FAULT),
        (MemoryFacts(False, "", 1 << 30, "/tmp", 1000), State.FAULT),
        (MemoryFacts(True, "No space left on device", 1 << 30, "/tmp", 0), State.FAULT),
    ],
)
def test_two_batches_of_each_runner_must_fit(facts: MemoryFacts, state: State) -> None:
    assert judge_memory(facts, [spec(inputs=x((10,)))], 1 << 20).state is state


def test_threads_without_a_core_are_noted() -> None:
    assert judge_cores(4, [spec(threads=3)]).state is State.OK
    assert judge_cores(4, [spec(threads=2, replicas=2)]).state is State.NOTE


def test_too_few_open_files_are_a_fault_with_the_number_to_set() -> None:
    assert judge_files(1024, 1, 0).state is State.OK
    assert judge_files(resource.RLIM_INFINITY, 1, 0).state is State.OK
    assert "ulimit -n 8448" in judge_files(1024, 0, 8192).text


ONNX = spec("o", engine="onnxruntime")
ON_CUDA = spec("g", engine="onnxruntime", device="cuda:1")
CPU_ONLY = {"version": "1", "providers": ["CPUExecutionProvider"]}


@pytest.mark.parametrize(
    ("told", "specs", "state", "words"),
    [
        ({"missing": True}, [], State.SKIPPED, "no model wants it"),
        ({"missing": True}, [ONNX], State.FAULT, "headrace[onnx]"),
        ({"missing": True}, [ON_CUDA], State.FAULT, "headrace[onnx-gpu]"),
        ({"fault": "ImportError: x"}, [ONNX], State.FAULT, "ImportError: x"),
        ({"fault": "ImportError: x"}, [], State.NOTE, "ImportError: x"),
        (CPU_ONLY, [ONNX], State.OK, "CPUExecutionProvider"),
        (CPU_ONLY, [ON_CUDA], State.FAULT, "headrace[onnx-gpu]"),
    ],
)
def test_onnxruntime_must_have_what_its_models_need(
    told: dict[str, object], specs: list[ModelSpec], state: State, words: str
) -> None:
    line = judge_onnxruntime(told, specs)
    assert line.state is state
    assert words in line.text


def test_a_torch_without_devices_is_noted_where_a_model_is_for_one() -> None:
    told = {"version": "2", "cuda": None, "devices": 0}
    assert judge_torch(told, []).state is State.OK
    assert judge_torch(told, [spec(device="cuda:0")]).state is State.NOTE
    assert judge_torch({"missing": True}, []).state is State.SKIPPED
    assert judge_torch({"fault": "x"}, []).state is State.NOTE


def test_each_device_that_a_model_names_must_be_there() -> None:
    two = {"devices": [{"name": "H200", "bytes": 1 << 37}] * 2}
    assert [line.state for line in judge_devices(two, [ON_CUDA, spec(device="cuda:7")])] == [State.OK, State.FAULT]
    assert "--gpus all" in judge_devices({"fault": "OSError: no libcuda"}, [ON_CUDA])[0].text
    assert "none is visible" in judge_devices({"devices": []}, [ON_CUDA])[0].text
    assert judge_devices({}, [ONNX])[0].state is State.SKIPPED


@pytest.mark.parametrize(("flag", "value"), [("--role", "foo"), ("--budget-s", "0"), ("--port", "8000")])
def test_a_flag_that_cannot_be_used_is_told_as_a_setting_is(flag: str, value: str) -> None:
    error = CliRunner().invoke(app, ["doctor", flag, value]).exception
    assert isinstance(error, SettingsError)
    assert ("give " if flag != "--port" else "the flags of headrace worker") in str(error)


def test_without_models_nothing_is_said_of_memory_and_cores() -> None:
    assert [line.state for line in machine_lines([], 1, 0)][:2] == [State.SKIPPED] * 2


def test_faults_of_the_model_directory_are_told_of_models_that_are_served(tmp_path: Path) -> None:
    python_model(tmp_path, "good")
    python_model(tmp_path, "bad", "class Model: ...")
    one = look_at_models(WorkerSettings(models=tmp_path, model=("good",), device="cuda:3"))
    assert [(each.name, each.device) for each in one.specs] == [("good", "cuda:3")]
    assert bad(one.lines) == []
    assert bad(look_at_models(WorkerSettings(models=tmp_path)).lines) == [("directory", State.FAULT)]
    assert bad(look_at_models(WorkerSettings(models=tmp_path / "none")).lines) == [("directory", State.FAULT)]
    assert bad(look_at_models(WorkerSettings(models=tmp_path, model=("x",))).lines) == [("directory", State.FAULT)]


LINES = [Line("Kafka", "clock", State.FAULT, "It is [late]. " * 20), Line("S3", "buckets", State.SKIPPED, "Not set.")]


def test_a_program_that_reads_gets_each_finding_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(LINES)
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("fault  Kafka: clock: It is [late]. It is [late].")
    assert out[-1] == "1 fault."
    assert summary(LINES[1:]) == "All is well with what is configured."


def test_the_document_says_whether_all_is_well() -> None:
    told = json.loads(json.dumps(document(LINES, Part.WORKER)))
    assert (told["ok"], told["role"], told["checks"][1]["state"]) == (False, "worker", "skipped")
    assert document(LINES[1:], Part.WORKER)["ok"] is True


def test_a_kafka_that_is_away_is_a_fault_and_ends_soon() -> None:
    result = CliRunner().invoke(app, ["doctor", "--role", "gateway", "--bootstrap-servers", "127.0.0.1:1", "--json"])
    assert result.exit_code == 1
    found = {each["check"]: each for each in json.loads(result.stdout)["checks"]}
    assert found["connection"]["state"] == "fault"
    assert "bootstrap_servers" in found["connection"]["text"]
    assert found["the rest"]["state"] == "skipped"
