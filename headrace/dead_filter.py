"""Which dead letters a person asks for: the conditions of `--where`."""

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from headrace.dead_reader import DeadTopic, Letter
from headrace.failure import UsageError
from producer_sdk.errors import Code

KEYS = ("code", "id", "topic", "partition", "before", "after")
_AGO = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PLACE = re.compile(r"(\d{1,9}):(\d{1,19})", re.ASCII)


class Where(Struct, frozen=True):
    """What letters must match: one of the texts of each key, and the times at which they became letters."""

    texts: Mapping[str, frozenset[str]]
    after_ms: float = float("-inf")
    before_ms: float = float("inf")

    def wants(self, letter: Letter) -> bool:
        """Whether the letter is among them."""
        if not self.after_ms <= letter.record.timestamp < self.before_ms:
            return False
        return all(self._has(letter, key, texts) for key, texts in self.texts.items())

    def _has(self, letter: Letter, key: str, texts: frozenset[str]) -> bool:
        if key == "id":  # the only one for which the record must be decoded
            return letter.id in texts
        facts = letter.facts
        if facts is None:
            return False
        if key == "topic":  # in full, or its lane alone
            return facts.topic in texts or facts.topic.rpartition(".")[2] in texts
        return (facts.code.upper() if key == "code" else str(facts.partition)) in texts

    def foreign_codes(self) -> set[str]:
        """Codes that this version does not know: of a newer one, or a typing error."""
        return {*self.texts.get("code", ())} - {*Code}


def parse_where(conditions: Sequence[str], now_s: float) -> Where:
    """Conditions as `code=INTERNAL`: those of different keys must all hold, of those of one key any.

    Raises:
        UsageError: saying what a condition may be.
    """
    texts: dict[str, set[str]] = {}
    times: dict[str, float] = {}
    for condition in conditions:
        key, equals, text = condition.partition("=")
        if key not in KEYS or not equals or not text:
            raise UsageError(f"--where {condition}: write KEY=VALUE, where KEY is one of {', '.join(KEYS)}.")
        if key not in ("before", "after"):
            texts.setdefault(key, set()).add(text.upper() if key == "code" else text)
        elif key in times:
            raise UsageError(f"--where {condition}: {key} is there twice.")
        else:
            times[key] = _epoch_ms(condition, text, now_s)
    wanted = {key: frozenset(each) for key, each in texts.items()}
    return Where(wanted, times.get("after", float("-inf")), times.get("before", float("inf")))


async def check_codes(wanted: Where, dead: DeadTopic) -> None:
    """Look in the letters for codes that this version does not know.

    Raises:
        UsageError: no letter has such a code.
    """
    unknown = wanted.foreign_codes()
    if not unknown:
        return
    async for letter in dead.letters():
        unknown.discard(letter.facts.code.upper() if letter.facts else "")
    for code in sorted(unknown):
        near = difflib.get_close_matches(code, list(Code), n=1)
        known = f"did you mean {near[0]}?" if near else f"codes are {', '.join(Code)}."
        raise UsageError(f"--where code={code}: no letter of {dead.topic} has this code, nor is it known: {known}")


def parse_place(text: str) -> tuple[int, int] | None:
    """`PARTITION:OFFSET` of the dead topic; None where the text is something else."""
    found = _PLACE.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def _epoch_ms(condition: str, text: str, now_s: float) -> float:
    if ago := _AGO.fullmatch(text):
        return (now_s - float(ago[1]) * _SECONDS[ago[2]]) * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as err:
        raise UsageError(
            f"--where {condition}: write a time as 2026-05-31T14:00, of this machine or with a zone behind it, or how "
            "long ago, as 90s, 30m, 2h, 7d."
        ) from err
    return moment.timestamp() * 1000
