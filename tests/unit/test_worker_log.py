"""Log lines of the worker, for people and for machines."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from producer_sdk.errors import Code
from workers.log import SPARSE_S, JsonLines, Sparse, bug, set_up_logging


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, given back as it was."""
    root, aiokafka = logging.getLogger(), logging.getLogger("aiokafka")
    kept = root.handlers[:], root.level, aiokafka.level
    yield root
    root.handlers[:], root.level, aiokafka.level = kept


def line(message: str, *arguments: object, **fields: object) -> dict[str, str]:
    record = logging.makeLogRecord(
        {"name": "headrace.worker", "levelno": 20, "levelname": "INFO", "msg": message, "args": arguments} | fields
    )
    read: dict[str, str] = json.loads(JsonLines().format(record))
    return read


def test_a_line_for_machines_has_time_level_logger_message_and_action() -> None:
    written = line("%d batches", 3, action="drain", created=0.5, msecs=500.0, port=80)
    assert written == {
        "time": "1970-01-01T00:00:00.500Z", "level": "info", "logger": "headrace.worker", "message": "3 batches",
        "action": "drain", "port": "80",
    }  # fmt: skip


def test_a_line_for_machines_holds_the_traceback() -> None:
    try:
        raise ValueError("deep")
    except ValueError:
        written = line("it failed", exc_info=sys.exc_info())
    assert written["traceback"].startswith("Traceback")
    assert written["traceback"].endswith("ValueError: deep")


def test_any_text_can_be_logged_for_machines() -> None:
    assert line("no file \udcff", path="\ud800")["message"] == "no file ?"


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_goes_to_standard_error_in_the_form_asked_for(
    form: str, root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("warning", form)
    logging.getLogger("headrace.worker").warning("Hear this", extra={"action": "test"})
    logging.getLogger("headrace.worker").info("not this")
    logging.getLogger("aiokafka").warning("nor this")
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 1
    assert ('"action":"test"' in written.err) == (form == "json")
    assert "Hear this" in written.err


def test_a_fault_of_our_own_is_logged_with_its_traceback_and_told_to_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = bug("a batch", "m", ZeroDivisionError("x" * 5000))
    assert error.code == Code.INTERNAL
    assert error.message.startswith("the worker failed at a batch: ZeroDivisionError: xxx")
    assert len(error.message) == 1000
    assert caplog.records[0].exc_info is not None
    assert caplog.messages == ["The worker failed at a batch of model m"]


def of_kafka(message: str, created: float, name: str = "aiokafka") -> logging.LogRecord:
    return logging.makeLogRecord({"name": name, "msg": message, "created": created})


def test_a_client_that_repeats_itself_is_heard_once_in_half_a_minute() -> None:
    sparse = Sparse()
    heard = [sparse.filter(of_kafka("Unable connect to node", at)) for at in (0.0, 1.0, SPARSE_S - 1, SPARSE_S)]
    assert heard == [True, False, False, True]
    assert sparse.filter(of_kafka("another fault", 1.0))
    assert all(sparse.filter(of_kafka("ours", 1.0, "headrace.worker")) for _ in range(3))


def test_that_a_new_group_has_no_coordinator_yet_is_no_news() -> None:
    assert not Sparse().filter(of_kafka("failed: [Error 15] GroupCoordinatorNotAvailableError", 0.0))
