"""Reads a .proto file of messages, maps and one-ofs into the classes that its compiler would write."""

import re
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = re.compile(r"(repeated )?(map<string, \w+>|\w+) (\w+) = (\d+);")


def described(path: Path) -> descriptor_pb2.FileDescriptorProto:
    """The file as protobuf describes it."""
    text = re.sub(r"//.*", "", path.read_text())
    package = re.search(r"package (\w+);", text)
    assert package is not None
    file = descriptor_pb2.FileDescriptorProto(name=path.name, package=package[1], syntax="proto3")
    open_messages: list[Any] = [file]
    for line in filter(None, map(str.strip, text.splitlines())):
        message = open_messages[-1]
        if start := re.fullmatch(r"message (\w+) \{", line):
            nested = file.message_type if message is file else message.nested_type
            open_messages.append(nested.add(name=start[1]))
        elif one_of := re.fullmatch(r"oneof (\w+) \{", line):
            message.oneof_decl.add(name=one_of[1])
            open_messages.append(message)
        elif line == "}":
            open_messages.pop()
        elif found := FIELD.fullmatch(line):
            add_field(message, [each.name for each in open_messages[1:]], found, len(open_messages))
    scope = f".{file.package}"
    for message in file.message_type:
        resolve(message, scope, scope, {each.name for each in file.message_type})
    return file


def add_field(message: Any, path: list[str], found: re.Match[str], depth: int) -> None:
    repeated, kind, name, number = found.groups()
    of = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=int(number), label=of.LABEL_REPEATED if repeated else of.LABEL_OPTIONAL)
    if kind.startswith("map"):
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=of.LABEL_OPTIONAL, type=of.TYPE_STRING)
        value = kind.rpartition(" ")[2].rstrip(">")
        entry.field.add(name="value", number=2, label=of.LABEL_OPTIONAL, type=of.TYPE_MESSAGE, type_name=value)
        field.label, field.type, field.type_name = of.LABEL_REPEATED, of.TYPE_MESSAGE, entry.name
    elif kind[0].isupper():
        field.type, field.type_name = of.TYPE_MESSAGE, kind
    else:
        field.type = of.Type.Value(f"TYPE_{kind.upper()}")
    if len(path) > len(set(path)):  # within a oneof, whose message is open twice
        field.oneof_index = 0


def resolve(message: Any, scope: str, package: str, top: set[str]) -> None:
    """Types by their full names: of the file, else of this message."""
    own = f"{scope}.{message.name}"
    for field in message.field:
        if field.type_name:
            field.type_name = f"{package if field.type_name in top else own}.{field.type_name}"
    for nested in message.nested_type:
        resolve(nested, own, package, top)


def classes(path: Path) -> dict[str, Any]:
    """The message classes of a file by name."""
    file, pool = described(path), descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in names
    }
