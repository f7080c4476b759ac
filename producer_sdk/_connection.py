"""What a started client holds of its broker."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from ._producer import Sender
from .broker import Admin, Broker, Producer

if TYPE_CHECKING:
    from .kafka import KafkaOptions


class Connection(NamedTuple):
    producer: Producer
    admin: Admin
    sender: Sender


def broker_of(bootstrap_servers: str | Broker, client_id: str | None, options: KafkaOptions | None) -> Broker:
    """The broker for an address, or the one given. Raises ValueError for arguments that do not go together."""
    if not isinstance(bootstrap_servers, str):
        if client_id is not None or options is not None:
            raise ValueError("client_id and options belong to an address: a broker object has its own")
        return bootstrap_servers
    from .kafka import KafkaBroker, KafkaOptions  # here, since importing aiokafka takes a quarter of a second

    chosen = KafkaOptions() if options is None else options
    if client_id is not None:
        chosen = dataclasses.replace(chosen, client_id=client_id)
    return KafkaBroker(bootstrap_servers, options=chosen)
