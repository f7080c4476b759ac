"""What all models of one worker share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from producer_sdk.broker import Admin, Broker, Producer
from producer_sdk.byte_gate import ByteGate
from producer_sdk.payloads import Payloads

from .cancels import Cancels
from .device_share import DeviceShare
from .event_log import EventLog
from .runners.fetching import LayOut
from .turn import Turn


class Shared(Struct, frozen=True):
    """Clients and signs that belong to the worker as a whole.

    Attributes:
        changed: set when others should be told of a model's state.
        quiet: set when no new work is to be taken.
        kafka_away: whether Kafka has not acknowledged anything for a while.
        cancels: requests that their callers have given up.
        turn: which model tries suspects now.
        shares: whose batch starts next, by device, where several models use one.
        events: where what was started and committed is published; None where nobody wants to know.
        redis: client of the Redis that holds reply indexes, for models with `dedupe`; None without.
        payloads: where stored inputs are fetched from, and outcomes stored; None without a bucket in the settings.
        gate: how many bytes of stored inputs may be fetched at a time.
        lay_out: gives the folder that a model with artifacts is loaded from.
    """

    broker: Broker
    producer: Producer
    admin: Admin
    changed: asyncio.Event
    quiet: asyncio.Event
    kafka_away: Callable[[], bool]
    cancels: Cancels
    turn: Turn
    shares: Mapping[str, DeviceShare] = {}
    events: EventLog | None = None
    redis: Any = None
    payloads: Payloads | None = None
    gate: ByteGate = ByteGate(0)
    lay_out: LayOut | None = None
