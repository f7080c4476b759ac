"""A client of another maker: written from docs/wire.md and schemas/ alone, with the plain msgpack package.

It shows messages the way schemas/examples/index.json does.
"""

import base64
import json
import math
import struct
from typing import Any

import msgpack

# Section 3: datatype codes, and how struct packs an element. BF16 and BYTES have no letter.
DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]
DATATYPES += ["BYTES", "BF16"]
LETTERS = dict(zip(DATATYPES, "?BHIQbhiqefd", strict=False))
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def shown(datatype: str, shape: list[int], data: bytes) -> dict[str, Any]:
    return {"datatype": datatype, "shape": shape, "base64": base64.b64encode(data).decode()}


def read_tensor(code: int, body: bytes) -> Any:
    """Section 4: the body of ext type 1."""
    if code != 1:
        return msgpack.ExtType(code, body)
    dimensions = body[1]
    shape = list(struct.unpack_from(f"<{dimensions}I", body, 2))
    return shown(DATATYPES[body[0] - 1], shape, body[2 + 4 * dimensions :])


def write_tensor(tensor: dict[str, Any]) -> msgpack.ExtType:
    shape = tensor["shape"]
    code = DATATYPES.index(tensor["datatype"]) + 1
    head = struct.pack(f"<BB{len(shape)}I", code, len(shape), *shape)
    return msgpack.ExtType(1, head + base64.b64decode(tensor["base64"]))


