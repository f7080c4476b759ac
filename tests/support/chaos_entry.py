"""`headrace worker` with a fault inside, for the chaos suite: run as a script, with the faults in the environment.

CHAOS_CLOCK: a file that holds seconds; the wall clock is wrong by as many, read again ten times a second.
CHAOS_FILE_SIZE: a file that holds bytes; once it is there, no file or shared memory of this process may grow larger.
CHAOS_DIES_IN: `place` or `decode`; the process ends there at a record whose first number is 13.
"""

import os
import resource
import sys
import threading
import time
from pathlib import Path

POLL_S = 0.1
FATAL = 13.0


def watch(file: Path, changed: object) -> None:
    """Call with the number in the file, each time that it is another."""

    def look() -> None:
        known = ""
        while True:
            text = file.read_text() if file.exists() else ""
            if text != known:
                known = text
                changed(float(text))  # type: ignore[operator]
            time.sleep(POLL_S)

    threading.Thread(target=look, name=f"watch {file.name}", daemon=True).start()


def skew_clock(file: Path) -> None:
    """Let `time.time` be wrong."""
    true_time, skew_s = time.time, [0.0]

    def step(seconds: float) -> None:
        skew_s[0] = seconds

    time.time = lambda: true_time() + skew_s[0]
    watch(file, step)


def limit_files(file: Path) -> None:
    """Let shared memory run out."""

    def limit(nbytes: float) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(nbytes), resource.RLIM_INFINITY))

    watch(file, limit)


def die_in_place() -> None:
    """End the process when a batch with the fatal record is placed for the runner."""
    from workers.runners import handle

    place = handle.RunnerProcess.place

    def fatal(runner: handle.RunnerProcess, slot: int, batch: handle.Batch) -> None:
        if any(work.request.inputs["x"].to_array().flat[0] == FATAL for work in batch.works):
            os._exit(42)
        place(runner, slot, batch)

    handle.RunnerProcess.place = fatal  # type: ignore[method-assign]


def die_in_decode() -> None:
    """End the process when the fatal record is decoded."""
    from producer_sdk.wire import Request
    from workers import decode

    decode_record = decode.decode_record

    def fatal(*record: object) -> object:
        request = decode_record(*record)  # type: ignore[arg-type]
        if isinstance(request, Request) and request.inputs["x"].to_array().flat[0] == FATAL:
            os._exit(42)
        return request

    decode.decode_record = fatal  # type: ignore[assignment]


def main() -> None:
    """Put the faults in and become `headrace`."""
    if clock := os.environ.get("CHAOS_CLOCK"):
        skew_clock(Path(clock))
    if size := os.environ.get("CHAOS_FILE_SIZE"):
        limit_files(Path(size))
    if where := os.environ.get("CHAOS_DIES_IN"):
        {"place": die_in_place, "decode": die_in_decode}[where]()
    from headrace.__main__ import main as headrace

    headrace()


if __name__ == "__main__":
    sys.exit(main())
