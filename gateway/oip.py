"""Open Inference Protocol v2 over HTTP: `POST /v2/models/{m}[/versions/{v}]/infer`, tensors in JSON or binary."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import (
    BINARY_OUTPUT,
    UNLIKE,
    InferBody,
    Likeness,
    Options,
    Tail,
    encode_json_reply,
    read_infer_body,
)
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Reply, TensorReply

from .aside import LARGE_BYTES, aside
from .ask import Ask, options_over_http, read_id, shortened
from .call import Answer, Call, header
from .models import Models, Served

TIMEOUT = "timeout"
MOST_LIKENESSES = 256
JSON_LENGTH = b"inference-header-content-length"  # of the JSON that binary tensors follow
OCTETS = b"application/octet-stream"


class _Meant(NamedTuple):
    """What a body means beside its tensors, where the path names this version. `like` is kept: its id stands for it."""

    like: Likeness
    url_version: str | None
    options: Options
    wishes: dict[str | None, bool]


class OipSurface:
    """Reads and writes bodies of the protocol.

    Triton's request parameter `timeout` shortens the deadline; its others, `priority` among them, go to the model.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._meant: dict[int, _Meant] = {}  # by the identity of what they are like

    async def read(self, call: Call, body: bytes, served: Served | None) -> Ask:
        """Raises HeadraceError: the body is none of the protocol, contradicts the path, or asks for another version."""
        assert served is not None
        json_length = header(call, JSON_LENGTH)
        if len(body) <= LARGE_BYTES:
            asked = _read(body, json_length)
        else:
            asked = await aside(len(body), _read, body, json_length)
        meant = self._meaning(call, asked)
        if meant.options.version != call.url_version:
            served = await self._models.serving(call, served.name, meant.options.version)
        return Ask(call.id, served, asked.inputs, meant.options, asked.outputs, meant.wishes, asked.like)

    def read_at_once(self, call: Call, body: bytes, served: Served) -> Ask | None:
        """The same without a wait; None where it takes one."""
        if len(body) > LARGE_BYTES:
            return None
        asked = _read(body, header(call, JSON_LENGTH))
        meant = self._meaning(call, asked)
        if meant.options.version != call.url_version:
            return None
        return Ask(call.id, served, asked.inputs, meant.options, asked.outputs, meant.wishes, asked.like)

    def _meaning(self, call: Call, asked: InferBody) -> _Meant:
        call.id = read_id(asked.id, call.id)
        meant = self._meant.get(id(asked.like))
        if meant is not None and meant.like is asked.like and meant.url_version == call.url_version:
            return meant
        meant = _Meant(asked.like, call.url_version, self._options(call, asked), _wishes(asked))
        if asked.like is not UNLIKE:
            if len(self._meant) >= MOST_LIKENESSES:
                self._meant.clear()
            self._meant[id(asked.like)] = meant
        return meant

    def _options(self, call: Call, asked: InferBody) -> Options:
        if asked.ref is not None:
            raise InvalidRequest("dataref is not taken over HTTP: send the inputs, however large, or publish to Kafka")
        options = options_over_http(asked.parameters, call.url_version)
        if TIMEOUT in options.parameters:
            rest = {name: value for name, value in options.parameters.items() if name != TIMEOUT}
            deadline_s = shortened(options.deadline_s, options.parameters[TIMEOUT])
            options = replace(options, deadline_s=deadline_s, parameters=rest)
        return options

    def write(self, call: Call, ask: Ask, reply: Reply) -> Answer:
        if isinstance(reply, TensorReply):
            outputs = reply.tensors
        else:
            outputs = {name: Tensor.from_array(array) for name, array in reply.outputs.items()}
        binary = [name for name in outputs if ask.binary.get(name, ask.binary.get(None, False))] if ask.binary else []
        text = encode_json_reply(reply.id, reply.model, reply.version, outputs, reply.parameters, binary=binary)
        if not binary:
            return Answer(text)
        body = b"".join((text, *(outputs[name].data for name in binary)))
        return Answer(body, headers=[(JSON_LENGTH, b"%d" % len(text))], content_type=OCTETS)


def _read(body: bytes, json_length: bytes | None) -> InferBody:
    if json_length is None:
        return read_infer_body(body)
    length = int(json_length) if json_length.isdigit() and len(json_length) <= 15 else len(body) + 1
    if length > len(body):
        raise InvalidRequest("Inference-Header-Content-Length is not the length of the JSON that the body begins with")
    return read_infer_body(body[:length], Tail(memoryview(body), length))


def _wishes(asked: InferBody) -> dict[str | None, bool]:
    """Whether each output is wanted as bytes behind the JSON; None stands for those that are not named."""
    if not asked.binary_data and not asked.parameters:
        return {}
    wishes: dict[str | None, bool] = {}
    wishes.update(asked.binary_data)
    if asked.parameters.get(BINARY_OUTPUT) is True:
        wishes[None] = True
    return wishes
