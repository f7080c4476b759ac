"""What happened to one model's requests, as facts that checker.py judges. history.py fills them from topics, tests add
what topics do not hold. Nothing in it can change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from producer_sdk.broker import TopicPartition

OK = "OK"


class Accepted(Struct, frozen=True, gc=False):
    """A record of a request topic.

    Attributes:
        id: given or derived.
        partition, offset: its place.
        at_ms: its timestamp, epoch milliseconds; -1 where it has none.
        answer_at: where its outcome belongs: its return address, the results topic or the dead letters.
        readable: somebody can be answered; a record that is not has a dead letter for its outcome.
        redriven: published again from a dead letter.
    """

    id: str
    partition: TopicPartition
    offset: int
    at_ms: int
    answer_at: TopicPartition
    readable: bool = True
    redriven: bool = False


class Moved(Struct, frozen=True, gc=False):
    """A record of the retry topic: the request goes on there. `origin` and `origin_offset`: its first place."""

    id: str
    partition: TopicPartition
    offset: int
    at_ms: int
    answer_at: TopicPartition
    origin: TopicPartition
    origin_offset: int


class Told(Struct, frozen=True, gc=False):
    """A reply: `code` is OK or an error's. `worker` published it, "" where nobody knows."""

    id: str
    code: str
    partition: TopicPartition
    offset: int
    at_ms: int
    worker: str = ""


class Buried(Struct, frozen=True, gc=False):
    """A dead letter. `origin` and `origin_offset`: the place of the request."""

    code: str
    partition: TopicPartition
    offset: int
    at_ms: int
    origin: TopicPartition
    origin_offset: int


class Finished(Struct, frozen=True, gc=False):
    """What a commit says is finished: all below `base`, and from it to `highest` all but the incomplete ones."""

    base: int
    highest: int | None = None
    incomplete: frozenset[int] = frozenset()

    def covers(self, offset: int) -> bool:
        if offset < self.base:
            return True
        return self.highest is not None and offset <= self.highest and offset not in self.incomplete


class Started(Struct, frozen=True, gc=False):
    """A worker gave a request to its model. See event_records.StartedRequest."""

    id: str
    worker: str
    partition: TopicPartition
    offset: int
    at_ms: int
    attempts: int = 0
    alone: bool = False
    deadline_ms: int | None = None


class CommitMade(Struct, frozen=True, gc=False):
    """A worker committed, and the broker accepted it."""

    worker: str
    partition: TopicPartition
    finished: Finished
    at_ms: int


class Seen(Struct, frozen=True, gc=False):
    """An answer that was given to a caller: `call` differs between any two calls."""

    call: str
    id: str
    code: str


class Sample(Struct, frozen=True, gc=False):
    """Something that must stay bounded, as it was measured."""

    name: str
    value: float
    limit: float


class History(Struct, frozen=True, kw_only=True):
    """One model's past.

    Attributes:
        accepted: every record of its request topics.
        moved: every record of its retry topic that came from one of them.
        told, buried: every outcome.
        finished: by partition of a request or retry topic, what its group has committed; absent where nothing is.
        gone_before_ms: by partition of a reply or dead topic whose oldest records were deleted, the time before which
            outcomes may be among those.
        started, commits: events, in the order in which they were published; empty where the workers told none.
        silent: workers of whose events some are missing.
        seen: what callers were given.
        samples: what was measured.
        notes: sentences on what could not be read.
    """

    accepted: Sequence[Accepted] = ()
    moved: Sequence[Moved] = ()
    told: Sequence[Told] = ()
    buried: Sequence[Buried] = ()
    finished: Mapping[TopicPartition, Finished] = {}
    gone_before_ms: Mapping[TopicPartition, int] = {}
    started: Sequence[Started] = ()
    commits: Sequence[CommitMade] = ()
    silent: frozenset[str] = frozenset()
    seen: Sequence[Seen] = ()
    samples: Sequence[Sample] = ()
    notes: tuple[str, ...] = ()
