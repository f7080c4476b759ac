"""What a re-drive tells people and programs: each letter where few are named, progress, and the sum."""

import json
import sys
import time
from collections.abc import Collection

from headrace.dead_judge import WORDS
from headrace.dead_reader import Letter
from headrace.dead_redrive import Tally
from headrace.dead_show import printable

PROGRESS_S = 5.0


class Report:
    """Listens to one re-drive. `each` has every letter told, else only those that fail.

    `tally` is the re-drive's, set once it begins.
    """

    def __init__(self, places: Collection[tuple[int, int]] | None, *, each: bool, as_json: bool, dry_run: bool) -> None:
        self.tally = Tally()
        self._missing = set(places or ())
        self._each = each and not as_json
        self._as_json = as_json
        self._done = "would be published" if dry_run else "published"
        self._dry_run = dry_run
        self._progress_at = time.monotonic() + PROGRESS_S

    def told(self, letter: Letter, why_not: str) -> None:
        """A letter was published, or not."""
        self._missing.discard((letter.record.partition, letter.record.offset))
        if self._each:
            print(printable(f"{letter.place}  {letter.id}  {why_not or self._done}"), flush=True)
        elif why_not.startswith("failed"):
            print(printable(f"{letter.place}  {letter.id}  {why_not}"), file=sys.stderr)
        if time.monotonic() >= self._progress_at:
            self._progress_at = time.monotonic() + PROGRESS_S
            print(f"so far: {self._counts()}", file=sys.stderr, flush=True)

    def end(self) -> bool:
        """Tell the sum; whether something failed."""
        tally = self.tally
        for partition, offset in sorted(self._missing if not tally.stopped else ()):
            print(f"There is no letter at {partition}:{offset} that matches.", file=sys.stderr)
        if self._as_json:
            print(json.dumps(self._document()))
        else:
            skipped = [f"  {count} {WORDS[reason]}" for reason, count in tally.skipped.most_common()]
            print("\n".join([self._counts() + (":" if skipped else "."), *skipped]))
        if tally.stopped:
            print(f"Stopped: {tally.stopped}", file=sys.stderr)
        return bool(tally.failed or tally.stopped or self._missing)

    def _counts(self) -> str:
        tally = self.tally
        failed = f", {tally.failed} failed" if tally.failed else ""
        return f"{tally.published} {self._done}{failed}, {tally.skipped.total()} skipped"

    def _document(self) -> dict[str, object]:
        tally = self.tally
        return {
            "dry_run": self._dry_run,
            "published": 0 if self._dry_run else tally.published,
            "would_publish": tally.published if self._dry_run else 0,
            "failed": tally.failed + len(self._missing),
            "skipped": {reason.value: count for reason, count in sorted(tally.skipped.items())},
            "stopped": tally.stopped or None,
        }
