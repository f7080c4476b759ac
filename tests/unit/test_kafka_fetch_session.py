"""Whatever becomes of fetches and answers, the broker looks for what is wanted, or says that it knows nothing."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from producer_sdk._kafka_fetch_session import LAST_EPOCH, NOT_FOUND, WHOLE, Asked, Fetch, FetchSession

INVALID_EPOCH = 71
WANTED = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(0, 2))
FATES = st.sampled_from(["answered", "lost", "never sent on", "restarted", "no room"])


class Broker:
    """Kafka's side of the sessions, as KIP-227 has it."""

    def __init__(self) -> None:
        self.sessions: dict[int, dict[tuple[str, int], Asked]] = {}
        self.epochs: dict[int, int] = {}
        self.newest = 0
        self.has_room = True
        self.looks_for: dict[tuple[str, int], Asked] = {}

    def takes(self, fetch: Fetch) -> tuple[int, int]:
        """The error and the session of its answer; what it looks for is noted."""
        named = {(topic, each[0]): each for topic, partitions in fetch.topics for each in partitions}
        if fetch.epoch == WHOLE:
            assert not fetch.forgotten, "there is nothing yet to forget"
            self.sessions.pop(fetch.id, None)
            self.looks_for = named
            if not self.has_room:
                return 0, 0
            self.newest += 1
            self.sessions[self.newest], self.epochs[self.newest] = named, 1
            return 0, self.newest
        if fetch.id not in self.sessions:
            return NOT_FOUND, 0
        if fetch.epoch != self.epochs[fetch.id]:
            return INVALID_EPOCH, fetch.id
        known = self.sessions[fetch.id] | named
        for topic, numbers in fetch.forgotten.items():
            for number in numbers:
                del known[topic, number]
        self.sessions[fetch.id] = self.looks_for = known
        self.epochs[fetch.id] += 1
        return 0, fetch.id


def topics(wanted: dict[tuple[str, int], int]) -> list[tuple[str, Sequence[Asked]]]:
    """As aiokafka has them: each topic once, of a partition number, epoch, offset, the log's start and most bytes."""
    names = sorted({topic for topic, _ in wanted})
    return [(name, [(n, -1, at, -1, 100) for (topic, n), at in wanted.items() if topic == name]) for name in names]


@given(steps=st.lists(st.tuples(WANTED, FATES), max_size=12))
def test_the_broker_looks_for_exactly_what_is_wanted(steps: Sequence[tuple[dict[tuple[str, int], int], str]]) -> None:
    session, broker = FetchSession(), Broker()
    for wanted, fate in steps:
        if fate == "restarted":
            broker.sessions.clear()
        broker.has_room = fate != "no room"
        fetch = session.ask(topics(wanted))
        if fate == "never sent on":
            continue
        error, id = broker.takes(fetch)
        if fate == "lost":
            continue
        session.answered(error, id)
        if error:  # then the next names all, and is taken
            error, id = broker.takes(session.ask(topics(wanted)))
            session.answered(error, id)
        assert error == 0
        assert broker.looks_for == {(topic, each[0]): each for topic, asked in topics(wanted) for each in asked}


def test_what_the_broker_knows_is_not_named_again() -> None:
    session = FetchSession()
    first = topics({("a", 0): 5, ("a", 1): 5, ("b", 0): 5})
    assert session.ask(first) == Fetch(0, WHOLE, first, {})
    session.answered(0, 7)
    assert session.ask(first) == Fetch(7, 1, [], {})
    session.answered(0, 7)
    moved = session.ask(topics({("a", 0): 5, ("a", 1): 6}))
    assert moved == Fetch(7, 2, topics({("a", 1): 6}), {"b": [0]})


def test_epochs_begin_again_behind_the_last() -> None:
    session = FetchSession()
    session.ask([])
    session.answered(0, 7)
    session._epoch = LAST_EPOCH
    assert session.ask([]).epoch == LAST_EPOCH
    session.answered(0, 7)
    assert session.ask([]).epoch == 1
