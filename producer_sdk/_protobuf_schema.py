"""The messages of the Open Inference Protocol in protobuf, made here: no compiler is needed. schemas/oip.v1.proto
shows them to people.

They lie in a pool of their own, so that a program may have the same messages from elsewhere (tritonclient, KServe).
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "inference"
_PARAMETERS = "map<string, InferParameter>"
_TENSOR = (
    ("string", "name", 1),
    ("string", "datatype", 2),
    ("int64[]", "shape", 3),
    (_PARAMETERS, "parameters", 4),
    ("InferTensorContents", "contents", 5),
)
# Fields by message, each as type, name, number. Dotted names are messages within another.
MESSAGES: dict[str, tuple[tuple[str, str, int], ...]] = {
    "InferParameter": (
        ("bool", "bool_param", 1),
        ("int64", "int64_param", 2),
        ("string", "string_param", 3),
        ("double", "double_param", 4),
        ("uint64", "uint64_param", 5),
    ),
    "InferTensorContents": (
        ("bool[]", "bool_contents", 1),
        ("int32[]", "int_contents", 2),
        ("int64[]", "int64_contents", 3),
        ("uint32[]", "uint_contents", 4),
        ("uint64[]", "uint64_contents", 5),
        ("float[]", "fp32_contents", 6),
        ("double[]", "fp64_contents", 7),
        ("bytes[]", "bytes_contents", 8),
    ),
    "ModelInferRequest": (
        ("string", "model_name", 1),
        ("string", "model_version", 2),
        ("string", "id", 3),
        (_PARAMETERS, "parameters", 4),
        ("ModelInferRequest.InferInputTensor[]", "inputs", 5),
        ("ModelInferRequest.InferRequestedOutputTensor[]", "outputs", 6),
        ("bytes[]", "raw_input_contents", 7),
    ),
    "ModelInferRequest.InferInputTensor": _TENSOR,
    "ModelInferRequest.InferRequestedOutputTensor": (("string", "name", 1), (_PARAMETERS, "parameters", 2)),
    "ModelInferResponse": (
        ("string", "model_name", 1),
        ("string", "model_version", 2),
        ("string", "id", 3),
        (_PARAMETERS, "parameters", 4),
        ("ModelInferResponse.InferOutputTensor[]", "outputs", 5),
        ("bytes[]", "raw_output_contents", 6),
    ),
    "ModelInferResponse.InferOutputTensor": _TENSOR,
}
ONE_OF = {"InferParameter": "parameter_choice"}


def file_descriptor() -> descriptor_pb2.FileDescriptorProto:
    """The messages as protobuf's own description of a file."""
    file = descriptor_pb2.FileDescriptorProto(name="headrace/oip.v1.proto", package=_PACKAGE, syntax="proto3")
    made: dict[str, Any] = {}
    for name, fields in MESSAGES.items():
        outer, _, inner = name.rpartition(".")
        message = made[outer].nested_type.add() if outer else file.message_type.add()
        message.name, made[name] = inner, message
        if name in ONE_OF:
            message.oneof_decl.add(name=ONE_OF[name])
        for kind, field, number in fields:
            _add(message, name, kind, field, number)
    return file


def _add(message: Any, owner: str, kind: str, name: str, number: int) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if owner in ONE_OF:
        field.oneof_index = 0
    if kind == _PARAMETERS:
        _add_map_entry(message, owner, field)
        return
    if kind.endswith("[]"):
        kind, field.label = kind.removesuffix("[]"), _Field.LABEL_REPEATED
    _set_type(field, kind)


def _add_map_entry(message: Any, owner: str, field: Any) -> None:
    """A map is a repeated message of key and value."""
    entry = message.nested_type.add(name="ParametersEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    _set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), "InferParameter")
    field.label = _Field.LABEL_REPEATED
    _set_type(field, f"{owner}.ParametersEntry")


def _set_type(field: Any, kind: str) -> None:
    if kind[0].isupper():
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")


_pool = descriptor_pool.DescriptorPool()
_pool.Add(file_descriptor())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ModelInferRequest = _message("ModelInferRequest")
ModelInferResponse = _message("ModelInferResponse")
