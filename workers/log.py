"""Logging of the worker process: a sentence for people or a JSON line for machines, each with its stable `action`."""

from __future__ import annotations

import logging
import sys
import time

import msgspec

from producer_sdk.errors import Internal
from producer_sdk.wire import sendable

_log = logging.getLogger("headrace.worker")
SPARSE_S = 30.0
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": sendable(record.getMessage()),
        }
        line |= {name: sendable(str(value)) for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = sendable(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class Sparse(logging.Filter):
    """Lets one kind of message of Kafka's client pass every half minute: it repeats itself at every attempt.

    A group's first member is always told that there is no coordinator yet, which is no news at all.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("aiokafka"):
            return True
        if "GroupCoordinatorNotAvailable" in record.getMessage():
            return False
        last = self._passed.get(record.msg)
        if last is not None and record.created - last < SPARSE_S:
            return False
        self._passed[record.msg] = record.created
        return True


def set_up_logging(level: str, form: str) -> None:
    """Send the log to standard error; Kafka's client speaks up only when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    people = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    handler.setFormatter(JsonLines() if form == "json" else people)
    handler.addFilter(Sparse())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    logging.getLogger("botocore").setLevel(logging.WARNING)


def bug(what: str, model: str, err: Exception) -> Internal:
    """The error of the requests that a fault of our own concerns; the log gets its traceback."""
    _log.error("The worker failed at %s of model %s", what, model, exc_info=err, extra={"action": "bug"})
    return Internal(f"the worker failed at {what}: {type(err).__name__}: {err}"[:1000])
