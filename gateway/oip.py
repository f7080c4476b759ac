"""Open Inference Protocol v2 over HTTP: `POST /v2/models/{m}[/versions/{v}]/infer` with JSON tensors."""

from __future__ import annotations

from producer_sdk.oip import encode_json_reply, read_infer_body
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Reply

from .ask import Ask, read_id, shortened, take_terms
from .call import Call
from .models import Served


class OipSurface:
    """Reads and writes bodies of the protocol.

    Triton's request parameters: `timeout` shortens the deadline; `binary_data_output` is a wish that is left unmet
    (its clients read JSON answers too); all others, `priority` among them, travel with the request.
    """

    async def read(self, call: Call, body: bytes) -> Ask:
        """Raises InvalidRequest: the body is none of the protocol, or its parameters contradict the path."""
        assert call.model is not None
        asked = read_infer_body(body)
        call.id = read_id(asked.id, call.id)
        parameters = dict(asked.parameters)
        terms = take_terms(parameters, call.url_version)
        parameters.pop("binary_data_output", None)
        return Ask(
            call.id,
            call.model,
            asked.inputs,
            parameters,
            terms.version,
            asked.outputs,
            shortened(terms.deadline_s, parameters.pop("timeout", None)),
            terms.tenant,
        )

    def write(self, call: Call, served: Served, reply: Reply) -> bytes:
        outputs = {name: Tensor.from_array(array) for name, array in reply.outputs.items()}
        return encode_json_reply(reply.id, reply.model, reply.version, outputs, reply.parameters)
