"""Open Inference Protocol v2 over HTTP: `POST /v2/models/{m}[/versions/{v}]/infer` with JSON tensors."""

from __future__ import annotations

from msgspec.structs import replace

from producer_sdk.oip import encode_json_reply, read_infer_body
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Reply

from .ask import Ask, options_over_http, read_id, shortened
from .call import Call
from .models import Served

TIMEOUT = "timeout"


class OipSurface:
    """Reads and writes bodies of the protocol.

    Triton's request parameter `timeout` shortens the deadline; its others, `priority` among them, go to the model.
    """

    async def read(self, call: Call, body: bytes) -> Ask:
        """Raises InvalidRequest: the body is none of the protocol, or its parameters contradict the path."""
        assert call.model is not None
        asked = read_infer_body(body)
        call.id = read_id(asked.id, call.id)
        options = options_over_http(asked.parameters, call.url_version)
        if TIMEOUT in options.parameters:
            rest = {name: value for name, value in options.parameters.items() if name != TIMEOUT}
            deadline_s = shortened(options.deadline_s, options.parameters[TIMEOUT])
            options = replace(options, deadline_s=deadline_s, parameters=rest)
        return Ask(call.id, call.model, asked.inputs, options, asked.outputs)

    def write(self, call: Call, served: Served, reply: Reply) -> bytes:
        outputs = {name: Tensor.from_array(array) for name, array in reply.outputs.items()}
        return encode_json_reply(reply.id, reply.model, reply.version, outputs, reply.parameters)