def address(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    if text.startswith("s3://"):
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        return {"bucket": bucket, "prefix": prefix}
    topic, _, partition = text.partition(":")
    return {"topic": topic, "partition": int(partition) if partition else None}


def address_text(found: dict[str, Any] | None) -> str | None:
    if found is not None and "bucket" in found:
        return f"s3://{found['bucket']}/{found['prefix']}"
    if found is None or found["partition"] is None:
        return found and found["topic"]
    return f"{found['topic']}:{found['partition']}"


def stored(fields: Any) -> dict[str, Any]:
    """The keys of a reference among others: nothing for a message that is whole."""
    if not isinstance(fields, dict) or fields.get("dataref") is None:
        return {}
    names = ("dataref", "sha256", "bytes", "expires_ms")
    return {"stored": {name: fields[name] for name in names if fields.get(name) is not None}}


def unpacked(value: bytes) -> list[Any]:
    elements = msgpack.unpackb(value, ext_hook=read_tensor)
    assert elements[0] == 1
    return list(elements)


def read_msgpack_request(value: bytes, fallback_id: str, _timestamp_ms: int) -> dict[str, Any]:
    id, deadline_ms, reply_to, tenant, version, parameters, outputs, inputs, ref = [*unpacked(value)[1:10], None][:9]
    return {
        "id": fallback_id if id is None else id,
        "deadline_ms": deadline_ms,
        "reply_to": address(reply_to),
        "tenant": tenant,
        "version": version,
        "parameters": parameters or {},
        "outputs": outputs,
        "inputs": inputs or {},
        **stored(ref),
    }


def write_msgpack_request(found: dict[str, Any]) -> bytes:
    inputs = {name: write_tensor(tensor) for name, tensor in found["inputs"].items()}
    head = [1, found["id"], found["deadline_ms"], address_text(found["reply_to"]), found["tenant"], found["version"]]
    last = [found["stored"]] if "stored" in found else []
    return bytes(msgpack.packb([*head, found["parameters"], found["outputs"], inputs, *last]))


def read_msgpack_reply(value: bytes) -> dict[str, Any]:
    _, id, model, version, code, error, parameters, outputs, ref = [*unpacked(value)[:9], None][:9]
    if code is not None:
        return {"id": id, "code": code, "error": error, **stored(ref)}
    found = {"id": id, "model": model, "version": version}
    return {**found, "parameters": parameters, "outputs": outputs, **stored(ref)}


def element_bytes(datatype: str, element: Any, is_base64: bool) -> bytes:
    """Section 6: one element of data."""
    if datatype == "BYTES":
        raw = base64.b64decode(element) if is_base64 else element.encode()
        return struct.pack("<I", len(raw)) + bytes(raw)
    if isinstance(element, str):
        element = SPECIAL[element] if element in SPECIAL else int(element)
    if datatype == "BF16":
        return struct.pack("<f", element)[2:]
    return struct.pack("<" + LETTERS[datatype], element)


def flat(data: Any) -> list[Any]:
    return [element for part in data for element in flat(part)] if isinstance(data, list) else [data]


def read_json_tensor(item: dict[str, Any]) -> dict[str, Any]:
    is_base64 = (item.get("parameters") or {}).get("content_type") == "base64"
    data = b"".join(element_bytes(item["datatype"], element, is_base64) for element in flat(item["data"]))
    return shown(item["datatype"], item["shape"], data)


def read_json_request(value: bytes, fallback_id: str, timestamp_ms: int) -> dict[str, Any]:
    body = json.loads(value.decode("utf-8-sig"))
    parameters = dict(body.get("parameters") or {})
    reply_to, deadline_s = parameters.pop("reply_to", None), parameters.pop("deadline_s", None)
    tenant, version = parameters.pop("tenant", None), parameters.pop("version", None)
    return {
        "id": body.get("id") or fallback_id,
        "deadline_ms": None if deadline_s is None else timestamp_ms + round(deadline_s * 1000),
        "reply_to": address(reply_to),
        "tenant": tenant,
        "version": version,
        "parameters": parameters,
        "outputs": [wanted["name"] for wanted in body.get("outputs") or ()] or None,
        "inputs": {item["name"]: read_json_tensor(item) for item in body.get("inputs") or ()},
        **stored(body),
    }


def write_json_element(datatype: str, data: bytes) -> Any:
    if datatype == "BF16":
        (value,) = struct.unpack("<f", b"\x00\x00" + data)
    else:
        (value,) = struct.unpack("<" + LETTERS[datatype], data)
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def write_json_tensor(name: str, tensor: dict[str, Any]) -> dict[str, Any]:
    """BYTES always as base64: section 6 lets the writer choose."""
    datatype, raw = tensor["datatype"], base64.b64decode(tensor["base64"])
    item = {"name": name, "datatype": datatype, "shape": tensor["shape"]}
    if datatype != "BYTES":
        size = 2 if datatype == "BF16" else struct.calcsize("<" + LETTERS[datatype])
        parts = [raw[at : at + size] for at in range(0, len(raw), size)]
        return item | {"data": [write_json_element(datatype, part) for part in parts]}
    texts = []
    while raw:
        (size,) = struct.unpack_from("<I", raw)
        texts.append(base64.b64encode(raw[4 : 4 + size]).decode())
        raw = raw[4 + size :]
    return item | {"parameters": {"content_type": "base64"}, "data": texts}


def write_json_request(found: dict[str, Any], timestamp_ms: int) -> bytes:
    deadline_ms = found["deadline_ms"]
    options = {
        "reply_to": address_text(found["reply_to"]),
        "deadline_s": None if deadline_ms is None else (deadline_ms - timestamp_ms) / 1000,
        "tenant": found["tenant"],
        "version": found["version"],
    }
    given = {name: value for name, value in options.items() if value is not None}
    body: dict[str, Any] = {"id": found["id"], "parameters": found["parameters"] | given}
    body |= found.get("stored", {})
    body["inputs"] = [write_json_tensor(name, tensor) for name, tensor in found["inputs"].items()]
    if found["outputs"]:
        body["outputs"] = [{"name": name} for name in found["outputs"]]
    return json.dumps(body, allow_nan=False).encode()


def read_json_reply(value: bytes) -> dict[str, Any]:
    body = json.loads(value)
    if "error" in body:
        return {**{name: body[name] for name in ("id", "code", "error")}, **stored(body)}
    outputs = {item["name"]: read_json_tensor(item) for item in body["outputs"]}
    found = {"id": body["id"], "model": body["model_name"], "version": body["model_version"]}
    return {**found, "parameters": body["parameters"], "outputs": outputs, **stored(body)}


def read_request(value: bytes, fallback_id: str, timestamp_ms: int) -> dict[str, Any]:
    is_array = 0x90 <= value[0] <= 0x9F or value[0] in (0xDC, 0xDD)
    return (read_msgpack_request if is_array else read_json_request)(value, fallback_id, timestamp_ms)


def read_reply(value: bytes) -> dict[str, Any]:
    return read_json_reply(value) if value[:1] == b"{" else read_msgpack_reply(value)
