"""Judges a history by the delivery promise (docs/delivery.md). Pure: a history in, a report out.

The promise has eight parts, of which a history shows those that it holds the facts for:

    a  every accepted request has an outcome, or is still to be read
    b  no request has two outcomes that contradict each other, and no caller is given two answers
    c  nothing is committed before its outcome is there
    d  what a worker published after it had lost the partition is never the only outcome
    e  no request is tried more often than the limit says
    f  nothing is started later than a batch after its deadline
    g  what must stay bounded did
    h  work went on soon after the fault was over
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headrace.verify_events import violations_of_events
from headrace.verify_evidence import Evidence, Fate, Violation, spot
from headrace.verify_facts import Accepted, History
from producer_sdk.broker import TopicPartition

MOST_SHOWN = 20  # requests of a list, and sentences of a part of the promise


class Lost(Struct, frozen=True):
    """A request without an outcome, and where it lies."""

    id: str
    topic: str
    partition: int
    offset: int


class Conflict(Struct, frozen=True):
    """An id with outcomes that contradict each other; `replies` say code and place of each."""

    id: str
    replies: tuple[str, ...]


class Report(Struct, frozen=True, kw_only=True):
    """The verdict. The lists hold at most `MOST_SHOWN` of each kind (`violations` also says how many more there are);
    the counts hold all.

    Attributes:
        accepted: requests, each record counted.
        answered: those with a reply.
        dead: those with a dead letter, beside a reply or alone.
        waiting: without an outcome, and still to be read.
        lost: without an outcome, and finished.
        unverifiable: without an outcome and finished, but older than what the reply topics still hold.
        conflicting: ids with more codes than requests, of codes of which a request can have but one.
        repeats: further replies of an id, which readers drop.
        seen_twice: calls that were given more than one answer; None where nobody wrote down what callers were given.
        recovery_s: from the end of the fault to the next outcome; None where no fault is known, or none followed.
    """

    accepted: int
    answered: int
    dead: int
    waiting: int
    lost: int
    unverifiable: int
    conflicting: int
    repeats: int
    seen_twice: int | None = None
    recovery_s: float | None = None
    lost_requests: tuple[Lost, ...] = ()
    unverifiable_requests: tuple[Lost, ...] = ()
    conflicting_requests: tuple[Conflict, ...] = ()
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Nothing is lost, and nothing contradicts itself."""
        return not self.lost and not self.conflicting


def check(
    history: History,
    *,
    limit: int | None = None,
    batch_s: float | None = None,
    healed_at_ms: int | None = None,
    recovery_limit_s: float | None = None,
    clock_skew_s: float = 0.1,
) -> Report:
    """Judge a history.

    Args:
        limit: most attempts (`attempt_limit`); None leaves part e out.
        batch_s: longest time of a batch; None leaves part f out.
        healed_at_ms: when the fault was over, epoch milliseconds; None where there was none.
        recovery_limit_s: how soon afterwards the next outcome must follow; None only measures it.
        clock_skew_s: how far the clocks of those who wrote the history may differ.
    """
    evidence = Evidence(history, clock_skew_s)
    counts, shown = _without_outcome(evidence)
    conflicts, repeats = _replies(evidence)
    twice = _seen_twice(history)
    recovery_s, late = _recovery(evidence, healed_at_ms, recovery_limit_s)
    lost = tuple(map(_lost, shown[Fate.LOST]))
    found = [
        *_silenced(evidence),
        *twice,
        *violations_of_events(evidence, limit, batch_s),
        *_unbounded(history),
        *late,
    ]
    return Report(
        accepted=len(evidence.requests),
        answered=sum(request.id in evidence.told for request in evidence.requests),
        dead=sum((request.partition, request.offset) in evidence.buried for request in evidence.requests),
        waiting=counts[Fate.WAITING],
        lost=counts[Fate.LOST],
        unverifiable=counts[Fate.UNVERIFIABLE],
        conflicting=len(conflicts),
        repeats=repeats,
        seen_twice=len(twice) if history.seen else None,
        recovery_s=recovery_s,
        lost_requests=lost,
        unverifiable_requests=tuple(map(_lost, shown[Fate.UNVERIFIABLE])),
        conflicting_requests=tuple(conflicts[:MOST_SHOWN]),
        violations=(*_outcomes_told(lost, counts[Fate.LOST], conflicts), *_bounded(found)),
        notes=(*history.notes, *_unverifiable_note(counts[Fate.UNVERIFIABLE])),
    )


