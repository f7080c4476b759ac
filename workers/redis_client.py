"""The client of the Redis that holds reply indexes: its address checked at the start, its patience short."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from producer_sdk.setting import SettingsError

PATIENCE_S = 0.25  # of one question: a request waits no longer for what is only to save it a run
PROTOCOL = 2  # the older one, which every Redis speaks
OPTIONS = frozenset(("db", "ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname",
                     "ssl_keyfile", "ssl_password"))  # fmt: skip
_FORM = "write redis://:PASSWORD@HOST:PORT/NUMBER, rediss:// for TLS, with / ? # @ : % in a password as %2F and so on"


def connect_redis(url: str) -> Any:
    """A client of the Redis at this address; it connects when it is first asked.

    Raises:
        SettingsError: the address is not valid, or the package is missing; says which, and shows nothing of the
            address, in which a misplaced password may be anywhere.
    """
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
    except ModuleNotFoundError as err:
        raise SettingsError("redis_url needs the package redis: pip install 'headrace[redis]'.") from err
    if fault := _fault_of(url):
        raise SettingsError(f"redis_url (HEADRACE_REDIS_URL) {fault}: {_FORM}.")
    try:
        # By default redis-py asks again up to ten times, with pauses.
        redis: Any = Redis.from_url(url, socket_connect_timeout=PATIENCE_S, socket_timeout=PATIENCE_S,
                                    protocol=PROTOCOL, retry=Retry(NoBackoff(), 0))  # fmt: skip
        redis.connection_pool.make_connection()  # checks the options, without connecting
    except (TypeError, ValueError, RedisError) as err:
        raise SettingsError("redis_url (HEADRACE_REDIS_URL) has an option that redis-py refuses.") from err
    return redis


async def close_redis(redis: Any) -> None:
    """Close its connections; one that does not close in time is left to the end of the process."""
    from redis.exceptions import RedisError

    try:
        await redis.aclose()
    except (RedisError, OSError):
        pass  # nothing waits for an answer any more


def _fault_of(url: str) -> str | None:
    """What is wrong with an address. redis-py itself would take most of these for something else without a word."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "has a host or a port that is none"
    if parts.scheme == "unix":
        return _fault_of_options(parts) if parts.path else "names no socket"
    if parts.scheme not in ("redis", "rediss"):
        return "does not begin with redis://, rediss:// or unix://"
    if not parts.hostname or port == 0:
        return "names no host" if port != 0 else "has port 0"
    number = parts.path.strip("/")
    if number and not (number.isascii() and number.isdigit()):
        return "has a path that is no database number"
    return _fault_of_options(parts)


def _fault_of_options(parts: SplitResult) -> str | None:
    unknown = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name not in OPTIONS]
    if unknown or parts.fragment:
        return f"may only have the options {', '.join(sorted(OPTIONS))}"
    return None
