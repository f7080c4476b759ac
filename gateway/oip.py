"""Open Inference Protocol v2 over HTTP: `POST /v2/models/{m}[/versions/{v}]/infer` with JSON tensors."""

from __future__ import annotations

from msgspec.structs import replace

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import encode_json_reply, read_infer_body
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Reply

from .aside import aside
from .ask import Ask, options_over_http, read_id, shortened
from .call import Call
from .models import Models, Served

TIMEOUT = "timeout"


class OipSurface:
    """Reads and writes bodies of the protocol.

    Triton's request parameter `timeout` shortens the deadline; its others, `priority` among them, go to the model.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    async def read(self, call: Call, body: bytes, served: Served | None) -> Ask:
        """Raises HeadraceError: the body is none of the protocol, contradicts the path, or asks for another version."""
        assert served is not None
        asked = await aside(len(body), read_infer_body, body)
        call.id = read_id(asked.id, call.id)
        if asked.ref is not None:
            raise InvalidRequest("dataref is not taken over HTTP: send the inputs, however large, or publish to Kafka")
        options = options_over_http(asked.parameters, call.url_version)
        if TIMEOUT in options.parameters:
            rest = {name: value for name, value in options.parameters.items() if name != TIMEOUT}
            deadline_s = shortened(options.deadline_s, options.parameters[TIMEOUT])
            options = replace(options, deadline_s=deadline_s, parameters=rest)
        if options.version != call.url_version:
            served = await self._models.serving(call, served.name, options.version)
        return Ask(call.id, served, asked.inputs, options, asked.outputs)

    def write(self, call: Call, ask: Ask, reply: Reply) -> bytes:
        outputs = {name: Tensor.from_array(array) for name, array in reply.outputs.items()}
        return encode_json_reply(reply.id, reply.model, reply.version, outputs, reply.parameters)
