"""Tokens of SASL OAUTHBEARER: asked for by a callback, kept until shortly before they expire."""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ._security_checks import unreadable
from .broker import NotAuthenticated

LIMIT_S = 20.0
UNKNOWN_LIFE_S = 300.0  # of a token that does not say when it expires
_USED_SHARE = 0.8  # of its life, after which another is asked for


class Secret(str):
    """Text that shows as `***`; empty text shows that none is set."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


class Token(Struct, frozen=True):
    """A token, and when it expires in seconds since the epoch.

    `value` is never shown. `principal` is whom it says it is for, where that can be read.
    """

    value: str
    expires_at_s: float
    principal: str | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "value", Secret(self.value))


Answer = str | Token
TokenCallback = Callable[[], Answer | Awaitable[Answer]]


class Tokens:
    """What a callback gives, kept while most of its life is left. Any thread, any event loop."""

    def __init__(self, ask: TokenCallback, clock: Callable[[], float] = time.time) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[float, Token] | None = None  # until when it is used

    def __repr__(self) -> str:
        return "Tokens('***')"

    @property
    def last(self) -> Token | None:
        return None if self._kept is None else self._kept[1]

    def forget(self) -> None:
        """Ask anew next time: the broker refuses what is kept."""
        with self._lock:
            self._kept = None

    async def get(self) -> Token:
        """The token to use now. A plain callback is asked in a thread, so it may block.

        Raises:
            NotAuthenticated: the callback failed, took too long or gave no usable token.
        """
        if (token := self._usable()) is not None:
            return token
        try:
            async with asyncio.timeout(LIMIT_S):
                if inspect.iscoroutinefunction(self._ask):
                    return self._keep(await self._ask())
                answer: Any = await asyncio.to_thread(self._ask)
                return self._keep(await answer if inspect.isawaitable(answer) else answer)
        except NotAuthenticated:
            raise
        except Exception as err:  # the caller's own code
            raise _failed(err) from err

    def get_blocking(self, loop: asyncio.AbstractEventLoop) -> Token:
        """The same for a thread that is not the loop's; an asynchronous callback runs in the loop."""
        if (token := self._usable()) is not None:
            return token
        return asyncio.run_coroutine_threadsafe(self.get(), loop).result(LIMIT_S + 1.0)

    def _usable(self) -> Token | None:
        with self._lock:
            return self._kept[1] if self._kept is not None and self._clock() < self._kept[0] else None

    def _keep(self, answer: Answer) -> Token:
        now = self._clock()
        token = as_token(answer, now)
        if token.expires_at_s <= now:
            raise NotAuthenticated("the token for Kafka has expired already: have the callback give a fresh one")
        with self._lock:
            self._kept = now + _USED_SHARE * (token.expires_at_s - now), token
        return token


def as_token(answer: object, now: float) -> Token:
    """A token from what a callback gave: text, which is read where it is a JWT, or a `Token`.

    Raises:
        NotAuthenticated: it is neither.
    """
    if isinstance(answer, Token):
        return answer
    text = answer.strip() if isinstance(answer, str) else ""
    if not text or any(character.isspace() for character in text):
        raise NotAuthenticated("the token callback gave no token: have it return the token as text, or a Token")
    claims = _claims(text)
    expires = claims.get("exp")
    at_s = float(expires) if isinstance(expires, int | float) else now + UNKNOWN_LIFE_S
    who = claims.get("sub")
    return Token(text, at_s, who if isinstance(who, str) else None)


def token_file(path: Path) -> TokenCallback:
    """Reads the token anew each time, from a file that something else renews.

    Raises:
        ValueError: it cannot be read now.
    """
    if (why := unreadable(path)) is not None:
        raise ValueError(f"the token file {path} cannot be read: {why}")

    def read() -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            why = getattr(err, "strerror", None) or "it is no text"
            raise NotAuthenticated(f"the token file {path} cannot be read: {why}") from None

    return read


def _failed(err: BaseException) -> NotAuthenticated:
    """Without the text of the error, which may hold what nobody should read."""
    if isinstance(err, TimeoutError):
        return NotAuthenticated(f"the token callback gave no token within {LIMIT_S:g} s")
    return NotAuthenticated(f"the token callback failed with {type(err).__name__}: its cause says more")


def _claims(token: str) -> dict[str, object]:
    """What a JWT says, unchecked; empty where it is none: only the broker decides what a token is worth."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return {}
    return claims if isinstance(claims, dict) else {}
