"""How a decoded message is shown in schemas/examples/index.json: plain JSON, tensors as base64 of their wire bytes."""

import base64
from typing import Any

from producer_sdk.dataref import DataRef, S3Prefix
from producer_sdk.errors import HeadraceError
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Refused, Reply, Request


def tensor(value: Tensor) -> dict[str, Any]:
    data = base64.b64encode(value.data).decode()
    return {"datatype": str(value.datatype), "shape": list(value.shape), "base64": data}


def address(value: ReplyTo | None, store: S3Prefix | None) -> dict[str, Any] | None:
    if store is not None:
        return {"bucket": store.bucket, "prefix": store.prefix}
    return None if value is None else value._asdict()


def stored(value: DataRef | None) -> dict[str, Any]:
    """Nothing for a message that is whole."""
    return {} if value is None else {"stored": value.fields()}


def request(value: Request) -> dict[str, Any]:
    return {
        "id": value.id,
        "deadline_ms": value.deadline_ms,
        "reply_to": address(value.reply_to, value.store),
        "tenant": value.tenant,
        "version": value.version,
        "parameters": value.parameters,
        "outputs": None if value.outputs is None else list(value.outputs),
        "inputs": {name: tensor(item) for name, item in value.inputs.items()},
        **stored(value.ref),
    }


def message(value: Request | Refused | Reply | HeadraceError) -> dict[str, Any]:
    match value:
        case Request():
            return request(value)
        case Refused():
            return {"id": value.id, "reply_to": address(value.reply_to, value.store), "code": str(value.error.code)}
        case HeadraceError():
            return {"id": value.id, "code": str(value.code), "error": value.message, **stored(value.ref)}
    outputs = {name: tensor(Tensor.from_array(array)) for name, array in value.outputs.items()}
    found = {"id": value.id, "model": value.model, "version": value.version}
    return {**found, "parameters": value.parameters, "outputs": outputs, **stored(value.ref)}
