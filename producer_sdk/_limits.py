"""What a request may hold beside its tensors, in any form: limits, and the checks that name the field."""

from __future__ import annotations

from collections.abc import Mapping

from .dataref import S3Prefix, is_s3_uri
from .errors import InvalidRequest
from .topics import ReplyTo, parse_reply_to, shown

MAX_TENSORS = 64
MAX_PARAMETERS = 64
MAX_NAME_CHARS = 256
MAX_TENANT_CHARS = 128
MAX_VERSION_CHARS = 64
MAX_REPLY_TO_CHARS = 280
MAX_PREFIX_BYTES = 880  # so that every id makes a key that stores take
MAX_DEADLINE_MS = 253_402_300_800_000  # the year 10000

Scalar = bool | int | float | str

# Names with a meaning of their own in the JSON form, which model parameters therefore cannot have in any form.
OPTIONS = ("reply_to", "deadline_s", "tenant", "version")
_RESERVED = frozenset((*OPTIONS, "binary_data_output"))


def check_deadline_ms(value: object) -> int:
    """The absolute deadline itself.

    Raises:
        InvalidRequest: it is not a whole number of epoch milliseconds before the year 10000.
    """
    if type(value) is not int or not 0 <= value <= MAX_DEADLINE_MS:
        raise InvalidRequest(f"deadline_ms {shown(value)} is not valid: give whole epoch milliseconds")
    return value


def read_return_address(value: object) -> tuple[ReplyTo | None, S3Prefix | None]:
    """Where a reply goes: to a topic, or to a store.

    Raises:
        InvalidRequest: it is neither `topic`, `topic:partition` nor `s3://bucket/prefix/`.
    """
    if not isinstance(value, str) or not is_s3_uri(value):
        return parse_reply_to(read_text(value, "reply_to", MAX_REPLY_TO_CHARS)), None
    try:
        store = S3Prefix.parse(value)
    except InvalidRequest as err:
        raise InvalidRequest(f"reply_to {shown(value)} is not valid: {err.message.rstrip('.')}") from err
    if len(store.prefix.encode()) > MAX_PREFIX_BYTES:
        raise InvalidRequest(f"reply_to {shown(value)} is too long: its prefix takes at most {MAX_PREFIX_BYTES} bytes")
    return None, store


def read_text(value: object, what: str, most: int) -> str:
    """The text itself.

    Raises:
        InvalidRequest: it is not text of 1 to `most` printable characters.
    """
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise InvalidRequest(f"{what} {shown(value)} is not valid: give text of 1 to {most} printable characters")
    return value


def read_output_names(value: object) -> tuple[str, ...]:
    """Names of the outputs wanted.

    Raises:
        InvalidRequest: it is not a list of 1 to 64 different names.
    """
    if not isinstance(value, list) or not 0 < len(value) <= MAX_TENSORS:
        raise InvalidRequest(f"outputs must be a list of 1 to {MAX_TENSORS} names")
    names = tuple(read_text(name, "output name", MAX_NAME_CHARS) for name in value)
    if len(set(names)) < len(names):
        raise InvalidRequest("outputs names one output twice")
    return names


def check_parameters(parameters: Mapping[str, Scalar]) -> None:
    """Check the parameters meant for the model.

    Raises:
        InvalidRequest: more than 64, a reserved name, a value that is no scalar, or an integer beyond 64 bits.
    """
    if len(parameters) > MAX_PARAMETERS:
        raise InvalidRequest(f"parameters holds {len(parameters)} entries: at most {MAX_PARAMETERS}")
    for name, value in parameters.items():
        if not 0 < len(name) <= MAX_NAME_CHARS:
            raise InvalidRequest(f"parameter name {shown(name)} is not valid: give 1 to {MAX_NAME_CHARS} characters")
        if name in _RESERVED or name.startswith("triton_"):
            raise InvalidRequest(f"parameter {shown(name)} cannot go to the model: the name is reserved")
        if not isinstance(value, bool | int | float | str):
            raise InvalidRequest(f"parameter {shown(name)} is {shown(value)}: give text, a number or a boolean")
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise InvalidRequest(f"parameter {shown(name)} is an integer that 64 bits cannot hold")
