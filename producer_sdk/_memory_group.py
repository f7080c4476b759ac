"""A consumer group in memory, as Kafka's classic protocol has it: all give up everything, then all get new shares."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any, Protocol

from .broker import Committed, GroupOptions, TopicPartition


class Member(Protocol):
    """What a group asks of a member; `gone` is set when it has been put out."""

    topics: frozenset[str]
    options: GroupOptions
    gone: asyncio.Event
    killed: bool

    async def revoke(self) -> None: ...
    async def assign(self, generation: int, partitions: frozenset[TopicPartition]) -> None: ...


class Group:
    """Members in the order of joining. One event loop; any task."""

    def __init__(self, name: str, topics: Callable[[], Mapping[str, int]]) -> None:
        self.name = name
        self.generation = 0
        self.committed: dict[TopicPartition, Committed] = {}
        self._topics = topics
        self._members: list[Member] = []
        self._due = False
        self._balancing: asyncio.Task[None] | None = None

    def knows(self, member: Member) -> bool:
        return member in self._members

    def join(self, member: Member) -> None:
        self._members.append(member)
        self._balance()

    def leave(self, member: Member) -> None:
        """Its partitions go to the others; it is told nothing."""
        member.gone.set()
        if member in self._members:
            self._members.remove(member)
            self._balance()

    def expire(self) -> None:
        """Put out the members that were killed."""
        for member in [member for member in self._members if member.killed]:
            self.leave(member)

    def _balance(self) -> None:
        self._due = True
        if self._balancing is None or self._balancing.done():
            self._balancing = asyncio.create_task(self._rebalance(), name=f"memory-group-{self.name}")

    async def _rebalance(self) -> None:
        while self._due:
            await asyncio.gather(*(self._revoked(member) for member in tuple(self._members)))
            self._due = False
            self.generation += 1
            shares = self._shares()
            told = [member.assign(self.generation, frozenset(shares[i])) for i, member in enumerate(self._members)]
            await asyncio.gather(*told)

    async def _revoked(self, member: Member) -> None:
        """Wait until the member has given up its partitions, and put it out if that takes too long.

        One that was killed answers nothing: it holds everybody up until `expire`.
        """
        answers: list[asyncio.Task[Any]] = [asyncio.create_task(member.gone.wait(), name="memory-member-gone")]
        if not member.killed:
            answers.append(asyncio.create_task(member.revoke(), name="memory-member-revoke"))
        limit_s = None if member.killed else member.options.rebalance_timeout_s
        await asyncio.wait(answers, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        answers[0].cancel()
        if not member.gone.is_set() and not any(answer.done() for answer in answers):
            member.gone.set()
            self._members.remove(member)

    def _shares(self) -> Mapping[int, list[TopicPartition]]:
        """Partitions of all topics in turn to the members that want the topic."""
        shares: dict[int, list[TopicPartition]] = defaultdict(list)
        known = self._topics()
        turns = cycle(range(len(self._members))) if self._members else iter(())
        for topic in sorted(set().union(*(member.topics for member in self._members))):
            for partition in range(known.get(topic, 0)):
                chosen = next(i for i in turns if topic in self._members[i].topics)
                shares[chosen].append(TopicPartition(topic, partition))
        return shares
