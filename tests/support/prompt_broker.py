"""The broker in memory, whose producers take records at once too, as those on Kafka do."""

import asyncio

import pytest

from producer_sdk._memory_producer import MemoryAcknowledged, MemoryProducer
from producer_sdk._producer import Sender
from producer_sdk._route import Route
from producer_sdk.broker import NoSuchPlace, Outgoing
from producer_sdk.testing import MemoryBroker


class PromptProducer(MemoryProducer):
    """Implements `broker.AtOnce`, each record with its own acknowledgement. `is_full`: every record has to wait."""

    is_full = False

    def publish_now(self, topic: str, record: Outgoing, partition: int) -> MemoryAcknowledged | None:
        if self.is_full:
            return None
        try:
            self._check(topic, record)
            return self._send(topic, partition, record)
        except NoSuchPlace:
            return None


class PromptBroker(MemoryBroker):
    def producer(self) -> PromptProducer:
        return PromptProducer(self._logs, self._faults)

    def know_routes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Spare clients their look for a topic, or the first request of each would have to wait for it."""
        look = Sender.known_route

        def known_route(sender: Sender, model: str, lane: str) -> Route | None:
            topic = sender._topics.requests(model, lane)
            partitions = self._logs._topics.get(topic)
            if partitions and (model, lane) not in sender._routes:
                sender._routes[model, lane] = Route(topic, len(partitions), model, lane)
                sender._listed_at_s = asyncio.get_running_loop().time()
            return look(sender, model, lane)

        monkeypatch.setattr(Sender, "known_route", known_route)
