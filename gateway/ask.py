"""What a surface asks of a model, once its body is read; the parameters that belong to headrace leave the model's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Tensor
from producer_sdk.topics import check_id
from producer_sdk.wire import Scalar

MICROSECONDS = 1e-6


class Ask(Struct, frozen=True, gc=False):
    """One inference request; the attributes mean the same as those of `producer_sdk.wire.Request`.

    Attributes:
        deadline_s: seconds from now, None for the default of the model or gateway.
    """

    id: str
    model: str
    inputs: Mapping[str, Tensor]
    parameters: dict[str, Scalar]
    version: str | None = None
    outputs: tuple[str, ...] | None = None
    deadline_s: float | None = None
    tenant: str | None = None


class Terms(NamedTuple):
    """How a request wants to be handled, apart from what the model sees."""

    version: str | None
    deadline_s: float | None
    tenant: str | None


def take_terms(parameters: dict[str, Scalar], url_version: str | None) -> Terms:
    """Take headrace's own parameters, `deadline_s`, `tenant` and `version`, out of the model's.

    Raises:
        InvalidRequest: one of them has a wrong type or value, contradicts the path, or is `reply_to`.
    """
    if not parameters:
        return Terms(url_version, None, None)
    if "reply_to" in parameters:
        raise InvalidRequest("reply_to has no meaning over HTTP: the answer goes to the caller; publish to Kafka instead")
    deadline_s = _positive("deadline_s", parameters.pop("deadline_s", None))
    version = _version(parameters.pop("version", None))
    if version is not None and url_version is not None and version != url_version:
        raise InvalidRequest(f"the path asks for version {url_version!r}, parameters.version for {version!r}")
    return Terms(version or url_version, deadline_s, _text("tenant", parameters.pop("tenant", None), 128))


def read_id(value: object, fallback: str) -> str:
    """The caller's id, or the fallback where it gave none.

    Raises:
        InvalidRequest: it is no valid id.
    """
    return fallback if value is None or value == "" else check_id(value)


def shortened(deadline_s: float | None, timeout_us: object) -> float | None:
    """The deadline, shortened by Triton's parameter `timeout` (microseconds, 0 for none).

    Raises:
        InvalidRequest: the timeout is no such number.
    """
    if timeout_us == 0 and timeout_us is not False:
        return deadline_s
    given = _positive("timeout", timeout_us)
    if given is None:
        return deadline_s
    return min(given * MICROSECONDS, math.inf if deadline_s is None else deadline_s)


def _positive(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidRequest(f"{name} {str(value)[:40]!r} is not valid: give a number above 0")
    return float(value)


def _version(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # JSON callers write 1 as often as "1"
    return _text("version", value, 64)


def _text(name: str, value: object, most: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise InvalidRequest(f"{name} {str(value)[:40]!r} is not valid: give text of 1 to {most} characters")
    return value
