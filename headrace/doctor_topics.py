"""Whether topics are set up for what headrace does with them. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from headrace.doctor_describe import Clock, Described, TopicFacts
from headrace.doctor_line import Area, Line, State, counted, listed, sentence
from producer_sdk.topics import Lane, Topics

KAFKA = Area("Kafka")
HOUR_S, DAY_S = 3600.0, 86400.0
# Deadlines carry an allowance of their own for less.
LONGEST_SKEW_S = 1.0
ASPECTS = ("record size", "retention", "cleanup", "partitions", "replication")


class Need(Struct, frozen=True):
    """What a topic must be like.

    Attributes:
        least_s: shortest retention that loses nothing which is still wanted.
        good_s: shortest one that nobody will be surprised by.
        is_compacted: its cleanup policy is compact; else delete.
        is_single: it has one partition, as readers look at no other.
        is_shared: workers share its partitions.
    """

    topic: str
    least_s: float = 0.0
    good_s: float = HOUR_S
    is_compacted: bool = False
    is_single: bool = False
    is_shared: bool = False


class Finding(NamedTuple):
    """What is wrong with a topic; those that differ in the topic alone become one line. `cure` is a Kafka setting."""

    aspect: str
    state: State
    reason: str
    cure: str = ""


class Limits(Struct, frozen=True):
    """What all topics are held against."""

    max_record_bytes: int
    brokers: int


def needs_of(topics: Topics, deadlines_s: Mapping[str, float | None]) -> list[Need]:
    """All topics of these models, each with its longest default deadline, and those that all models share."""
    longest_s = max((deadline or 0.0 for deadline in deadlines_s.values()), default=0.0)
    needs = [
        Need(topics.replies, longest_s),
        Need(topics.control, is_compacted=True, is_single=True),
        Need(topics.cancels, longest_s),
    ]
    for model, deadline in deadlines_s.items():
        least_s = deadline or 0.0
        for name, lane in topics.lanes(model).items():
            needs.append(Need(name, least_s, DAY_S if lane is Lane.BULK else HOUR_S, is_shared=True))
        needs.append(Need(topics.retry(model), DAY_S, DAY_S))
        needs.append(Need(topics.results(model), least_s))
        needs.append(Need(topics.dead(model), HOUR_S, 7 * DAY_S))
    return needs


def judge_topics(needs: Iterable[Need], described: Described, limits: Limits) -> list[Line]:
    """A line for each aspect that is well with all topics that are there, and for each thing that is wrong."""
    facts = {each.name: each for each in described.topics}
    there = [(need, facts[need.topic]) for need in needs if need.topic in facts]
    if not there:
        return []
    found: dict[Finding, list[str]] = {}
    for need, fact in there:
        for finding in findings(need, fact, limits):
            found.setdefault(finding, []).append(need.topic)
    lines = []
    hidden = [fact.name for _, fact in there if fact.config is None]
    for aspect in ASPECTS:
        own = [_line(finding, names) for finding, names in found.items() if finding.aspect == aspect]
        if not own and hidden and aspect not in ("partitions",):
            text = f"Not looked at: it takes DescribeConfigs on {listed(hidden)}, which nothing but this check needs."
            own = [KAFKA.skipped(aspect, text)]
        lines += own or [KAFKA.ok(aspect, _praise(aspect, there, limits))]
    return lines


def findings(need: Need, fact: TopicFacts, limits: Limits) -> Iterator[Finding]:
    """What is wrong with one topic."""
    config = fact.config or {}
    yield from _size(config, limits.max_record_bytes)
    yield from _retention(need, config)
    yield from _cleanup(need, config)
    yield from _partitions(need, fact)
    yield from _replication(fact, config, limits.brokers)


def _size(config: Mapping[str, str], wanted: int) -> Iterator[Finding]:
    most = int(config.get("max.message.bytes", wanted))
    if most < wanted:
        reason = f"takes records of {most:,} bytes at most, but max_record_bytes is {wanted:,}: set that lower, or here"
        yield Finding("record size", State.FAULT, reason, f"max.message.bytes={wanted}")


def _retention(need: Need, config: Mapping[str, str]) -> Iterator[Finding]:
    kept_ms = int(config.get("retention.ms", -1))
    if need.is_compacted or kept_ms < 0:
        return
    kept_s = kept_ms / 1000
    if kept_s < need.least_s:
        reason = (
            f"keeps records {span(kept_s)}, but they may be wanted for {span(need.least_s)}: they are deleted unread"
        )
        yield Finding("retention", State.FAULT, reason, f"retention.ms={_ms(max(need.least_s, need.good_s))}")
    elif kept_s < need.good_s:
        reason = f"keeps records {span(kept_s)} only: what waits longer, as after an outage, is deleted unread"
        yield Finding("retention", State.NOTE, reason, f"retention.ms={_ms(need.good_s)}")


def _cleanup(need: Need, config: Mapping[str, str]) -> Iterator[Finding]:
    policy = config.get("cleanup.policy")
    if policy is None:
        return
    if need.is_compacted and "compact" not in policy:
        reason = f"has cleanup.policy {policy}: it grows, and every start reads all of it"
        yield Finding("cleanup", State.FAULT, reason, "cleanup.policy=compact")
    if not need.is_compacted and "compact" in policy:
        reason = (
            f"has cleanup.policy {policy}: Kafka refuses records without a key, and deletes all but the last of a key"
        )
        yield Finding("cleanup", State.FAULT, reason, "cleanup.policy=delete")


def _partitions(need: Need, fact: TopicFacts) -> Iterator[Finding]:
    if fact.leaderless:
        reason = (
            f"has {fact.leaderless} of {fact.partitions} partitions without a leader: see whether all brokers are up"
        )
        yield Finding("partitions", State.FAULT, reason)
    if need.is_single and fact.partitions != 1:
        reason = f"has {fact.partitions} partitions, and only the first is read: delete it, it is made anew"
        yield Finding("partitions", State.FAULT, reason)
    if need.is_shared and fact.partitions < 2:
        yield Finding("partitions", State.NOTE, "has one partition: no second worker can share it")


def _replication(fact: TopicFacts, config: Mapping[str, str], brokers: int) -> Iterator[Finding]:
    in_sync = int(config.get("min.insync.replicas", 1))
    if in_sync > fact.replicas:
        reason = f"has {fact.replicas} copies and min.insync.replicas {in_sync}: every publish is refused"
        yield Finding("replication", State.FAULT, reason, f"min.insync.replicas={max(1, fact.replicas - 1)}")
    if fact.lagging:
        yield Finding("replication", State.NOTE, f"has {fact.lagging} partitions with a copy that is not in sync")
    if brokers > 1 and fact.replicas < 2:
        reason = f"has one copy on {brokers} brokers: it is gone with the broker; make it with --replication-factor 3"
        yield Finding("replication", State.NOTE, reason)
    elif fact.replicas > 2 and in_sync == 1:
        reason = f"has {fact.replicas} copies but min.insync.replicas 1: a lone copy may acknowledge, and be lost"
        yield Finding("replication", State.NOTE, reason, "min.insync.replicas=2")


def _line(finding: Finding, names: Collection[str]) -> Line:
    text = sentence(f"{listed(list(names))} {finding.reason}")
    if finding.cure:
        each = next(iter(names)) if len(names) == 1 else "TOPIC"
        # No full stop behind what is to be copied.
        text += f" By: kafka-configs.sh --alter --entity-type topics --entity-name {each} --add-config {finding.cure}"
    return Line(KAFKA.name, finding.aspect, finding.state, text)


def _praise(aspect: str, there: list[tuple[Need, TopicFacts]], limits: Limits) -> str:
    facts = [fact for _, fact in there]
    if aspect == "record size":
        return f"{len(facts)} topics take records of {limits.max_record_bytes:,} bytes, which is max_record_bytes."
    if aspect == "retention":
        kept_ms = [int((fact.config or {}).get("retention.ms", -1)) for need, fact in there if not need.is_compacted]
        bounded = [each for each in kept_ms if each >= 0]
        return f"The shortest is {span(min(bounded) / 1000)}." if bounded else "Nothing is deleted for its age."
    if aspect == "cleanup":
        return "Old announcements are compacted, all else is deleted by age."
    if aspect == "partitions":
        return f"{sum(fact.partitions for fact in facts)} in {len(facts)} topics, each with a leader."
    return f"Each partition has {_range([fact.replicas for fact in facts])} on {counted(limits.brokers, 'broker')}."


def judge_clock(clock: Clock | None, allowance_s: float) -> Line:
    """Deadlines are times of the caller's clock, and brokers delete by theirs."""
    if clock is None:
        text = "Not seen: Kafka tells its time since 3.3, to who has DESCRIBE on the cluster."
        return KAFKA.skipped("clock", text)
    sure_s = abs(clock.ahead_s) - clock.doubt_s
    way = "ahead of" if clock.ahead_s > 0 else "behind"
    text = f"Kafka's clock is {abs(clock.ahead_s):.3f} s {way} this machine's"
    cure = "Have both follow a time server (chrony, NTP): deadlines end requests too early or too late."
    if sure_s > max(LONGEST_SKEW_S, allowance_s):
        return KAFKA.fault("clock", f"{text}. {cure}")
    if sure_s > allowance_s:
        return KAFKA.note("clock", f"{text}, more than clock_skew_allowance_s ({allowance_s:g}). {cure}")
    return KAFKA.ok("clock", f"{text}, give or take {clock.doubt_s:.3f} s.")


def span(seconds: float) -> str:
    """As `90 s`, `36 h`, `30 d`, for people."""
    for size, unit in ((2 * DAY_S, "d"), (HOUR_S, "h")):
        if seconds >= size:
            return f"{seconds / (DAY_S if unit == 'd' else HOUR_S):.3g} {unit}"
    return f"{seconds:.4g} s"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _range(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    if least != most:
        return f"{least} to {most} copies"
    return "one copy" if least == 1 else f"{least} copies"
