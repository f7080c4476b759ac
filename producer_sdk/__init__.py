"""Publish requests to headrace and await their replies."""

from ._replies import Counters
from .broker import BrokerError
from .client import Client
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
    RunnerCrashed,
    ServerError,
    UnknownModel,
)
from .tensors import Datatype, Tensor
from .topics import Lane
from .wire import Reply

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
    "RunnerCrashed",
    "ServerError",
    "Tensor",
    "UnknownModel",
]
