"""What became of every request, read from the topics and the group's offsets alone, by rules of the tests' own.

`headrace verify` says the same from outside; two that count apart find each other's mistakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from producer_sdk.broker import Broker, Record, TopicPartition
from producer_sdk.errors import HeadraceError
from producer_sdk.records import decode_record, decode_reply_record
from producer_sdk.topics import Topics, derived_id
from producer_sdk.wire import Undecodable

OK = "OK"
# A second outcome beside one of these is a repeat, which readers drop: time and crashes may overtake a result.
FORGIVEN = frozenset(("DEADLINE_EXCEEDED", "CANCELLED", "RUNNER_CRASHED"))
POLL_S = 0.5


class Asked(Struct, frozen=True):
    """A request that the log holds."""

    id: str
    partition: TopicPartition
    offset: int


class Told(Struct, frozen=True):
    """An outcome that a topic holds: `code` is OK or an error's; `dead` says that it is a dead letter."""

    id: str
    code: str
    dead: bool = False


class Log(Struct, frozen=True):
    """All of one model's requests and outcomes, and what its group has committed. `moved`: ids on the retry topic."""

    asked: tuple[Asked, ...]
    told: tuple[Told, ...]
    committed: Mapping[TopicPartition, int]
    moved: frozenset[str] = frozenset()


class Judgement(Struct, frozen=True):
    """The verdict on a log.

    Attributes:
        accepted: requests in the log, each id once.
        outcomes: those of them that have an outcome.
        lost: below the committed offset and without an outcome.
        open: not below it and without an outcome, so that a worker will still read them.
        conflicting: ids with two codes of which neither is forgiven.
        repeats: replies beyond the first of each id.
        dead: dead letters.
        codes: ids by their first code.
        ids: those of the accepted requests.
    """

    accepted: int
    outcomes: int
    lost: tuple[str, ...]
    open: tuple[str, ...]
    conflicting: tuple[str, ...]
    repeats: int
    dead: int
    codes: Mapping[str, int]
    ids: frozenset[str]


def judge(log: Log, forgiven: frozenset[str] = FORGIVEN) -> Judgement:
    """Pure."""
    codes: dict[str, list[str]] = {}
    for told in log.told:
        if not told.dead:
            codes.setdefault(told.id, []).append(told.code)
    ended = codes.keys() | {told.id for told in log.told if told.dead}
    without = [asked for asked in log.asked if asked.id not in ended]
    finished = [asked for asked in without if asked.offset < log.committed.get(asked.partition, 0)]
    lost = tuple(asked.id for asked in finished if asked.id not in log.moved)
    accepted = {asked.id for asked in log.asked}
    return Judgement(
        accepted=len(accepted),
        outcomes=len(accepted & ended),
        lost=lost,
        open=tuple(asked.id for asked in without if asked.id not in lost),
        conflicting=tuple(id for id, each in codes.items() if len(set(each) - forgiven) > 1),
        repeats=sum(len(each) - 1 for each in codes.values()),
        dead=sum(told.dead for told in log.told),
        codes=Counter(each[0] for each in codes.values()),
        ids=frozenset(accepted),
    )


async def read_log(broker: Broker, topics: Topics, model: str, answers_on: Iterable[str] = ()) -> Log:
    """The log as it is now; `answers_on` names reply topics beside the usual ones."""
    admin = broker.admin()
    await admin.start()
    try:
        counts = await admin.topics()
        committed = {where: each.offset for where, each in (await admin.committed(topics.group(model))).items()}
    finally:
        await admin.stop()

    async def read(names: Iterable[str]) -> list[Record]:
        places = frozenset(TopicPartition(name, n) for name in names for n in range(counts.get(name, 0)))
        return await read_all(broker, places) if places else []

    asked = [asked_by(record) for record in await read(topics.lanes(model))]
    told = [told_by(record) for record in await read({topics.replies, topics.results(model), *answers_on})]
    dead = [Told(told_by(record).id, "", dead=True) for record in await read([topics.dead(model)])]
    moved = frozenset(asked_by(record).id for record in await read([topics.retry(model)]))
    return Log(tuple(asked), (*told, *dead), committed, moved)


async def read_all(broker: Broker, partitions: frozenset[TopicPartition]) -> list[Record]:
    """Every record that is there when it is called."""
    reader = broker.reader(partitions, from_end=False)
    await reader.start()
    try:
        ends = await reader.end_offsets(partitions)
        records: list[Record] = []
        while any(reader.positions().get(each, 0) < end for each, end in ends.items()):
            for polled in (await reader.poll(500, POLL_S)).values():
                records += polled
        return [record for record in records if record.offset < ends[TopicPartition(record.topic, record.partition)]]
    finally:
        await reader.stop()


def asked_by(record: Record) -> Asked:
    """The request that a record of a lane is, readable or not."""
    fallback = derived_id(record.topic, record.partition, record.offset)
    try:
        id = decode_record(record.value, record.headers, fallback, record.timestamp).id
    except Undecodable as err:
        id = err.id or fallback
    return Asked(id, TopicPartition(record.topic, record.partition), record.offset)


def told_by(record: Record) -> Told:
    """The outcome that a record of a reply topic is."""
    key = (record.key or b"").decode("ascii", "replace")
    try:
        reply = decode_reply_record(record.value)
    except HeadraceError as err:
        return Told(key, err.code)
    if isinstance(reply, HeadraceError):
        return Told(reply.id or key, reply.code)
    return Told(reply.id, OK)


def promise_breaks(judged: Judgement, seen_twice: Sequence[str]) -> list[str]:
    """What of the promise a judgement breaks, as sentences."""
    faults = {
        "lost (below the committed offset, no outcome)": judged.lost,
        "without an outcome, though all is healed": judged.open,
        "with two results that contradict each other": judged.conflicting,
        "answered to a caller twice": seen_twice,
    }
    return [f"{len(ids)} requests {what}: {', '.join(ids[:5])}" for what, ids in faults.items() if ids]
