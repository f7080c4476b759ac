"""The main program of a runner process: loads one model, then answers runs until the worker closes the socket."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import io
import logging
import os
import signal
import socket
import sys
import types

from .engine import Engine, LoadFailed, LoadFault
from .load import open_session
from .messages import (
    CONTEXT_LOST_EXIT,
    HEAD_BYTES,
    REFUSED_EXIT,
    SEQUENCE,
    Frames,
    Ready,
    Refused,
    Start,
    decode_run,
    decode_start,
    encode,
    framed,
)
from .reading_ahead import ReadingAhead
from .session import ContextLost, Session
from .shm import Region

PR_SET_PDEATHSIG = 1
OOM_SCORE_ABOVE_PARENT = 300
_log = logging.getLogger("headrace.runner")


def main(descriptor: int, parent_pid: int, python_path: str) -> int:
    """Serve one worker, whose own PYTHONPATH is given for programs that model code starts; gives the exit code."""
    _tie_to_parent(parent_pid)
    _settle_in()
    os.environ["PYTHONPATH"] = python_path
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as sock:
        channel = _Blocking(sock)
        message = channel.receive()
        if message is None:
            return 0
        start = decode_start(message)
        try:
            session, loaded, engine = open_session(start.spec, start.max_batch_bytes)
        except LoadFailed as err:
            channel.send(encode(Refused(err.kind, err.message)))
            return REFUSED_EXIT
        except MemoryError:
            channel.send(encode(Refused(LoadFault.FORMAT, f"model {start.spec.name!r} does not fit into memory")))
            return REFUSED_EXIT
        channel.send(encode(Ready(loaded)))
        return _serve(channel, start, session, engine)


def _serve(channel: _Blocking, start: Start, session: Session, engine: Engine) -> int:
    inputs, outputs = [[_region(fd) for fd in fds] for fds in (start.inputs, start.outputs)]
    # What is loaded stays: without this each full collection would walk all of it.
    gc.collect()
    gc.freeze()
    bound = getattr(engine, "bound", None)
    ahead = None if bound is None else ReadingAhead(bound, session, inputs, channel.peek)
    while (message := channel.receive()) is not None:
        run = decode_run(message)
        region, into = inputs[run.slot], outputs[run.slot]
        region.follow(run.size)
        if ahead is not None:
            ahead.pin(run.slot)
        into.reserve(HEAD_BYTES)
        SEQUENCE.pack_into(into.view, 0, run.sequence)
        try:
            done = session.run(run, region.view, into)
        except ContextLost as err:
            _log.error("The device is lost to this process: %s", err, extra={"action": "context_lost"})
            return CONTEXT_LOST_EXIT
        channel.send(encode(done))
    engine.close()
    return 0


def _region(descriptor: int) -> Region:
    os.set_inheritable(descriptor, False)
    return Region(descriptor)


class _Blocking:
    """The runner's end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._frames = Frames()
        self._ready: list[bytes] = []

    def receive(self) -> bytes | None:
        """The next message; None at the end."""
        while not self._ready:
            try:
                data = self._sock.recv(65536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._ready = self._frames.feed(data)
        return self._ready.pop(0)

    def peek(self) -> bytes | None:
        """The next message, if it has come already; it stays the next."""
        if not self._ready:
            try:
                data = self._sock.recv(65536, socket.MSG_DONTWAIT)
            except OSError:
                return None
            self._ready = self._frames.feed(data)
        return self._ready[0] if self._ready else None

    def send(self, message: bytes) -> None:
        try:
            self._sock.sendall(framed(message))
        except ConnectionError:
            pass  # the worker is gone; the next receive says so


def _tie_to_parent(parent_pid: int) -> None:
    """End with the parent, by the kernel's hand; elsewhere than on Linux the end of the socket does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    # The parent may have ended before the wish was made.
    if os.getppid() != parent_pid:
        sys.exit("the worker ended")


def _settle_in() -> None:
    """The worker decides when to stop, so the usual signals do nothing; output goes out line by line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    os.register_at_fork(after_in_child=_as_usual)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    _prefer_for_oom()


def _ignore(number: int, frame: types.FrameType | None) -> None:
    """A function and not SIG_IGN, which programs started by model code would inherit."""


def _as_usual() -> None:
    """Processes forked by model code can be ended as any other."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _prefer_for_oom() -> None:
    """When memory runs out the kernel shall end the runner, which can be replaced, and not the worker."""
    path = "/proc/self/oom_score_adj"
    try:
        with open(path, encoding="ascii") as file:
            score = int(file.read())
        with open(path, "w", encoding="ascii") as file:
            file.write(str(min(1000, score + OOM_SCORE_ABOVE_PARENT)))
    except OSError:
        pass  # not Linux, or not allowed here


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
