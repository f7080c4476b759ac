"""A real S3 server for tests (moto, over HTTP), and a proxy in front of it that makes it a bad one.

    with s3_server() as s3:                     once a session: the fixture `s3` of tests/conftest.py
        bucket = s3.new_bucket()
        with faulty(s3) as proxy:               clients ask `proxy.url`
            proxy.inject(Fault(status=503), times=2, method="GET")
            proxy.gone = True                   from now on connections are reset

All of it runs in threads of this process, so programs that tests start can use it too: give them `s3.environment`.
"""

from __future__ import annotations

import http.client
import logging
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_NO_LINGER = struct.pack("ii", 1, 0)  # closing a socket sends RST then
_HANG_LIMIT_S = 30.0
_UPSTREAM_LIMIT_S = 30.0


class S3Server:
    """A running server at `url`; `client` is boto3's, for looking and for arranging."""

    def __init__(self, url: str) -> None:
        import boto3
        from botocore.config import Config

        self.url = url
        self.client: Any = boto3.session.Session(
            CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1"
        ).client("s3", endpoint_url=url, config=Config(s3={"addressing_style": "path"}))

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which boto3 and headrace find it; buckets are to be added."""
        return {**CREDENTIALS, "HEADRACE_S3_ENDPOINT_URL": self.url}

    def new_bucket(self) -> str:
        """A bucket that no other test uses."""
        name = f"t-{secrets.token_hex(8)}"
        self.client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str) -> list[str]:
        """The keys of all objects, in order."""
        return [each["Key"] for each in self.client.list_objects_v2(Bucket=bucket).get("Contents", [])]

    def data(self, bucket: str, key: str) -> bytes:
        """An object."""
        data: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return data

    def uploads(self, bucket: str) -> list[str]:
        """The keys of uploads in parts that are under way, or were left."""
        return [each["Key"] for each in self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Starts in about a second, most of which is the import of moto."""
    # Read when moto is loaded: tests send parts that no real store would take for their smallness.
    os.environ.setdefault("S3_UPLOAD_PART_MIN_SIZE", "256")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    s3 = S3Server(f"http://{host}:{port}")
    try:
        yield s3
    finally:
        s3.client.close()
        server.stop()


@dataclass(frozen=True)
class Fault:
    """What happens to an answer. `change` gets the body, and gives as many bytes to send in its place."""

    status: int = 0  # answer so, without asking the store
    code: str = "SlowDown"  # the name of the error in such an answer
    hangs: bool = False  # no answer, until the fault is taken back
    cut_at: int | None = None  # the connection is reset after so many bytes of the body
    bytes_per_s: float | None = None  # of the body
    loses_answer: bool = False  # the store does it, and nobody hears of it
    change: Callable[[bytes], bytes] | None = None


@dataclass
class _Injected:
    fault: Fault
    times: int | None
    method: str
    match: str


@dataclass
class Faults:
    """Which requests are to fail, and what was asked; any thread."""

    gone: bool = False
    asked: list[str] = field(default_factory=list)  # "GET /bucket/key?query bytes=0-9", in order of arrival
    at_once: int = 0
    most_at_once: int = 0
    trickled: int = 0  # bytes of slow bodies
    released: threading.Event = field(default_factory=threading.Event)
    _injected: list[_Injected] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def inject(self, fault: Fault, *, times: int | None = 1, method: str = "", match: str = "") -> None:
        """Have the next requests fail (None: all) whose method and `path?query range` are so."""
        with self._lock:
            self._injected.append(_Injected(fault, times, method, match))

    def heal(self) -> None:
        """No more faults; what hangs is answered by a reset."""
        with self._lock:
            self._injected.clear()
            self.gone = False
        self.released.set()

    def take(self, method: str, what: str) -> Fault:
        """The fault of a request that has come; one without any where it is none's."""
        with self._lock:
            self.asked.append(f"{method} {what}")
            for each in self._injected:
                if each.times != 0 and each.method in ("", method) and each.match in what:
                    each.times = each.times and each.times - 1
                    return each.fault
        return Fault()

    def entered(self, by: int) -> None:
        with self._lock:
            self.at_once += by
            self.most_at_once = max(self.most_at_once, self.at_once)


class FaultyS3(Faults):
    """The proxy's face: `url` for clients, and the faults."""

    url: str = ""


@contextmanager
def faulty(s3: S3Server) -> Iterator[FaultyS3]:
    """A proxy in front of the server."""
    proxy = FaultyS3()
    upstream = s3.url.removeprefix("http://")
    handler = type("Handler", (_Handler,), {"faults": proxy, "upstream": upstream})
    server = _Server(("127.0.0.1", 0), handler)
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="faulty-s3")
    thread.start()
    try:
        yield proxy
    finally:
        proxy.heal()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    faults: FaultyS3
    upstream: str

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def handle_expect_100(self) -> bool:
        return True if self.faults.gone else super().handle_expect_100()

    def do_any(self) -> None:
        if self.faults.gone:
            self.reset()
            return
        fault = self.faults.take(self.command, f"{self.path} {self.headers.get('Range', '')}".strip())
        self.faults.entered(1)
        try:
            self.answer(fault)
        finally:
            self.faults.entered(-1)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_any

    def answer(self, fault: Fault) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault.hangs:
            self.faults.released.wait(_HANG_LIMIT_S)
            self.reset()
        elif fault.status:
            text = f"<Error><Code>{fault.code}</Code><Message>as the test wants it</Message></Error>".encode()
            self.send(fault.status, [("Content-Type", "application/xml")], text, fault)
        else:
            status, headers, data = self.ask(body)
            if fault.loses_answer:
                self.reset()
            else:
                self.send(status, headers, data, fault)

    def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.upstream, timeout=_UPSTREAM_LIMIT_S)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            hop = ("connection", "transfer-encoding", "date", "server")
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in hop]
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def send(self, status: int, headers: list[tuple[str, str]], data: bytes, fault: Fault) -> None:
        self.send_response(status)
        lengths = [value for name, value in headers if name.lower() == "content-length"]
        for name, value in headers:
            if name.lower() != "content-length":
                self.send_header(name, value)
        # The answer to a HEAD names the length of a body that does not come.
        self.send_header("Content-Length", lengths[0] if self.command == "HEAD" and lengths else str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        data = fault.change(data) if fault.change else data
        if fault.bytes_per_s is None:
            self.wfile.write(data[: fault.cut_at])
        else:
            self.write_slowly(data, fault.bytes_per_s)
        if fault.cut_at is not None:
            self.reset()

    def write_slowly(self, data: bytes, bytes_per_s: float) -> None:
        step = max(1, int(bytes_per_s / 50))
        for start in range(0, len(data), step):
            if self.faults.released.is_set():
                self.reset()
                return
            self.wfile.write(data[start : start + step])
            self.faults.trickled += step
            time.sleep(step / bytes_per_s)

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.close_connection = True
