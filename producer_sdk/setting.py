"""One setting: a field of a settings Struct as people meet it, as flag, variable and line of the docs."""

from __future__ import annotations

import math
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct

SHOWN_CHARS = 80


class SettingsError(ValueError):
    """The settings are wrong; the message names the key, its value unless secret, and what to do."""


class Setting(Struct, frozen=True):
    """A field of a settings class.

    Attributes:
        name: of the field; flag, variable and file key follow from it.
        type: of one value, without None and without the tuple around it.
        many: takes several values (a tuple): a repeated flag, commas in a variable, a list in a file.
        default: as text for people; empty where there is none.
        description: one sentence.
        secret: its value is never shown.
        has_flag: may be given on the command line, where every user of the machine can read it.
        constraints: what msgspec checks.
    """

    name: str
    type: Any
    many: bool
    default: str
    description: str
    secret: bool
    has_flag: bool
    constraints: Meta

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "HEADRACE_" + self.name.upper()

    @property
    def expectation(self) -> str:
        """What a value must be, as `a whole number from 0 to 65535`."""
        if get_origin(self.type) is Literal:
            return "one of " + ", ".join(get_args(self.type))
        kinds = {int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
        return kinds.get(self.type, "text") + self._bounds()

    def _bounds(self) -> str:
        meta = self.constraints
        if meta.pattern is not None:
            return f" that matches {meta.pattern}"
        if meta.min_length is not None:
            return f" of {meta.min_length} or more characters"
        most = "" if meta.le is None else f" to {meta.le}"
        if meta.gt is not None:
            return f" above {meta.gt}" + ("" if meta.le is None else f" and at most {meta.le}")
        if meta.ge is not None:
            return f" from {meta.ge}{most}" if most else f" of at least {meta.ge}"
        return ""

    def read(self, raw: object, where: str, *, typed: bool = False) -> object:
        """The value; `where` names its place for people, `typed` says that text is text and numbers are numbers.

        Raises:
            SettingsError: it is not what the setting takes.
        """
        if not self.many:
            return self._read_one(raw, where, typed)
        if typed and not isinstance(raw, list):
            raise SettingsError(f"{where} is {self._shown(raw)}: give a list.")
        parts = raw.split(",") if isinstance(raw, str) else raw
        assert isinstance(parts, list | tuple)
        cleaned = [part.strip() if isinstance(part, str) else part for part in parts]
        return tuple(self._read_one(part, where, typed) for part in cleaned if part != "")

    def _read_one(self, raw: object, where: str, typed: bool) -> object:
        try:
            value = msgspec.convert(
                raw, Annotated[self.type, self.constraints], strict=typed, dec_hook=lambda kind, text: kind(text)
            )
        except (msgspec.ValidationError, TypeError) as err:
            raise SettingsError(f"{where} is {self._shown(raw)}: give {self.expectation}.") from err
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{where} is {self._shown(raw)}: give {self.expectation}.")
        return value

    def _shown(self, raw: object) -> str:
        return "***" if self.secret else shown(raw)


def shown(value: object) -> str:
    """A value for people, cut to a line."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def settings_of(cls: type[Struct]) -> tuple[Setting, ...]:
    """The settings of a class, in the order of its fields: those of the subclass before those of its base."""
    own = set(cls.__annotations__)
    fields = sorted(msgspec.structs.fields(cls), key=lambda field: field.name not in own)
    return tuple(_setting(field) for field in fields)


def _setting(field: msgspec.structs.FieldInfo) -> Setting:
    type_, meta = field.type, Meta()
    if get_origin(type_) is Annotated:
        type_, meta = get_args(type_)[:2]
    type_ = _without_none(type_)
    many = get_origin(type_) is tuple
    extra = meta.extra or {}
    return Setting(
        name=field.name,
        type=get_args(type_)[0] if many else type_,
        many=many,
        default=str(extra.get("default", _default_text(field.default))),
        description=meta.description or "",
        secret=bool(extra.get("secret")),
        has_flag=bool(extra.get("flag", True)),
        constraints=meta,
    )


def _without_none(type_: Any) -> Any:
    if get_origin(type_) not in (Union, types.UnionType):
        return type_
    return Union[tuple(part for part in get_args(type_) if part is not type(None))]  # noqa: UP007 - built at run time


def _default_text(default: object) -> str:
    if default is NODEFAULT or default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
