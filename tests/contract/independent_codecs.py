"""Clients of another maker for the codecs: protobuf by schemas/oip.v1.proto, FlatBuffers by its runtime's reader."""

import struct
from pathlib import Path
from typing import Any

import flatbuffers
from flatbuffers import number_types as kinds
from flatbuffers.table import Table
from independent_reader import DATATYPES, address, address_text, shown, stored
from proto_file import classes

MESSAGES = classes(Path(__file__).resolve().parents[2] / "schemas/oip.v1.proto")
FIELD = {"FP32": "fp32_contents"}


def read_request(form: str, value: bytes, fallback_id: str, timestamp_ms: int) -> dict[str, Any]:
    asked = protobuf_request(value) if form == "protobuf" else flat_request(value)
    parameters = asked.pop("parameters")
    deadline_s = parameters.pop("deadline_s", None)
    version = parameters.pop("version", None) or asked.pop("version", None) or None
    return {
        "id": asked["id"] or fallback_id,
        "deadline_ms": None if deadline_s is None else timestamp_ms + round(deadline_s * 1000),
        "reply_to": address(parameters.pop("reply_to", None)),
        "tenant": parameters.pop("tenant", None),
        "version": version,
        "parameters": parameters,
        "outputs": asked["outputs"] or None,
        "inputs": asked["inputs"],
        **stored(asked["ref"]),
    }


def read_reply(form: str, value: bytes) -> dict[str, Any]:
    told = protobuf_reply(value) if form == "protobuf" else flat_reply(value)
    ref, code, error = told.pop("ref"), told.pop("code"), told.pop("error")
    if code is not None:
        return {"id": told["id"], "code": code, "error": error, **stored(ref)}
    return {**told, **stored(ref)}


def protobuf_request(value: bytes) -> dict[str, Any]:
    message = MESSAGES["ModelInferRequest"].FromString(value)
    parameters, ours = sorted_out(message.parameters)
    return {
        "id": message.id,
        "version": message.model_version,
        "parameters": parameters,
        "outputs": [each.name for each in message.outputs],
        "inputs": tensors(message.inputs, message.raw_input_contents),
        "ref": ours,
    }


def protobuf_reply(value: bytes) -> dict[str, Any]:
    message = MESSAGES["ModelInferResponse"].FromString(value)
    parameters, ours = sorted_out(message.parameters)
    return {
        "id": message.id,
        "model": message.model_name,
        "version": message.model_version,
        "parameters": parameters,
        "outputs": tensors(message.outputs, message.raw_output_contents),
        "code": ours.pop("code", None),
        "error": ours.pop("error", None),
        "ref": ours,
    }


