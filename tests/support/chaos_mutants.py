"""Broken versions of the worker, patched in for a while, to prove that the chaos suite would find them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from workers.commit import PartitionLedger
from workers.offset_map import Mark
from workers.publish import Replier
from workers.work import Outcome


@contextmanager
def commit_before_acknowledgement() -> Iterator[None]:
    """An offset is finished when its reply is handed over, not when the broker has it."""
    put = Replier.put

    def hasty(replier: Replier, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            outcome.source.ledger.finish(outcome.source.offset)
        put(replier, outcomes)

    with patch.object(Replier, "put", hasty):
        yield


@contextmanager
def highest_seen() -> Iterator[None]:
    """What is remembered above the committed offset reaches to the highest offset seen, not the highest completed."""
    write = PartitionLedger._write

    def hasty(ledger: PartitionLedger, base: int, mark: Mark) -> None:
        ledger._highest = max(ledger._highest, ledger._next - 1)
        write(ledger, base, mark)

    with patch.object(PartitionLedger, "_write", hasty):
        yield


@contextmanager
def commit_to_highest_seen() -> Iterator[None]:
    """The offset itself goes up to the highest seen."""
    with patch.object(PartitionLedger, "lowest_unfinished", property(lambda ledger: ledger._next)):
        yield


MUTANTS = (commit_before_acknowledgement, highest_seen, commit_to_highest_seen)
