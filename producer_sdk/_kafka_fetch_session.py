"""What a broker knows of our fetches (KIP-227): after the first, each names only what is new since the one before.

The answer leaves out partitions of which there is nothing new, too. A worker has 32 partitions of a model by default
and most are empty: without this each fetch would list, and each answer describe, all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

NONE = 0
NOT_FOUND = 70  # FETCH_SESSION_ID_NOT_FOUND: the broker keeps a limited number of them
WHOLE = 0  # the epoch of a fetch that names everything, and begins a session
LAST_EPOCH = 2**31 - 1

Asked = tuple[int, ...]  # of a partition: its number first
Topics = Sequence[tuple[str, Sequence[Asked]]]
Each = TypeVar("Each")


class Fetch(NamedTuple):
    """What is to be written of one fetch. `forgotten` are partitions that the session is to leave out from now on."""

    id: int
    epoch: int
    topics: Topics
    forgotten: Mapping[str, Sequence[int]]


class FetchSession:
    """One client's session with one broker, which has one fetch of it under way. Pure.

    Whenever it is not certain what the broker knows, everything is named again.
    """

    def __init__(self) -> None:
        self._id = 0
        self._epoch = WHOLE
        self._known: dict[tuple[str, int], Asked] = {}
        self._unanswered = False

    def ask(self, topics: Topics) -> Fetch:
        """The fetch of all these partitions, to be sent now."""
        if self._unanswered:
            self._epoch = WHOLE
        self._unanswered = True
        known = self._known
        self._known = wanted = {(topic, each[0]): each for topic, partitions in topics for each in partitions}
        if self._epoch == WHOLE:
            return Fetch(self._id, WHOLE, topics, {})
        changed = [(place[0], each) for place, each in wanted.items() if known.get(place) != each]
        forgotten = [place for place in known if place not in wanted]
        return Fetch(self._id, self._epoch, list(_by_topic(changed).items()), _by_topic(forgotten))

    def answered(self, error: int, id: int) -> None:
        """The broker's answer to it, with the error that is of the whole fetch; id 0 is no session."""
        self._unanswered = False
        if error != NONE:
            self._epoch = WHOLE  # with the id of one that exists it takes that one's place
            self._id = 0 if error == NOT_FOUND else self._id
        elif id == 0:
            self._id, self._epoch = 0, WHOLE
        else:
            self._id = id
            self._epoch = 1 if self._epoch in (WHOLE, LAST_EPOCH) else self._epoch + 1


def _by_topic(pairs: Iterable[tuple[str, Each]]) -> dict[str, list[Each]]:
    grouped: defaultdict[str, list[Each]] = defaultdict(list)
    for topic, each in pairs:
        grouped[topic].append(each)
    return dict(grouped)
