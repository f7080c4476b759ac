"""Inputs that failed a batch not long ago are answered with their error at once, instead of failing another. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from msgspec import Struct

from producer_sdk.errors import HeadraceError
from producer_sdk.wire import Request

from .fingerprint import fingerprint

MAX_ENTRIES = 1000
SAMPLE_BYTES = 64

_Look = tuple[int, bytes]
_Key = TypeVar("_Key")


class _Entry(Struct, frozen=True):
    """What is kept of an offender: its error's texts (the error itself would keep the frames that it passed)."""

    code: str
    message: str
    since: float
    look: _Look


class Quarantine:
    """Remembers offenders by fingerprint for `keep_s`, at most `max_entries` of them, the newest.

    Whoever asks should first test that it is not empty. A stranger then costs a look at its size, and if that is an
    offender's at 64 of its bytes; only who looks like an offender is read as a whole.
    """

    def __init__(self, keep_s: float, max_entries: int = MAX_ENTRIES) -> None:
        self._keep_s = keep_s
        self._max_entries = max_entries
        self._entries: dict[bytes, _Entry] = {}  # the oldest first
        self._sizes: Counter[int] = Counter()
        self._looks: Counter[_Look] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, request: Request, nbytes: int, error: HeadraceError, now: float) -> None:
        """Remember an offender that has failed now; `nbytes` is the size of its inputs."""
        if not self._keep_s:
            return
        self._forget_old(now)
        key = fingerprint(request)
        if key in self._entries:
            self._forget(key)
        elif len(self._entries) >= self._max_entries:
            self._forget(next(iter(self._entries)))
        look = (nbytes, _sample(request))
        self._entries[key] = _Entry(error.code, error.message, now, look)
        self._sizes[nbytes] += 1
        self._looks[look] += 1

    def known(self, request: Request, nbytes: int, now: float) -> HeadraceError | None:
        """The error to answer with, unrun; None for a stranger."""
        self._forget_old(now)
        if nbytes not in self._sizes or (nbytes, _sample(request)) not in self._looks:
            return None
        entry = self._entries.get(fingerprint(request))
        return None if entry is None else self._remembered(entry, now - entry.since)

    def _remembered(self, entry: _Entry, age_s: float) -> HeadraceError:
        told = f"the same inputs failed {age_s:.0f} s ago and are not run again for {self._keep_s:g} s"
        return HeadraceError.from_code(entry.code, f"{entry.message} ({told})")

    def _forget_old(self, now: float) -> None:
        while self._entries:
            oldest = next(iter(self._entries))
            if now - self._entries[oldest].since < self._keep_s:
                return
            self._forget(oldest)

    def _forget(self, key: bytes) -> None:
        look = self._entries.pop(key).look
        _take_one(self._sizes, look[0])
        _take_one(self._looks, look)


def _take_one(counts: Counter[_Key], key: _Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _sample(request: Request) -> bytes:
    """Bytes from all over the inputs, in the order of their names; with odd steps, from each place in an element."""
    inputs, samples = request.inputs, []
    for name in sorted(inputs):
        view = memoryview(inputs[name].data)
        samples.append(bytes(view[:: len(view) * len(inputs) // SAMPLE_BYTES | 1]))
    return b"\0".join(samples)
