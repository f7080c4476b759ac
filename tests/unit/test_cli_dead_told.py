"""What `headrace dead` tells people and programs of letters: a table, a whole letter, what became of each."""

import json
from typing import Any

import numpy as np
import pytest
from made_letters import NOW_MS, PACKED, letter
from rich.cells import cell_len

from headrace.dead_judge import Reason, Skipped
from headrace.dead_reader import Letter
from headrace.dead_redrive import Tally
from headrace.dead_report import FEW, MORE, Report
from headrace.dead_show import document, lines
from headrace.dead_table import table
from producer_sdk.errors import InputGone
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Request, encode_request


def test_a_table_has_a_line_a_letter_whatever_its_message_holds() -> None:
    shown = table([(letter(message="two\nlines \x1b[31m"), False), (letter(b"\xc1"), True)])
    assert shown[0].split() == ["place", "id", "code", "attempts", "when", "origin", "re-driven", "message"]
    assert shown[1].startswith("0:17   a-1 ")
    assert shown[1].endswith("no         two lines ?[31m")
    assert "p.m.async:1:5  INTERNAL" in shown[2]


def test_a_shown_letter_tells_facts_headers_and_request_or_why_there_is_none() -> None:
    told = "\n".join(lines(letter(original=[("a", b"\xff")]), False))
    for words in ("0:17 of p.m.dead", "INTERNAL", "p.m.async:1:5, published", "header a", "\\xff", "p.replies:1",
                  "input x", "FP32 [1, 2], 8 bytes: 0.1, inf"):  # fmt: skip
        assert words in told
    broken = document(letter(b"\xc1", cut_from_bytes=2000), True)
    assert (broken["request"], broken["redriven"], broken["cut_from_bytes"]) == (None, True, 2000)
    assert "the record is no request" in broken["fault"]
    whole = document(letter(), False)
    (shown,) = whole["request"]["inputs"]
    assert shown == {
        "name": "x",
        "datatype": "FP32",
        "shape": [1, 2],
        "bytes": 8,
        "data": [pytest.approx(0.1), "Infinity"],
    }
    assert whole["when"] == "2026-05-28T20:26:40.000Z"


def requesting(array: Any) -> Letter:
    return letter(encode_request(Request("a", {"x": Tensor.from_array(array)})))


@pytest.mark.parametrize(
    ("array", "line", "data"),
    [
        ([["one", "two"]], ": one, two", ["one", "two"]),
        (np.arange(8), ": 0, 1, 2, 3, 4, 5, 6, 7", [0, 1, 2, 3, 4, 5, 6, 7]),
        (np.arange(9), "bytes", None),
        (["x" * 2000], "bytes", None),
        ([b"\xff"], ": \ufffd", None),
        (np.zeros((0, 4)), "bytes", []),
    ],
    ids=["texts", "eight", "nine", "a long text", "bytes", "nothing"],
)
def test_values_are_shown_of_small_tensors_alone(array: Any, line: str, data: Any) -> None:
    of = requesting(array)
    assert lines(of, False)[-1].endswith(line)
    assert document(of, False)["request"]["inputs"][0]["data"] == data


MESSAGE = (
    "the model has failed: ValueError: cannot digest 666, which it was not trained upon, \u6f22\u5b57 and all that"
)
LISTED = [
    (
        letter(
            PACKED.replace(b"\xa3a-1", b"\xd9\x20" + b"0123456789abcdef" * 2), code="RUNNER_CRASHED", message=MESSAGE
        ),
        False,
    ),
    (letter(at=(3, 123_456, NOW_MS), code="PAYLOAD_TOO_LARGE", message=MESSAGE), True),
    (letter(b"\xc1", code="INTERNAL", message="\u6f22" * 200), False),
]


@pytest.mark.parametrize("columns", [60, 80, 100, 160, 400])
def test_a_table_is_no_wider_than_its_terminal(columns: int) -> None:
    shown = table(LISTED, columns)
    assert max(map(cell_len, shown)) <= columns
    assert len(shown) == 5
    assert shown[2].split()[:2] == ["3:123456*", "a-1"]
    assert shown[-1] == "* re-driven"
    assert ("\u2026" in shown[1]) is (columns < 400)


def test_a_terminal_that_is_wide_enough_shows_ids_whole() -> None:
    assert [columns for columns in (80, 100, 160) if "0123456789abcdef" * 2 in table(LISTED, columns)[1]] == [160]
    assert [columns for columns in (60, 80, 100) if "attempts" in table(LISTED, columns)[0]] == [100]


def test_a_program_gets_messages_whole() -> None:
    assert table(LISTED)[1].endswith(MESSAGE)


def reported(count: int, *, as_json: bool = False, dry_run: bool = False, each: bool = False) -> bool:
    """A re-drive of so many letters, of which the first is skipped."""
    report = Report(None, each=each, as_json=as_json, dry_run=dry_run)
    report.tally = Tally(published=count - 1)
    report.tally.skipped[Reason.EXPIRED] = 1
    for offset in reversed(range(count)):  # what is skipped is known before what is published
        report.told(letter(at=(0, offset, NOW_MS)), Skipped(Reason.EXPIRED, "it is late") if offset == 0 else None)
    return report.end()


def test_few_letters_are_told_one_by_one_and_many_as_a_sum_that_says_where_to_look(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reported(3)
    few = capsys.readouterr().out.splitlines()
    assert few[:3] == ["0:0  a-1  skipped: it is late", "0:1  a-1  published", "0:2  a-1  published"]
    assert few[3:4] == ["2 published, 1 skipped:"]
    reported(FEW + 1)
    many = capsys.readouterr().out.splitlines()
    assert [many[0], many[-1], len(many)] == [f"{FEW} published, 1 skipped:", MORE, 3]


def test_programs_are_told_what_became_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    reported(FEW + 5, as_json=True, dry_run=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["published"], told["would_publish"], len(told["letters"])) == (0, FEW + 4, FEW + 5)
    assert told["letters"][:2] == [
        {"place": "0:0", "id": "a-1", "outcome": "skipped", "reason": "expired", "detail": "it is late"},
        {"place": "0:1", "id": "a-1", "outcome": "would_publish", "reason": None, "detail": None},
    ]


def test_what_failed_and_what_is_not_there_is_told_on_stderr_and_to_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report([(0, 17), (0, 99)], each=False, as_json=True, dry_run=False)
    report.tally = Tally(failed=1)
    report.told(letter(), InputGone("away"))
    assert report.end()
    captured = capsys.readouterr()
    assert [each["reason"] for each in json.loads(captured.out)["letters"]] == ["INPUT_GONE", "no_match"]
    assert captured.err.splitlines() == ["0:17  a-1  failed: away", "There is no letter at 0:99 that matches."]
