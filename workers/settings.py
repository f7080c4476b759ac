"""The worker's settings: limits, model directory, ports; checked together at the start."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from producer_sdk.broker import Broker, GroupOptions
from producer_sdk.settings import KafkaSettings

MIB = 1 << 20
DEFAULT_SESSION_S = 10.0
HEARTBEATS_PER_SESSION = 3
LONGEST_DEFAULT_HEARTBEAT_S = 1.0  # a member hears of a rebalance at its next heartbeat, and till then the others wait
SHORTEST_DEFAULT_REBALANCE_S = 60.0
LOW_LATENCY_ROWS = 4
OF_THE_BROKER = {
    "session_timeout_s": "consumer.session.timeout.ms",
    "heartbeat_interval_s": "consumer.heartbeat.interval.ms",
}


def new_worker_id() -> str:
    """`<host>-<process id>-<random>`: differs between any two processes."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:60] or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


class WorkerSettings(KafkaSettings, frozen=True, kw_only=True):
    """What `headrace worker` can be told.

    Raises:
        ValueError: settings that contradict each other; the message names them.
    """

    models: Annotated[Path, Meta(description="The model directory: one folder a model.")] = Path("models")
    model: Annotated[tuple[str, ...], Meta(description="Serve only the models of these names.")] = ()
    worker_id: Annotated[
        str,
        Meta(
            description="Name of this worker in announcements and logs.",
            pattern=r"^[A-Za-z0-9._-]{1,100}$",
            extra={"default": "host-pid-random"},
        ),
    ] = field(default_factory=new_worker_id)
    admin_host: Annotated[str, Meta(description="Address that the admin port listens on.", min_length=1)] = "0.0.0.0"
    admin_port: Annotated[
        int, Meta(description="Port of /startupz, /livez, /readyz and /metrics; 0 takes a free one.", ge=0, le=65535)
    ] = 9400
    group_protocol: Annotated[
        Literal["classic", "consumer"],
        Meta(description="How groups share out partitions; consumer is KIP-848, for kafka_client librdkafka alone."),
    ] = "classic"
    session_timeout_s: Annotated[
        float | None,
        Meta(
            description="A worker silent for so long loses its partitions; brokers refuse less than 6 s by default.",
            gt=0,
            le=1800,
            extra={"default": "10; the broker's with group_protocol consumer"},
        ),
    ] = None
    heartbeat_interval_s: Annotated[
        float | None,
        Meta(
            description="How often the group hears of this worker; at most a third of session_timeout_s.",
            gt=0,
            extra={"default": "1, or a third of session_timeout_s"},
        ),
    ] = None
    max_poll_interval_s: Annotated[
        float, Meta(description="A worker whose loop stands still for so long leaves its groups.", gt=0)
    ] = 300.0
    rebalance_timeout_s: Annotated[
        float | None,
        Meta(
            description="How long the group waits for a worker that gives partitions back; above drain_timeout_s.",
            gt=0,
            extra={"default": "twice drain_timeout_s, at least 60"},
        ),
    ] = None
    drain_timeout_s: Annotated[
        float, Meta(description="Time to finish what was taken, at TERM and when partitions are given back.", ge=0)
    ] = 30.0
    endpoint_lag_s: Annotated[
        float, Meta(description="At TERM, how long to serve on after saying not ready.", ge=0)
    ] = 5.0
    start_timeout_s: Annotated[float, Meta(description="Longest wait for Kafka at the start.", ge=0)] = 60.0
    attempt_timeout_s: Annotated[
        float, Meta(description="Most time for one batch on the device, where model.yaml says nothing.", gt=0)
    ] = 300.0
    attempt_limit: Annotated[
        int,
        Meta(
            description="Deaths of a record until it gets RUNNER_CRASHED; also the default of retry.limit.",
            ge=1,
            le=1000,
        ),
    ] = 5
    circuit_limit: Annotated[
        int, Meta(description="After so many deaths in a row, with no batch run between, a model is not ready.", ge=1)
    ] = 5
    quarantine_s: Annotated[
        float,
        Meta(description="How long inputs that failed a batch are answered with their error, unrun; 0 never.", ge=0),
    ] = 60.0
    group_instance_id: Annotated[
        str | None,
        Meta(
            description="A name kept over restarts (a StatefulSet's pod name): a restart within session_timeout_s then "
            "moves no partition. No two workers may share it.",
            pattern=r"^[A-Za-z0-9._-]{1,100}$",
        ),
    ] = None
    clock_skew_allowance_s: Annotated[
        float, Meta(description="How far clocks may differ: a deadline counts as passed so much later.", ge=0, le=3600)
    ] = 0.1
    progress_timeout_s: Annotated[
        float,
        Meta(
            description="A model that should read or commit but does not for so long joins its group anew; after "
            "twice that the worker is not live.",
            gt=0,
        ),
    ] = 60.0
    events: Annotated[
        bool, Meta(description="Publish what was started and committed to <prefix>.events, for headrace verify.")
    ] = False
    redis_url: Annotated[
        str | None,
        Meta(description="Redis of the reply index, for models with `dedupe: redis`.", extra={"secret": True}),
    ] = None
    reply_index_ttl_s: Annotated[float, Meta(description="How long the reply index keeps a reply.", gt=0)] = 3600.0
    max_backlog_requests: Annotated[
        int | None,
        Meta(
            description="Requests of a lane of one model that may wait; above it the lane is paused.",
            ge=1,
            extra={"default": "four batches, at least 512"},
        ),
    ] = None
    max_backlog_bytes: Annotated[
        int, Meta(description="Bytes of one model's requests that may wait; above it partitions are paused.", ge=MIB)
    ] = 256 * MIB
    max_batch_bytes: Annotated[int, Meta(description="Most bytes of one batch's inputs.", ge=1024)] = 256 * MIB
    max_fetch_bytes: Annotated[
        int, Meta(description="Most bytes of stored inputs fetched at a time, and of one of them.", ge=MIB)
    ] = 256 * MIB
    commit_interval_s: Annotated[float, Meta(description="How often offsets are committed.", gt=0, le=60)] = 0.2
    announce_interval_s: Annotated[
        float, Meta(description="How often the worker repeats what it serves on the control topic.", gt=0, le=60)
    ] = 2.0
    create_topics: Annotated[bool, Meta(description="Create the topics that are missing.")] = True
    partitions: Annotated[int, Meta(description="Partitions of a request topic that is created.", ge=1, le=10_000)] = 8
    reply_partitions: Annotated[
        int, Meta(description="Partitions of the replies topic when it is created.", ge=1, le=10_000)
    ] = 32
    replication_factor: Annotated[
        int, Meta(description="Copies of each topic that is created; -1 leaves it to the brokers.", ge=-1, le=32767)
    ] = -1
    isolation: Annotated[
        Literal["process", "inline"] | None,
        Meta(description="Run every model in a process of its own, or in a thread; else model.yaml decides."),
    ] = None
    replicas: Annotated[
        int | None,
        Meta(
            description="Runners of each model beside each other, each with the model in its own memory; else "
            "model.yaml decides.",
            ge=1,
            le=256,
        ),
    ] = None
    device: Annotated[
        str | None,
        Meta(
            description="Run every model there, cpu or cuda:N; else model.yaml decides.",
            pattern=r"^(cpu|cuda:[0-9]{1,3})$",
        ),
    ] = None
    max_batch_size: Annotated[
        int | None,
        Meta(
            description="Most rows of a batch, of every model; one whose model.yaml says less keeps to that.",
            ge=1,
            le=1_000_000,
        ),
    ] = None
    low_latency: Annotated[
        bool, Meta(description="Batches of at most 4 rows that wait for no company: for callers who are few, and wait.")
    ] = False
    keep_run_times: Annotated[
        bool,
        Meta(description="Keep learned run times in <models>/<name>/.run_times, for the next worker."),
    ] = True
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="Least level to log.")] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="Log lines for people or for machines.")] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_group_protocol()
        heartbeat_s, rebalance_s = self.heartbeat_interval_s, self.rebalance_timeout_s
        session_s = self.session_timeout_s or DEFAULT_SESSION_S
        if heartbeat_s is not None and heartbeat_s * HEARTBEATS_PER_SESSION > session_s:
            raise ValueError(
                f"heartbeat_interval_s ({heartbeat_s:g}) must be at most a third of session_timeout_s "
                f"({session_s:g}), so that one lost heartbeat does not cost the partitions"
            )
        if rebalance_s is not None and rebalance_s <= self.drain_timeout_s:
            raise ValueError(
                f"rebalance_timeout_s ({rebalance_s:g}) must be above drain_timeout_s ({self.drain_timeout_s:g}), "
                "else the group evicts a worker that still drains"
            )
        if self.low_latency and (self.max_batch_size or 0) > LOW_LATENCY_ROWS:
            raise ValueError(
                f"low_latency means batches of at most {LOW_LATENCY_ROWS} rows, but max_batch_size is "
                f"{self.max_batch_size}: lower it, or leave one of them out"
            )
        if self.max_batch_bytes > self.max_backlog_bytes:
            raise ValueError(
                f"max_batch_bytes ({self.max_batch_bytes}) must not be above max_backlog_bytes "
                f"({self.max_backlog_bytes}), for such a batch could never come together"
            )
        if self.max_record_bytes > self.max_backlog_bytes:
            raise ValueError(
                f"max_record_bytes ({self.max_record_bytes}) must not be above max_backlog_bytes "
                f"({self.max_backlog_bytes}), for such a record could never be taken in"
            )

    def _check_group_protocol(self) -> None:
        if self.group_protocol == "classic":
            return
        if self.kafka_client != "librdkafka":
            raise ValueError("group_protocol consumer needs kafka_client librdkafka: aiokafka does not know it")
        for name, of_broker in OF_THE_BROKER.items():
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} has no effect with group_protocol consumer, where the broker decides for all members "
                    f"of a group: set the group's {of_broker} in Kafka, or leave it out"
                )

    def broker(self) -> Broker:
        """The Kafka cluster that these settings name, with members of `group_protocol`."""
        return self._broker(self.group_protocol)

    def group_options(self) -> GroupOptions:
        """How the worker behaves as a member of its models' groups."""
        session_s = self.session_timeout_s or DEFAULT_SESSION_S
        heartbeat_s = self.heartbeat_interval_s or min(LONGEST_DEFAULT_HEARTBEAT_S, session_s / HEARTBEATS_PER_SESSION)
        rebalance_s = self.rebalance_timeout_s or max(SHORTEST_DEFAULT_REBALANCE_S, 2 * self.drain_timeout_s)
        return GroupOptions(
            session_timeout_s=session_s,
            heartbeat_interval_s=heartbeat_s,
            rebalance_timeout_s=rebalance_s,
            max_poll_interval_s=self.max_poll_interval_s,
            instance_id=self.group_instance_id,
        )
