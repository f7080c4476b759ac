"""Everything the gateway holds open, started and closed in order; the HTTP server is not among it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from producer_sdk import Client
from producer_sdk.broker import Broker, BrokerError
from producer_sdk.directory import ModelDirectory
from producer_sdk.payloads import Payloads
from producer_sdk.rights import Role, rights_of
from producer_sdk.topics import Topics

from .admit import Admission
from .app import App, endpoints
from .at_once import AtOnce
from .contact import Contact
from .health import Health
from .infer import Inference
from .metadata import StatusPages
from .metrics import GatewayMetrics
from .models import Models, TopicNames
from .oip import OipSurface
from .outcomes import Outcomes
from .settings import GatewaySettings
from .v1 import V1Surface


class Parts:
    """What the admin port may look at while the rest starts, stops or is stuck.

    Attributes:
        health: what the probes tell.
        admission: what is in flight.
        metrics: what was counted.

    `s3` is a store to use in place of that of the settings.
    """

    def __init__(self, settings: GatewaySettings, s3: Payloads | None = None) -> None:
        self.settings = settings
        self._s3 = s3
        self.health = Health()
        self.admission = Admission(
            max_inflight=settings.max_inflight,
            max_inflight_per_model=settings.max_inflight_per_model,
            max_body_bytes_held=settings.max_body_bytes_held,
        )
        self.metrics = GatewayMetrics(lambda: self.admission.inflight)

    @asynccontextmanager
    async def open(self, broker: Broker) -> AsyncIterator[App]:
        """The application, once announcements are read and Kafka takes requests.

        Raises:
            NotAllowed: the gateway lacks a right.
            BrokerError: Kafka did not answer.
        """
        topics = Topics(self.settings.prefix)
        directory = ModelDirectory(broker, topics)
        admin = broker.admin()
        contact = Contact(admin, broker.name)
        client = Client(
            broker,
            prefix=self.settings.prefix,
            max_pending=self.settings.max_inflight,
            s3=self._s3 or self.settings.s3(),
        )
        async with AsyncExitStack() as opened:
            opened.push_async_callback(admin.stop)
            await admin.start()
            if (refused := await admin.missing(rights_of(Role.GATEWAY, self.settings.prefix, ()))) is not None:
                raise refused
            opened.push_async_callback(directory.close)
            await directory.start()
            opened.push_async_callback(client.close)
            await client.start()
            await client.listen()
            watch = asyncio.create_task(contact.watch(), name="headrace-kafka-watch")
            opened.push_async_callback(_ended, watch)
            self.health.checks = (
                lambda: contact.lost,
                lambda: _unread("announcements", directory.failed),
                lambda: _unread("replies", client.deaf),
            )
            yield self._app(client, Models(directory, contact, TopicNames(admin), topics, self.settings.v1_model))

    def _app(self, client: Client, models: Models) -> App:
        inference = Inference(client, models, self.admission, self.settings)
        pages = StatusPages(models, self.health, own_version())
        oip, outcomes = OipSurface(models), Outcomes(self.metrics)
        at_once = AtOnce(client, self.admission, inference, oip, outcomes)
        return App(endpoints(pages, inference, oip, V1Surface(models)), self.admission, outcomes, at_once)


def own_version() -> str:
    """The version of the installed distribution; empty when run from a bare checkout."""
    try:
        return version("headrace")
    except PackageNotFoundError:
        return ""


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _unread(what: str, failed: BrokerError | None) -> str | None:
    return None if failed is None else f"{what} cannot be read: {failed.message}"
