"""What benchmarks tell Kafka's Java."""

from __future__ import annotations

import pytest

from benchmarks.java_compiler import compiler_stopped, tell
from headrace.local_kafka import LocalKafka

EXCLUDED = "Exclude:true"


def test_the_compiler_of_kafkas_java_is_stopped_for_a_while() -> None:
    with LocalKafka(benchmark=True) as kafka:
        with compiler_stopped(kafka.pid):
            assert EXCLUDED in tell(kafka.pid, "Compiler.directives_print")
        assert EXCLUDED not in tell(kafka.pid, "Compiler.directives_print")


def test_a_java_that_cannot_be_told_is_measured_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with compiler_stopped(2**22 + 1):
        pass
    assert "Java compiles on while it is measured" in capsys.readouterr().err
