"""Which of the assigned partitions are paused, and for what reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from producer_sdk.broker import Consumer, TopicPartition
from producer_sdk.topics import Lane

from .commit import PartitionLedger


class Reading:
    """Pauses and resumes partitions so that each reason can come and go by itself. One event loop touches it.

    Attributes:
        nothing: all are paused: there is no room, or the worker is quiet.
        suspects_only: those without records under suspicion are paused.
        closed_lanes: those of these lanes are paused: there is no room for more of them.
        no_retries: those of the retry topic are paused: enough wait for their time.
    """

    def __init__(self, retry_topic: str, lanes: Mapping[str, Lane]) -> None:
        self._retry_topic = retry_topic
        self._lanes = lanes
        self._paused: frozenset[TopicPartition] = frozenset()
        self.nothing = False
        self.suspects_only = False
        self.no_retries = False
        self.closed_lanes: frozenset[Lane] = frozenset()

    def began(self) -> None:
        """A new assignment starts unpaused."""
        self._paused = frozenset()

    def apply(self, consumer: Consumer, ledgers: Iterable[PartitionLedger]) -> None:
        """Pause what has to be paused now and resume the rest."""
        wanted = frozenset(ledger.partition for ledger in ledgers if self._is_paused(ledger))
        if wanted == self._paused:
            return
        if resumed := self._paused - wanted:
            consumer.resume(resumed)
        if paused := wanted - self._paused:
            consumer.pause(paused)
        self._paused = wanted

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._paused

    def _is_paused(self, ledger: PartitionLedger) -> bool:
        return (
            self.nothing
            or ledger.crowded
            or (self.suspects_only and not ledger.expects_suspects)
            or self._lanes[ledger.partition.topic] in self.closed_lanes
            or (self.no_retries and ledger.partition.topic == self._retry_topic)
        )
