"""The ways in which headrace's worker is measured: flags, batches, rows a record, and what each one needs."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence

from msgspec import Struct

from workers.settings import WorkerSettings

COLUMNAR_ROWS = 64
NAIVE = "naive"


class Variant(Struct, frozen=True):
    """One way to run the worker.

    Attributes:
        name: as the tables have it.
        rows_a_record: samples in each request.
        batch: most rows of a batch; None is the model's own.
        workers: processes that share the drain.
        replicas: runners in each.
        librdkafka: the Kafka client that it uses instead of aiokafka.
    """

    name: str
    rows_a_record: int = 1
    batch: int | None = None
    workers: int = 1
    replicas: int = 1
    librdkafka: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """What `headrace worker` is given beyond the defaults."""
        client = ("--kafka-client", "librdkafka") if self.librdkafka else ()
        return client + (("--replicas", str(self.replicas)) if self.replicas > 1 else ())

    def lacking(self, settings: Sequence[str] = WorkerSettings.__struct_fields__) -> str | None:
        """A sentence that says why it cannot run with a worker of these settings; None when it can."""
        if self.librdkafka and "kafka_client" not in settings:
            return f"{self.name}: this worker has no --kafka-client."
        if self.librdkafka and importlib.util.find_spec("confluent_kafka") is None:
            return f"{self.name}: confluent-kafka is not installed; the extra `librdkafka` brings it."
        if self.replicas > 1 and "replicas" not in settings:
            return f"{self.name}: this worker has no --replicas."
        return None


def _both_clients(**options: int) -> list[Variant]:
    words = "".join(f" {name} {value}" for name, value in options.items())
    clients = {"headrace": False, "librdkafka": True}
    return [Variant(client + words, librdkafka=is_it, **options) for client, is_it in clients.items()]


_COLUMNAR = (
    Variant("headrace columnar", rows_a_record=COLUMNAR_ROWS),
    Variant("librdkafka columnar", rows_a_record=COLUMNAR_ROWS, librdkafka=True),
)
_ALL = (
    *_both_clients(),
    *_both_clients(batch=256),
    *_COLUMNAR,
    *_both_clients(workers=2),
    *_both_clients(replicas=2),
)
VARIANTS: Mapping[str, Variant] = {each.name: each for each in _ALL}
# What `python -m benchmarks` measures of each model, in turns.
MEASURED: Mapping[str, tuple[str, ...]] = {
    "mlp": (
        NAIVE,
        "headrace",
        "headrace batch 256",
        "headrace columnar",
        "librdkafka",
        "librdkafka batch 256",
        "librdkafka columnar",
    ),
    "cls": (NAIVE, "headrace replicas 2", "librdkafka replicas 2", "headrace workers 2", "librdkafka workers 2"),
    "magika": ("headrace workers 2", "headrace replicas 2"),
    "minilm": ("headrace workers 2", "headrace replicas 2"),
}


def able(
    names: tuple[str, ...], settings: Sequence[str] = WorkerSettings.__struct_fields__
) -> tuple[tuple[str, ...], list[str]]:
    """The names that can be measured here, and a sentence for each of the others."""
    lacking = {name: VARIANTS[name].lacking(settings) if name in VARIANTS else None for name in names}
    kept = tuple(name for name, reason in lacking.items() if reason is None)
    return kept, [reason for reason in lacking.values() if reason is not None]
