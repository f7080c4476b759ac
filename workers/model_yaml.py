"""Reads YAML strictly: no duplicate keys, no dates made of text, a size limit; every fault has its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 1024 * 1024


class NotReadable(Exception):
    """The file is not a YAML map; the message says why and where."""


class _StrictLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Safe YAML in which a key may stand once, and text that looks like a date stays text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML reads the class attribute)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is there twice", key.start_mark)
            seen.add(str(key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(file: Path) -> dict[str, Any]:
    """The map in the file; an empty file is an empty map.

    Raises:
        NotReadable: it cannot be read, is broken, or holds something else.
    """
    try:
        raw = file.read_bytes()
        if len(raw) > MAX_BYTES:
            raise NotReadable(f"is larger than {MAX_BYTES} bytes")
        content = yaml.load(raw.decode("utf-8"), _StrictLoader)
    except OSError as err:
        raise NotReadable(f"cannot be read: {err.strerror}") from err
    except UnicodeDecodeError as err:
        raise NotReadable(f"is not UTF-8 text: {err}") from err
    except RecursionError as err:
        raise NotReadable("is nested too deeply") from err
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise NotReadable(f"is broken YAML: {where}{err.problem or err.context}") from err
    except (yaml.YAMLError, ValueError) as err:
        raise NotReadable(f"is broken YAML: {err}") from err
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise NotReadable("must hold `key: value` lines, the keys being text")
    return content
