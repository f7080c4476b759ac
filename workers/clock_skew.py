"""Timestamps of other machines' clocks against this one's. Pure."""

from __future__ import annotations

from .work import Now


def sound_ms(timestamp_ms: int, now: Now) -> int:
    """A record's timestamp, or now: for -1, Kafka's word for none, and for one ahead of this clock.

    That would lengthen a relative deadline.
    """
    return timestamp_ms if 0 <= timestamp_ms <= now.epoch_ms else now.epoch_ms


def skew_s(record_timestamp_ms: int, now_ms: int) -> float:
    """How far a record's timestamp lies ahead of this clock; 0 where it does not."""
    return max(0, record_timestamp_ms - now_ms) / 1000