def sorted_out(parameters: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of people, and those that begin headrace_, without that."""
    found = {name: getattr(each, each.WhichOneof("parameter_choice")) for name, each in parameters.items()}
    ours = {name.removeprefix("headrace_"): found.pop(name) for name in list(found) if name.startswith("headrace_")}
    return found, ours


def tensors(items: Any, raw: Any) -> dict[str, Any]:
    return {
        item.name: shown(item.datatype, list(item.shape), raw[place] if raw else typed(item))
        for place, item in enumerate(items)
    }


def typed(item: Any) -> bytes:
    if item.datatype == "BYTES":
        return b"".join(struct.pack("<I", len(each)) + each for each in item.contents.bytes_contents)
    elements = getattr(item.contents, FIELD[item.datatype])
    return struct.pack(f"<{len(elements)}f", *elements)


def write_protobuf_request(found: dict[str, Any], timestamp_ms: int, raw_of: Any) -> bytes:
    message = MESSAGES["ModelInferRequest"](id=found["id"], model_name="any", model_version=found["version"] or "")
    told = found["parameters"] | {"tenant": found["tenant"], "reply_to": address_text(found["reply_to"])}
    if found["deadline_ms"] is not None:
        told["deadline_s"] = (found["deadline_ms"] - timestamp_ms) / 1000
    told |= {f"headrace_{name}": each for name, each in found.get("stored", {}).items()}
    for name, each in told.items():
        kind = {bool: "bool_param", int: "uint64_param", float: "double_param", str: "string_param"}.get(type(each))
        if kind is not None:
            setattr(message.parameters[name], kind, each)
    for name, tensor in found["inputs"].items():
        message.inputs.add(name=name, datatype=tensor["datatype"], shape=tensor["shape"])
        message.raw_input_contents.append(raw_of(tensor))
    for name in found["outputs"] or ():
        message.outputs.add(name=name)
    return bytes(message.SerializeToString())


class Flat:
    """A table by the runtime's own accessors, which trust what they read."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def root(cls, value: bytes, identifier: bytes) -> "Flat":
        assert flatbuffers.util.BufferHasIdentifier(value, 0, identifier)
        return cls(Table(value, flatbuffers.encode.Get(flatbuffers.packer.uoffset, value, 0)))

    def at(self, field: int) -> int | None:
        offset = self.table.Offset(4 + 2 * field)
        return self.table.Pos + offset if offset else None

    def number(self, field: int, kind: Any, default: Any = 0) -> Any:
        at = self.at(field)
        return default if at is None else self.table.Get(kind, at)

    def text(self, field: int) -> str | None:
        at = self.at(field)
        return None if at is None else self.table.String(at).decode()

    def one(self, field: int) -> "Flat | None":
        at = self.at(field)
        return None if at is None else Flat(Table(self.table.Bytes, self.table.Indirect(at)))

    def places(self, field: int, size: int) -> list[int]:
        offset = self.table.Offset(4 + 2 * field)
        start = self.table.Vector(offset) if offset else 0
        return [start + size * n for n in range(self.table.VectorLen(offset))] if offset else []

    def many(self, field: int) -> list["Flat"]:
        return [Flat(Table(self.table.Bytes, self.table.Indirect(at))) for at in self.places(field, 4)]


def flat_request(value: bytes) -> dict[str, Any]:
    root = Flat.root(value, b"HRQ1")
    outputs = [root.table.String(at).decode() for at in root.places(3, 4)]
    return {
        "id": root.text(0),
        "parameters": flat_parameters(root.many(1)),
        "inputs": flat_tensors(root.many(2)),
        "outputs": outputs,
        "ref": flat_reference(root.one(4)),
    }


def flat_reply(value: bytes) -> dict[str, Any]:
    root = Flat.root(value, b"HRP1")
    names = ("id", "model", "version", "code", "error")
    return {
        **{name: root.text(field) for field, name in enumerate(names)},
        "parameters": flat_parameters(root.many(5)),
        "outputs": flat_tensors(root.many(6)),
        "ref": flat_reference(root.one(7)),
    }


def flat_parameters(found: list[Flat]) -> dict[str, Any]:
    return {str(each.text(0)): flat_value(each) for each in found}


def flat_value(each: Flat) -> Any:
    match each.number(1, kinds.Uint8Flags):
        case 1:
            return each.text(2)
        case 2:
            return bool(each.number(3, kinds.BoolFlags))
        case 3:
            return each.number(4, kinds.Int64Flags)
        case 4:
            return each.number(5, kinds.Uint64Flags)
    return each.number(6, kinds.Float64Flags)


def flat_tensors(found: list[Flat]) -> dict[str, Any]:
    return {
        str(each.text(0)): shown(
            DATATYPES[each.number(1, kinds.Uint8Flags) - 1],
            [each.table.Get(kinds.Uint32Flags, at) for at in each.places(2, 4)],
            bytes(each.table.Bytes[at] for at in each.places(3, 1)),
        )
        for each in found
    }


def flat_reference(ref: Flat | None) -> dict[str, Any]:
    if ref is None:
        return {}
    numbers = {"bytes": ref.number(2, kinds.Int64Flags, -1), "expires_ms": ref.number(3, kinds.Int64Flags, -1)}
    texts = {"dataref": ref.text(0), "sha256": ref.text(1)}
    return texts | {name: number for name, number in numbers.items() if number != -1}
