"""Settings of the gateway, beside those of Kafka."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import MODEL_NAME

_MIB = 1 << 20


class GatewaySettings(KafkaSettings, frozen=True, kw_only=True):
    """Everything that `headrace gateway` can be told.

    Raises:
        ValueError: settings that contradict each other; the message names them.
    """

    host: Annotated[str, Meta(description="Address to listen on.", min_length=1)] = "0.0.0.0"
    port: Annotated[int, Meta(description="Port of the HTTP surfaces; 0 picks a free one.", ge=0, le=65535)] = 8000
    admin_port: Annotated[
        int, Meta(description="Port of /livez, /readyz and /metrics; 0 picks a free one.", ge=0, le=65535)
    ] = 8002
    v1_model: Annotated[str | None, Meta(description="Model that /v1/infer asks when a request names none.")] = None
    default_deadline_s: Annotated[
        float, Meta(description="Deadline of requests that name none, where their model has none either.", gt=0)
    ] = 30.0
    max_deadline_s: Annotated[float, Meta(description="Longest deadline that a request may ask for.", gt=0)] = 3600.0
    max_body_bytes: Annotated[
        int | None,
        Meta(
            description="Largest HTTP request body.",
            ge=1024,
            le=1 << 30,
            extra={"default": f"{16 * _MIB}, {128 * _MIB} with s3_claim_bucket"},
        ),
    ] = None
    max_body_bytes_held: Annotated[int, Meta(description="Bytes of request bodies held at once.", ge=1024)] = 256 * _MIB
    max_inflight: Annotated[int, Meta(description="HTTP requests held at once.", ge=1)] = 4096
    max_inflight_per_model: Annotated[
        int, Meta(description="Inference requests of one model on their way at once.", ge=1)
    ] = 512
    max_connections: Annotated[int, Meta(description="Connections open at once; one more gets a 503.", ge=1)] = 8192
    head_timeout_s: Annotated[
        float, Meta(description="Longest time for the head of a request, and for the first one to begin.", gt=0)
    ] = 10.0
    body_timeout_s: Annotated[float, Meta(description="Longest time for a request body to arrive.", gt=0)] = 30.0
    endpoint_lag_s: Annotated[
        float, Meta(description="How long to serve on after SIGTERM, until load balancers have heard of it.", ge=0)
    ] = 5.0
    drain_timeout_s: Annotated[
        float, Meta(description="Longest wait for requests in flight at the end; what is left then is cut off.", ge=0)
    ] = 30.0
    start_timeout_s: Annotated[float, Meta(description="Longest wait for Kafka at the start.", gt=0)] = 60.0

    log_level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="Least level to log.")] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="Log lines for people or for machines.")] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.v1_model is not None and not MODEL_NAME.fullmatch(self.v1_model):
            raise ValueError(f"v1_model {self.v1_model!r} is no model name: use 1 to 64 of A-Z a-z 0-9 _ -")
        if self.default_deadline_s > self.max_deadline_s:
            raise ValueError("default_deadline_s is above max_deadline_s")
        if self.body_bytes > self.max_body_bytes_held:
            raise ValueError("max_body_bytes is above max_body_bytes_held, so the largest bodies would never fit")
        if self.port and self.port == self.admin_port:
            raise ValueError(f"port and admin_port are both {self.port}: give one of them another")

    @property
    def body_bytes(self) -> int:
        """Largest HTTP request body. One in JSON takes several times the bytes of its tensors."""
        if self.max_body_bytes is not None:
            return self.max_body_bytes
        return 16 * _MIB if self.s3_claim_bucket is None else min(128 * _MIB, self.max_body_bytes_held)
