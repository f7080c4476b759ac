"""What a surface asks of a model, once its body is read."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import UNLIKE, Likeness, Options, read_options
from producer_sdk.tensors import Tensor
from producer_sdk.topics import check_id
from producer_sdk.wire import Scalar

from .models import Served

MICROSECONDS = 1e-6


class Ask(Struct, frozen=True, gc=False):
    """One inference request.

    Attributes:
        served: the model that it asks.
        options: version, deadline, tenant, and the parameters that go to the model.
        outputs: names of the outputs wanted; None means all.
        binary: which of them are wanted as bytes behind the JSON; None stands for those that are not named.
        like: the same object, told by `is`, in requests that differ in the bytes of their tensors alone.
    """

    id: str
    served: Served
    inputs: Mapping[str, Tensor]
    options: Options
    outputs: tuple[str, ...] | None = None
    binary: Mapping[str | None, bool] = {}
    like: Likeness = UNLIKE


def options_over_http(parameters: Mapping[str, Scalar], url_version: str | None) -> Options:
    """The options of a body; the version of the path counts as if the body named it.

    Raises:
        InvalidRequest: one is not valid, contradicts the path, or is `reply_to`.
    """
    if "reply_to" in parameters:
        raise InvalidRequest(
            "reply_to has no meaning over HTTP: the answer goes to the caller; publish to Kafka instead"
        )
    options = read_options(parameters)
    if url_version is None or options.version == url_version:
        return options
    if options.version is not None:
        raise InvalidRequest(f"the path asks for version {url_version!r}, parameters.version for {options.version!r}")
    return replace(options, version=url_version)


def read_id(value: object, fallback: str) -> str:
    """The caller's id, or the fallback where it gave none.

    Raises:
        InvalidRequest: it is no valid id.
    """
    return fallback if value is None or value == "" else check_id(value)


def shortened(deadline_s: float | None, timeout_us: Scalar | None) -> float | None:
    """The deadline, shortened by Triton's parameter `timeout` (microseconds, 0 for none).

    Raises:
        InvalidRequest: the timeout is no such number.
    """
    if timeout_us is None or timeout_us == 0:
        return deadline_s
    if isinstance(timeout_us, bool | str) or not 0 < timeout_us < math.inf:
        raise InvalidRequest(f"timeout {str(timeout_us)[:40]!r} is not valid: give microseconds, 0 for none")
    return min(timeout_us * MICROSECONDS, math.inf if deadline_s is None else deadline_s)