def _without_outcome(evidence: Evidence) -> tuple[Counter[Fate], Mapping[Fate, list[Accepted]]]:
    """How many requests have no outcome, by fate, and the first ones of each."""
    counts: Counter[Fate] = Counter()
    shown: dict[Fate, list[Accepted]] = defaultdict(list)
    for request in evidence.requests:
        fate = evidence.fate(request)
        if fate is not Fate.ENDED:
            counts[fate] += 1
            if len(shown[fate]) < MOST_SHOWN:
                shown[fate].append(request)
    return counts, shown


def _replies(evidence: Evidence) -> tuple[list[Conflict], int]:
    """Ids with contradictory replies, and the number of replies that only repeat."""
    several = {id: evidence.settled(id) for id, told in evidence.told.items() if len(told) > 1}
    repeats = sum(len(evidence.told[id]) - max(1, len(codes)) for id, codes in several.items())
    doubtful = {id for id, codes in several.items() if len(codes) > 1}
    accepted = evidence.times_accepted(doubtful) if doubtful else {}
    return [_conflict(evidence, id) for id in sorted(doubtful) if len(several[id]) > accepted[id]], repeats


def _conflict(evidence: Evidence, id: str) -> Conflict:
    return Conflict(id, tuple(f"{each.code} at {spot(each.partition, each.offset)}" for each in evidence.told[id]))


def _unverifiable_note(count: int) -> Iterable[str]:
    if count:
        yield (
            f"{count} requests are finished and have no outcome, but are older than the oldest outcomes that are still "
            "kept where theirs belongs: whether they had one cannot be known any more"
        )


def _silenced(evidence: Evidence) -> Iterable[Violation]:
    for request in evidence.requests if evidence.buried else ():
        if evidence.is_silenced(request):
            place = spot(request.partition, request.offset)
            yield Violation("a", f"request {request.id} at {place} has a dead letter, but nobody was told")


def _seen_twice(history: History) -> list[Violation]:
    answers: dict[str, list[str]] = defaultdict(list)
    for seen in history.seen:
        answers[seen.call].append(f"{seen.code} for {seen.id}")
    return [
        Violation("b", f"the call {call} was given {len(given)} answers: {', '.join(given)}")
        for call, given in answers.items()
        if len(given) > 1
    ]


def _recovery(
    evidence: Evidence, healed_at_ms: int | None, limit_s: float | None
) -> tuple[float | None, list[Violation]]:
    if healed_at_ms is None:
        return None, []
    times = [*(each.at_ms for each in evidence.history.told), *(each.at_ms for each in evidence.history.buried)]
    next_ms = min((at_ms for at_ms in times if at_ms >= healed_at_ms), default=None)
    if next_ms is None:
        waits = any(evidence.fate(request) is Fate.WAITING for request in evidence.requests)
        sentence = "requests wait, but none was answered after the fault was over"
        return None, [Violation("h", sentence)] if waits else []
    recovery_s = (next_ms - healed_at_ms) / 1000
    if limit_s is None or recovery_s <= limit_s:
        return recovery_s, []
    sentence = f"the next outcome came {recovery_s:.1f} s after the fault was over: {limit_s:g} s are allowed"
    return recovery_s, [Violation("h", sentence)]


def _unbounded(history: History) -> Iterable[Violation]:
    for each in history.samples:
        if each.value > each.limit:
            yield Violation("g", f"{each.name} was {each.value:g}, above its limit of {each.limit:g}")


def _outcomes_told(lost: Iterable[Lost], count: int, conflicts: Sequence[Conflict]) -> Iterable[Violation]:
    """A sentence for each request lost, of so many, and for each id that contradicts itself."""
    yield from _with_rest(map(_lost_sentence, lost), count)
    yield from _with_rest(map(_conflict_sentence, conflicts[:MOST_SHOWN]), len(conflicts))


def _with_rest(violations: Iterable[Violation], count: int) -> Iterable[Violation]:
    """The violations, which are the first ones of so many, and how many more there are."""
    shown = [*violations]
    yield from shown
    if count > len(shown):
        yield Violation(shown[0].part, f"and {count - len(shown)} more of the same kind")


def _bounded(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """The first ones of each part, and how many more there are."""
    by_part: dict[str, list[Violation]] = defaultdict(list)
    for violation in violations:
        by_part[violation.part].append(violation)
    shown: list[Violation] = []
    for _, every in sorted(by_part.items()):
        shown += _with_rest(every[:MOST_SHOWN], len(every))
    return tuple(shown)


def _lost(request: Accepted) -> Lost:
    return Lost(request.id, *request.partition, request.offset)


def _lost_sentence(lost: Lost) -> Violation:
    place = spot(TopicPartition(lost.topic, lost.partition), lost.offset)
    return Violation("a", f"request {lost.id} at {place} is finished, and has no outcome")


def _conflict_sentence(conflict: Conflict) -> Violation:
    return Violation("b", f"id {conflict.id} has replies {', '.join(conflict.replies)}: they contradict each other")
