"""The parts of the promise that only events show: when was what committed and started, and by whom. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from headrace.verify_evidence import Evidence, Place, Violation, spot
from headrace.verify_facts import OK, Accepted, CommitMade, Started, Told
from producer_sdk.broker import TopicPartition
from producer_sdk.errors import Code

# Outcomes that only a run of the model gives; others a worker may give without having started the request.
_OF_A_RUN = frozenset((OK, str(Code.INFERENCE_FAILED)))


def violations_of_events(evidence: Evidence, limit: int | None, batch_s: float | None) -> Iterable[Violation]:
    """What the events of a history show: parts c, d, e (with a limit of attempts) and f (with the time of a batch)."""
    by_partition: dict[TopicPartition, list[CommitMade]] = defaultdict(list)
    for commit in evidence.history.commits:
        by_partition[commit.partition].append(commit)
    reigns = {partition: _Commits(commits) for partition, commits in by_partition.items()}
    if reigns:
        yield from _committed_early(evidence, reigns)
        yield from _only_by_a_fenced_owner(evidence, reigns)
    if limit is not None:
        yield from _tried_too_often(evidence, limit)
    if batch_s is not None:
        yield from _started_late(evidence, batch_s)


class _Commits:
    """The commits of one partition in the order of their times."""

    def __init__(self, commits: Iterable[CommitMade]) -> None:
        self._commits = sorted(commits, key=lambda commit: commit.at_ms)
        self._times = [commit.at_ms for commit in self._commits]
        self._first_base = self._commits[0].finished.base
        self._first: dict[int, CommitMade] = {}  # by offset from the first base on
        reached = self._first_base
        for commit in self._commits:
            finished = commit.finished
            self._first |= dict.fromkeys(set(range(reached, finished.base)).difference(self._first), commit)
            reached = max(reached, finished.base)
            if finished.highest is not None:
                above = set(range(finished.base, finished.highest + 1)) - finished.incomplete
                self._first |= dict.fromkeys(above.difference(self._first), commit)

    def first_to_cover(self, offset: int) -> CommitMade | None:
        """The first commit known by which the offset was finished."""
        return self._commits[0] if offset < self._first_base else self._first.get(offset)

    def owner(self, at_ms: int) -> str | None:
        """Who made the latest commit by then: each owner commits before it works. None before the first."""
        place = bisect_right(self._times, at_ms)
        return self._commits[place - 1].worker if place else None

    def owners(self, from_ms: int, to_ms: int) -> frozenset[str | None]:
        """Who owned it at some moment of that time."""
        between = self._commits[bisect_left(self._times, from_ms) : bisect_right(self._times, to_ms)]
        return frozenset((self.owner(from_ms), *(commit.worker for commit in between)))


def _committed_early(evidence: Evidence, reigns: Mapping[TopicPartition, _Commits]) -> Iterable[Violation]:
    """c: an offset is committed only after its outcome, or its record on the retry topic, is acknowledged."""
    for request, record in _records(evidence):
        commits = reigns.get(record[0])
        commit = commits.first_to_cover(record[1]) if commits is not None else None
        if commit is None or evidence.may_be_deleted(request):
            continue
        ended_ms = evidence.ended_ms(request.id, (request.partition, request.offset), record)
        if ended_ms is not None and ended_ms > commit.at_ms + evidence.skew_ms:
            yield Violation(
                "c",
                f"request {request.id} at {spot(*record)} was committed by {commit.worker} "
                f"{(ended_ms - commit.at_ms) / 1000:.3f} s before its outcome was published",
            )


def _records(evidence: Evidence) -> Iterable[tuple[Accepted, Place]]:
    """Each request with each of its records: its own, and those on the retry topic."""
    for request in evidence.requests:
        yield request, (request.partition, request.offset)
        for moved in evidence.moved.get((request.partition, request.offset), ()):
            yield request, (moved.partition, moved.offset)


def _only_by_a_fenced_owner(evidence: Evidence, reigns: Mapping[TopicPartition, _Commits]) -> Iterable[Violation]:
    """d: who gets a partition answers for what is in it, whatever the former owner still publishes."""
    started: dict[str, list[Started]] = defaultdict(list)
    for each in evidence.history.started:
        started[each.id].append(each)
    for request in evidence.requests:
        told = evidence.told.get(request.id, ())
        if not told or not evidence.is_finished(request.partition, request.offset):
            continue
        owners = [_new_owner(each, request, started.get(request.id, ()), evidence, reigns) for each in told]
        if all(owner is not None for owner in owners):
            yield Violation(
                "d",
                f"request {request.id} at {spot(request.partition, request.offset)} was answered only by a worker that "
                f"had lost the partition to {owners[0]}",
            )


def _new_owner(
    told: Told,
    request: Accepted,
    started: Sequence[Started],
    evidence: Evidence,
    reigns: Mapping[TopicPartition, _Commits],
) -> str | None:
    """Who owned the partition when somebody else published this reply; None if nobody did, or it cannot be known."""
    workers = {each.worker for each in started}
    if told.worker:
        worker = told.worker
    elif len(workers) == 1 and told.code in _OF_A_RUN:
        (worker,) = workers
    else:
        return None
    partition = next((each.partition for each in reversed(started) if each.worker == worker), request.partition)
    commits = reigns.get(partition)
    if commits is None:
        return None
    owner = commits.owner(told.at_ms - evidence.skew_ms)
    silent = evidence.history.silent
    if owner is None or not silent.isdisjoint((owner, worker)):
        return None
    # A worker that is killed takes its last events with it: perhaps the owner was the one who ran this.
    if not told.worker and evidence.last_event_ms(owner) < told.at_ms:
        return None
    owners = commits.owners(told.at_ms - evidence.skew_ms, told.at_ms + evidence.skew_ms)
    return None if worker in owners else owner


def _tried_too_often(evidence: Evidence, limit: int) -> Iterable[Violation]:
    """e: by what the workers counted, and by how often it ran by itself, which counts also what they forgot."""
    origins = {(each.partition, each.offset): origin for origin, moved in evidence.moved.items() for each in moved}
    counted: dict[Place, int] = defaultdict(int)
    alone: dict[Place, int] = defaultdict(int)
    ids: dict[Place, str] = {}
    for each in evidence.history.started:
        record = (each.partition, each.offset)
        place = origins.get(record, record)
        ids[place] = each.id
        counted[place] = max(counted[place], each.attempts + 1)
        alone[place] += each.alone
    for place, id in ids.items():
        attempts = max(counted[place], alone[place])
        if attempts > limit + 1:
            yield Violation("e", f"request {id} at {spot(*place)} was tried {attempts} times: the limit is {limit}")


def _started_late(evidence: Evidence, batch_s: float) -> Iterable[Violation]:
    for each in evidence.history.started:
        if each.deadline_ms is None:
            continue
        late_s = (each.at_ms - each.deadline_ms) / 1000
        if late_s > batch_s + evidence.skew_ms / 1000:
            place = spot(each.partition, each.offset)
            sentence = f"request {each.id} at {place} was started by {each.worker} {late_s:.3f} s after its deadline"
            yield Violation("f", sentence)
