"""What a re-drive tells people and programs: each letter where they are few, progress, and the sum."""

import json
import sys
import time
from collections.abc import Collection

from headrace.dead_judge import WORDS, Skipped
from headrace.dead_reader import Letter
from headrace.dead_redrive import Tally, WhyNot
from headrace.dead_show import printable

PROGRESS_S = 5.0
FEW = 20  # letters that are told one by one although nobody asked for it
MORE = "`headrace dead list` shows which letters were re-driven; --json tells what became of each."


class Report:
    """Listens to one re-drive. `each` has every letter told at once, else all are told at the end if they are few.

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
        self._lines: dict[tuple[int, int], str] = {}
        self._told = 0
        self._letters: dict[tuple[int, int], dict[str, object]] = {}

    def told(self, letter: Letter, why_not: WhyNot) -> None:
        """A letter was published, or not."""
        place = letter.record.partition, letter.record.offset
        self._missing.discard(place)
        self._told += 1
        if self._as_json:
            self._letters[place] = self._entry(letter, why_not)
        line = printable(f"{letter.place}  {letter.id}  {self._words(why_not)}")
        if self._each:
            print(line, flush=True)
        elif why_not is not None and not isinstance(why_not, Skipped):
            print(line, file=sys.stderr)
        elif self._told <= FEW:
            self._lines[place] = line
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
            few = [line for _, line in sorted(self._lines.items())] if self._told <= FEW else []
            skipped = [f"  {count} {WORDS[reason]}" for reason, count in tally.skipped.most_common()]
            more = [MORE] if self._told > FEW and not self._each else []
            print("\n".join([*few, self._counts() + (":" if skipped else "."), *skipped, *more]))
        if tally.stopped:
            print(f"Stopped: {tally.stopped}", file=sys.stderr)
        return bool(tally.failed or tally.stopped or self._missing)

    def _words(self, why_not: WhyNot) -> str:
        if why_not is None:
            return self._done
        return f"skipped: {why_not.detail}" if isinstance(why_not, Skipped) else f"failed: {why_not.message}"

    def _entry(self, letter: Letter, why_not: WhyNot) -> dict[str, object]:
        named: dict[str, object] = {"place": letter.place, "id": letter.id}
        if why_not is None:
            return {**named, "outcome": "would_publish" if self._dry_run else "published", "reason": None}
        if isinstance(why_not, Skipped):
            return {**named, "outcome": "skipped", "reason": why_not.reason.value, "detail": why_not.detail}
        return {**named, "outcome": "failed", "reason": str(why_not.code), "detail": why_not.message}

    def _counts(self) -> str:
        tally = self.tally
        failed = f", {tally.failed} failed" if tally.failed else ""
        return f"{tally.published} {self._done}{failed}, {tally.skipped.total()} skipped"

    def _document(self) -> dict[str, object]:
        tally = self.tally
        reason = "stopped" if tally.stopped else "no_match"
        missing: dict[tuple[int, int], dict[str, object]] = {
            (partition, offset): {"place": f"{partition}:{offset}", "id": None, "outcome": "failed", "reason": reason}
            for partition, offset in self._missing
        }
        letters = [entry for _, entry in sorted((self._letters | missing).items(), key=lambda each: each[0])]
        return {
            "dry_run": self._dry_run,
            "published": 0 if self._dry_run else tally.published,
            "would_publish": tally.published if self._dry_run else 0,
            "failed": tally.failed + len(self._missing),
            "skipped": {reason.value: count for reason, count in sorted(tally.skipped.items())},
            "stopped": tally.stopped or None,
            "letters": [{**entry, "detail": entry.get("detail")} for entry in letters],
        }
