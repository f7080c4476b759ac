"""boto3's clients: loaded when first needed, one for each of a few time limits, since boto3 has those a client."""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import Any

from .broker import Misconfigured
from .payload_settings import S3Settings

# How long a client waits for a connection, and for each answer. Bodies have a limit of their own while they are read.
_READ_S = (1.0, 3.0, 10.0)
_CONNECT_S = 3.0
LONGEST_WAIT_S = _READ_S[-1]


def check_installed() -> None:
    """Look for boto3 without loading it.

    Raises:
        Misconfigured: it is not installed.
    """
    if importlib.util.find_spec("boto3") is None:
        raise Misconfigured("Payloads in S3 need the package boto3: pip install 'headrace[s3]'")


class Clients:
    """Gives the client for the time that is left. Any thread."""

    def __init__(self, settings: S3Settings, connections: int) -> None:
        self._settings = settings
        self._connections = connections
        self._made: dict[float, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()

    def within(self, left_s: float) -> Any:
        """The client that waits as long as possible, and not beyond `left_s` where that is at least a second."""
        read_s = max((each for each in _READ_S if each <= left_s), default=_READ_S[0])
        with self._lock:
            if read_s not in self._made:
                self._made[read_s] = self._make(read_s)
            return self._made[read_s]

    def _make(self, read_s: float) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            # boto3 itself reads AWS_DEFAULT_REGION alone.
            region = os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION")
            self._session = boto3.session.Session(region_name=region)
        config = Config(
            connect_timeout=min(_CONNECT_S, read_s),
            read_timeout=read_s,
            max_pool_connections=self._connections,
            # Tries are counted, spaced and bounded here, by the budget of the whole operation.
            retries={"total_max_attempts": 1},
            # Each object has a checksum of ours; checksums of boto3 are unknown to older stores.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path" if self._settings.endpoint_url else "auto"},
            user_agent_extra="headrace",
        )
        return self._session.client("s3", endpoint_url=self._settings.endpoint_url, config=config)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            for client in self._made.values():
                client.close()
            self._made.clear()
