"""The broker in memory, whose producers take records at once too, as those on Kafka do."""

from producer_sdk._memory_producer import MemoryAcknowledged, MemoryProducer
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
