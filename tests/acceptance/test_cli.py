"""The command line over a real stack: answers, JSON, exit codes; and how quick its help is."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dev_process import DevProcess, dev, environment, headrace

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """The built-in example, shared by the tests of this file."""
    with dev("--json", "--port", "0", cwd=tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def servers(stack: DevProcess) -> str:
    return f"--bootstrap-servers={stack.document['bootstrap_servers']}"


def result(*arguments: str, stdin: str = "") -> Any:
    """The JSON document that a run prints."""
    done = headrace(*arguments, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_help_loads_no_verb_and_nothing_that_is_slow_to_load() -> None:
    code = "import sys; from headrace.__main__ import main; sys.argv = ['headrace', '--help']\ntry: main()\n"
    code += "except SystemExit: pass\nprint('LOADED', *sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "worker" in shown.stdout
    loaded = set(shown.stdout.partition("LOADED")[2].split())
    assert not loaded & {"numpy", "aiokafka", "producer_sdk.client", "workers.loop", "gateway.app", "confluent_kafka"}


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
def test_infer_answers_in_either_encoding(servers: str, encoding: str) -> None:
    flags = ("--input", "x=[1, 2.5]", "--id", f"mine-{encoding}", "--encoding", encoding)
    answer = result("infer", "sum", *flags, servers)
    assert (answer["id"], answer["model_version"]) == (f"mine-{encoding}", "1")
    assert answer["outputs"] == [{"name": "total", "datatype": "FP32", "shape": [1, 1], "data": [3.5]}]


def test_infer_takes_a_protocol_body_and_parameters(servers: str) -> None:
    tensor = {"name": "prompt", "datatype": "BYTES", "shape": [1, 1], "data": ["hi"]}
    body = json.dumps({"id": "a.1", "parameters": {"repeat": 3}, "inputs": [tensor]})
    answer = result("infer", "shout", "--json-body", "-", "--parameter", "repeat=2", servers, stdin=body)
    assert (answer["id"], answer["outputs"][0]["data"]) == ("a.1", ["HI HI"])


def test_infer_shows_people_a_table(servers: str) -> None:
    done = headrace("infer", "shout", "--input", "prompt=hello", servers)
    assert "HELLO" in done.stdout
    assert "shout version 1, id " in done.stdout


def test_a_failed_request_is_json_on_stdout_and_exit_code_1(servers: str) -> None:
    done = headrace("infer", "shout", "--input", "prompt=x", "--parameter", "repeat=0", "--json", servers)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["code"]) == (1, "INFERENCE_FAILED")
    assert "repeat is 0" in answer["error"]


def test_an_unknown_model_is_a_sentence_and_exit_code_1(servers: str) -> None:
    done = headrace("infer", "nobody", "--input", "x=1", servers)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("UNKNOWN_MODEL: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("verb", [("replies",), ("dead", "list", "--model"), ("verify", "--model")])
def test_every_verb_knows_an_unknown_model(servers: str, verb: tuple[str, ...]) -> None:
    done = headrace(*verb, "nobody", servers)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("UNKNOWN_MODEL: there is no request topic of a model 'nobody'")


def test_ctrl_c_cancels_what_was_asked_and_says_so(servers: str) -> None:
    headrace("topics", "create", "nobody-serves", servers)
    flags = ("nobody-serves", "--json-body", "-", servers)
    body = '{"id": "given-up", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}'
    command = [sys.executable, "-m", "headrace", "infer", *flags]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdin is not None
        asking.stdin.write(body)
        asking.stdin.close()
        while not result("verify", "--model", "nobody-serves", servers)["accepted"]:
            assert asking.poll() is None
        asking.send_signal(signal.SIGINT)
        assert asking.wait(20.0) == 130
        assert asking.stderr is not None
        assert asking.stderr.read() == "given up; the request is cancelled\n"


def test_publish_gives_the_id(servers: str) -> None:
    published = result("publish", "sum", "--input", "x=[1]", "--id", "p-1", "--lane", "bulk", servers)
    assert published == {"id": "p-1", "model": "sum", "lane": "bulk"}


def test_a_reply_topic_is_made_used_and_read(servers: str) -> None:
    topic = "headrace.mine.results"
    asked = ("publish", "sum", "--input", "x=[1, 2]", "--id", "p-2", "--reply-to", topic, servers)
    refused = headrace(*asked)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"headrace topics create --reply-topic {topic}" in refused.stderr
    assert result("topics", "create", "--reply-topic", topic, servers) == {"created": [topic]}
    assert headrace(*asked).stdout == "p-2\n"
    assert first_reply("--topic", topic, servers)["outputs"][0]["data"] == [3.0]


def first_reply(*flags: str) -> Any:
    """The first reply that `headrace replies --follow` prints, as JSON."""
    command = [sys.executable, "-m", "headrace", "replies", "--follow", "--json", *flags]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        line = following.stdout.readline()
        following.terminate()
    return json.loads(line)


def test_replies_shows_the_last_ones_of_a_model(servers: str) -> None:
    for number in range(3):
        headrace("publish", "shout", "--input", "prompt=hello", "--id", f"r-{number}", servers)
    assert first_reply("shout", "--limit", "100", servers)["id"].startswith("r-")
    done = headrace("replies", "shout", "--limit", "2", servers)
    assert done.returncode == 0
    assert done.stdout.count("  output BYTES 1x1: HELLO") in (1, 2)


def test_models_list_shows_state_and_signature(servers: str) -> None:
    models = {each["model"]: each for each in result("models", "list", servers)}
    assert [models[name]["state"] for name in ("shout", "sum")] == ["READY", "READY"]
    assert models["sum"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1], "batched": True}]


def test_topics_are_created_once_and_listed(servers: str) -> None:
    flags = ("--prefix", "cli-topics", "--partitions", "3", "--reply-partitions", "2", servers)
    created = result("topics", "create", "m", *flags)["created"]
    partitions = {each["topic"]: each["partitions"] for each in result("topics", "list", *flags)}
    assert sorted(partitions) == created
    assert (partitions["cli-topics.m.bulk"], partitions["cli-topics.replies"]) == (3, 2)
    assert result("topics", "create", "m", *flags) == {"created": []}


def test_models_check_names_file_key_and_reason(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text("class Model: ...\n")
    (tmp_path / "m" / "model.yaml").write_text("engine: abacus\n")
    done = headrace("models", "check", str(tmp_path), "--json")
    (fault, _) = json.loads(done.stdout)["faults"]
    assert (done.returncode, fault["key"]) == (1, "engine")
    assert fault["file"].endswith("m/model.yaml")
    assert "abacus" in fault["reason"]


def test_models_check_of_sound_models_exits_0() -> None:
    done = headrace("models", "check", "headrace/example_models")
    assert done.returncode == 0
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:3]] == [
        ["shout", "1", "python"],
        ["sum", "1", "python"],
    ]
    assert done.stdout.endswith("\n\nNo fault found.\n")


@pytest.mark.parametrize("verb", ["worker", "gateway"])
def test_a_bad_variable_stops_the_start_with_exit_code_2(verb: str) -> None:
    done = headrace(verb, HEADRACE_ADMIN_PORT="many")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "HEADRACE_ADMIN_PORT is 'many': give a whole number from 0 to 65535.\n"


def test_debug_adds_the_traceback() -> None:
    assert "Traceback" in headrace("--debug", "worker", "--admin-port", "many").stderr


def test_a_port_that_cannot_be_is_wrong_usage() -> None:
    done = headrace("infer", "m", "--input", "x=1", "--bootstrap-servers", "::1:99999")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a port is a number from 1 to 65535" in done.stderr


def test_python_m_headrace_takes_no_file_of_the_working_folder_for_its_own(tmp_path: Path) -> None:
    for name in ("workers.py", "schemas.py", "queue.py", "gateway.py", "typer.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the user shadows headrace')\n")
    command = [sys.executable, "-m", "headrace", "worker", "--help"]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--session-timeout-s" in done.stdout


def test_version_is_json_too() -> None:
    assert result("version")["wire"] == 1
