"""Publish requests to headrace and await their replies."""

from importlib import import_module
from typing import TYPE_CHECKING

from .broker import BrokerError
from .errors import (
    CallerError,
    Cancelled,
    CapacityError,
    Code,
    DeadlineExceeded,
    EndedError,
    HeadraceError,
    InferenceFailed,
    InputGone,
    Internal,
    InvalidRequest,
    ModelNotReady,
    OutOfMemory,
    PayloadTooLarge,
    QueueFull,
    QuotaExceeded,
    ResultGone,
    RunnerCrashed,
    ServerError,
    UnknownModel,
)
from .tensors import Datatype, Tensor
from .topics import Lane
from .wire import Reply

if TYPE_CHECKING:
    from ._replies import Counters
    from .client import Client

__all__ = [
    "BrokerError",
    "CallerError",
    "Cancelled",
    "CapacityError",
    "Client",
    "Code",
    "Counters",
    "Datatype",
    "DeadlineExceeded",
    "EndedError",
    "HeadraceError",
    "InferenceFailed",
    "InputGone",
    "Internal",
    "InvalidRequest",
    "Lane",
    "ModelNotReady",
    "OutOfMemory",
    "PayloadTooLarge",
    "QueueFull",
    "QuotaExceeded",
    "Reply",
    "ResultGone",
    "RunnerCrashed",
    "ServerError",
    "Tensor",
    "UnknownModel",
]

# Runner processes import this package for its errors and tensors alone: the client comes when somebody asks for it.
_LATER = {"Client": ".client", "Counters": "._replies"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
