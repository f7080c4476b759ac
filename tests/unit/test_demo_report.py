"""What the demo shows on a terminal: a line for each answer, however long its name, and nothing of the libraries."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from headrace.demo.question import Answer, Question, Way, told_by_worker
from headrace.demo.report import print_answers, shortened, summary

ROOT = Path(__file__).resolve().parents[2]
LONG = "docs/decisions/0004-the-gateway-has-no-framework.md"
NOISE = """
import logging, sys
from headrace.demo.__main__ import set_up_logging
set_up_logging(sys.argv[1] == "debug")
logging.getLogger("aiokafka.producer").warning("Got error produce response")
"""


def answer(name: str = LONG, latency_s: float = 0.1757, run_ms: float | None = 12.0, **other: object) -> Answer:
    question = Question(name, "magika", {}, ("json", "jsonl"))
    return Answer(question, Way.SDK, latency_s, "markdown", 0.9994, 4, run_ms, **other)  # type: ignore[arg-type]


def printed(answers: list[Answer], width: int) -> list[str]:
    text = io.StringIO()
    print_answers(Console(file=text, width=width), answers)
    return text.getvalue().splitlines()


def test_a_long_name_loses_its_middle() -> None:
    assert shortened("schemas/announcement.v1.json", 21) == "schemas/…ment.v1.json"
    assert shortened("short", 21) == "short"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_an_answer_is_one_whole_line_of_the_terminal(width: int) -> None:
    lines = printed([answer(), answer("Makefile")], width)
    rows = [line for line in lines if "markdown" in line and "wrong" not in line]
    assert len(rows) == 2
    assert all(len(row) <= width and "markdown (0.999)  json or jsonl  NO  175.7     4" in row for row in rows)


def test_a_wide_terminal_shows_the_whole_name() -> None:
    assert any(LONG in line and "wrong" not in line for line in printed([answer()], 120))


def test_the_summary_tells_waiting_from_running() -> None:
    text = summary([answer(latency_s=0.1), answer(latency_s=0.2, run_ms=8.0)], 0.5, 64)
    assert "Median latency 150 ms, 10 ms of it in the model." in text
    assert "Up to 64 questions are asked at once" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_the_worker_tells_may_be_missing_or_strange() -> None:
    assert told_by_worker({"batch_rows": 4, "run_ms": 1}) == (4, 1.0)
    assert told_by_worker({"batch_rows": "4"}) == (None, None)


@pytest.mark.parametrize(("wish", "shown"), [("plain", False), ("debug", True)])
def test_kafkas_client_reaches_the_terminal_only_when_asked(wish: str, shown: bool) -> None:
    done = subprocess.run([sys.executable, "-c", NOISE, wish], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ("Got error produce response" in done.stdout + done.stderr) is shown
