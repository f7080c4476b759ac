"""Flags made from a settings class, so that flag, variable, file key and help come from one place."""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_args, get_origin

import typer
from msgspec import Struct

from headrace.cli import Debug
from headrace.known_settings import KNOWN
from producer_sdk.setting import Setting, settings_of
from producer_sdk.settings import load_settings

Settings = TypeVar("Settings", bound=Struct)
Own = ParamSpec("Own")
Verb = Callable[Concatenate[Settings, Own], int]

Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML. [HEADRACE_CONFIG]")]


def verb(
    app: typer.Typer, cls: type[Settings], *, name: str | None = None, epilog: str = ""
) -> Callable[[Verb[Settings, Own]], Verb[Settings, Own]]:
    """Register a function as a command of `app`.

    The function takes the loaded settings, then its own arguments and flags as Typer reads them from its signature; it
    gives the exit code. Each setting becomes a flag, beside `--config` and `--debug`.
    """
    settings = settings_of(cls)

    def register(function: Verb[Settings, Own]) -> Verb[Settings, Own]:
        @functools.wraps(function)
        def command(**values: Any) -> None:
            del values["debug"]
            given = {setting.name: values.pop(setting.name) for setting in settings}
            flags = {name: None if value == [] else value for name, value in given.items()}
            loaded = load_settings(cls, flags, os.environ, values.pop("config"), KNOWN)
            run: Callable[..., int] = function
            raise typer.Exit(run(loaded, **values))

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        flags = [_parameter(setting.name, *_annotation(setting)) for setting in settings]
        common = [_parameter("config", Config, None), _parameter("debug", Debug, False)]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        vars(command)["__signature__"] = inspect.Signature([*parameters, *flags, *common])
        app.command(name, epilog=epilog)(command)
        return function

    return register


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _is_switch(setting: Setting) -> bool:
    return setting.type is bool


def _annotation(setting: Setting) -> tuple[object, object]:
    """The type that Typer reads a setting's flag as, and its default, which means not given."""
    if _is_switch(setting):
        names = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(names, help=_help(setting), show_default=False)], None
    option = typer.Option(setting.flag, metavar=_metavar(setting), help=_help(setting), show_default=False)
    return Annotated[list[str] | None if setting.many else str | None, option], None


def _help(setting: Setting) -> str:
    default = f"; default: {setting.default}" if setting.default else ""
    return f"{setting.description} [{setting.variable}{default}]"


def _metavar(setting: Setting) -> str:
    if get_origin(setting.type) is Literal:
        return "|".join(get_args(setting.type))
    if setting.many:
        return "NAME"
    return {int: "N", float: "F", Path: "DIR"}.get(setting.type, "TEXT")
