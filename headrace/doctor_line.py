"""What `headrace doctor` finds: a line for each thing that it looked at, and how long it looks."""

import asyncio
from collections.abc import Awaitable, Sequence
from enum import StrEnum

from aiokafka.errors import KafkaError
from msgspec import Struct

from producer_sdk.errors import HeadraceError
from producer_sdk.setting import SettingsError


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    NOTE = "note"  # it works, and somebody should know
    FAULT = "fault"  # it does not work, or will fail some requests
    SKIPPED = "skipped"  # it is not configured, or could not be looked at


class Line(Struct, frozen=True):
    """One thing that was looked at: where it belongs, its name, and what is so or what to do, as a sentence."""

    area: str
    name: str
    state: State
    text: str


class Area(Struct, frozen=True):
    """Makes lines of one area."""

    name: str

    def ok(self, name: str, text: str) -> Line:
        return Line(self.name, name, State.OK, text)

    def note(self, name: str, text: str) -> Line:
        return Line(self.name, name, State.NOTE, text)

    def fault(self, name: str, text: str) -> Line:
        return Line(self.name, name, State.FAULT, text)

    def skipped(self, name: str, text: str) -> Line:
        return Line(self.name, name, State.SKIPPED, text)

    async def within(self, budget_s: float, name: str, check: Awaitable[Sequence[Line]]) -> list[Line]:
        """The lines of a check, or a fault where it fails or takes too long."""
        try:
            async with asyncio.timeout(budget_s):
                return list(await check)
        except TimeoutError:
            cure = "See whether it is up, and the network lets it through."
            return [self.fault(name, f"Nothing was heard within {budget_s:g} s. {cure}")]
        except (HeadraceError, SettingsError, KafkaError, OSError) as err:
            return [self.fault(name, said(err))]


def said(err: Exception) -> str:
    """What an error says, as a sentence."""
    text = err.message if isinstance(err, HeadraceError) else str(err) or type(err).__name__
    return sentence(text)


def sentence(text: str) -> str:
    """With a capital letter and a full stop, unless it begins with a name or a path."""
    head = text.split(" ", 1)[0]
    text = text[:1].upper() + text[1:] if head.isalpha() else text
    return text if text.endswith((".", "!", "?")) else f"{text}."


def counted(count: int, noun: str) -> str:
    """As `1 broker` or `3 brokers`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """As `a, b, c and 4 more`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
