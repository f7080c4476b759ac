"""A consumer group in memory, as Kafka's classic protocol has it: all give up everything, then all get new shares."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any, Protocol

from ._memory_faults import Gate
from .broker import Committed, GroupOptions, TopicPartition


class Member(Protocol):
    """What a group asks of a member; `gone` is set when it has been put out, `silent` says that it answers nothing."""

    topics: frozenset[str]
    options: GroupOptions
    gone: asyncio.Event
    silent: bool

    def assignment(self) -> frozenset[TopicPartition]: ...
    async def revoke(self) -> None: ...
    async def assign(self, generation: int, partitions: frozenset[TopicPartition]) -> None: ...
    def fence(self) -> None: ...


class Group:
    """Members in the order of joining. One event loop; any task."""

    def __init__(self, name: str, topics: Callable[[], Mapping[str, int]], network: Gate) -> None:
        self.name = name
        self.generation = 0
        self.committed: dict[TopicPartition, Committed] = {}
        self._topics = topics
        self._network = network
        self._members: list[Member] = []
        self._due = False
        self._balancing: asyncio.Task[None] | None = None

    def knows(self, member: Member) -> bool:
        return member in self._members

    def join(self, member: Member) -> None:
        """One with the `instance_id` of another takes its place, and its partitions too unless all move just now."""
        former = next((i for i, other in enumerate(self._members) if _same_instance(member, other)), None)
        if former is None:
            self._members.append(member)
            self._balance()
            return
        replaced, self._members[former] = self._members[former], member
        share = replaced.assignment()
        replaced.fence()
        if self._is_stable():
            self._balancing = asyncio.create_task(self._take_over(member, share), name=f"memory-group-{self.name}")
        else:
            self._balance()

    def leave(self, member: Member) -> None:
        """Its partitions go to the others; it is told nothing."""
        member.gone.set()
        if member in self._members:
            self._members.remove(member)
            self._balance()

    def expire(self) -> None:
        """Put out the members that answer nothing."""
        for member in [member for member in self._members if member.silent]:
            self.leave(member)

    def changed(self, topic: str) -> None:
        """The topic has come or gone."""
        if any(topic in member.topics for member in self._members):
            self._balance()

    def forget(self, topic: str) -> None:
        """The topic is gone, and with it what was committed of it."""
        self.committed = {place: offset for place, offset in self.committed.items() if place.topic != topic}
        self.changed(topic)

    def _is_stable(self) -> bool:
        return self._balancing is None or self._balancing.done()

    def _balance(self) -> None:
        self._due = True
        if self._is_stable():
            self._balancing = asyncio.create_task(self._rebalance(), name=f"memory-group-{self.name}")

    async def _take_over(self, member: Member, share: frozenset[TopicPartition]) -> None:
        await member.assign(self.generation, share)
        await self._rebalance()

    async def _rebalance(self) -> None:
        while self._due:
            await self._network.opened()
            await asyncio.gather(*(self._revoked(member) for member in tuple(self._members)))
            await self._network.opened()
            self._due = False
            self.generation += 1
            shares = self._shares()
            told = [member.assign(self.generation, frozenset(shares[i])) for i, member in enumerate(self._members)]
            await asyncio.gather(*told)

    async def _revoked(self, member: Member) -> None:
        """Wait until the member has given up its partitions, and put it out if that takes too long.

        A silent one answers nothing: it holds everybody up until `expire`.
        """
        answers: list[asyncio.Task[Any]] = [asyncio.create_task(member.gone.wait(), name="memory-member-gone")]
        if not member.silent:
            answers.append(asyncio.create_task(member.revoke(), name="memory-member-revoke"))
        limit_s = None if member.silent else member.options.rebalance_timeout_s
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


def _same_instance(one: Member, other: Member) -> bool:
    return (
        one is not other
        and one.options.instance_id is not None
        and (one.options.instance_id == other.options.instance_id)
    )
