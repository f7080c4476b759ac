"""Flags made from a settings class, so that flag, variable, file key and help come from one place."""

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_args, get_origin

import typer
from msgspec import Struct

from headrace.cli import Debug
from headrace.known_settings import KNOWN
from headrace.other_names import NONE, OTHER_NAMES, OtherNames, field_of, merge_flags, merge_variables, names_in_help
from producer_sdk.setting import Setting, SettingsError, settings_of
from producer_sdk.settings import load_settings

Settings = TypeVar("Settings", bound=Struct)
Own = ParamSpec("Own")
Verb = Callable[Concatenate[Settings, Own], int]

Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML. [HEADRACE_CONFIG]")]


def verb(
    app: typer.Typer,
    cls: type[Settings],
    *,
    name: str | None = None,
    epilog: str = "",
    hides: Collection[str] = (),
) -> Callable[[Verb[Settings, Own]], Verb[Settings, Own]]:
    """Register a function as a command of `app`.

    The function takes the loaded settings, then its own arguments and flags as Typer reads them from its signature; it
    gives the exit code. Each setting becomes a flag, beside `--config` and `--debug`; the help leaves out those that
    `hides` names, which mean nothing to this verb.
    """
    settings = settings_of(cls)

    # Names from elsewhere are looked up by the verb's own, which is that of its function.
    def register(function: Verb[Settings, Own]) -> Verb[Settings, Own]:
        verb_name = name or function.__name__
        others = OTHER_NAMES.get(verb_name, NONE)

        @functools.wraps(function)
        def command(**values: Any) -> None:
            del values["debug"]
            names = [setting.name for setting in settings] + [field_of(flag) for flag in _flags_of(others)]
            given = {each: values.pop(each) for each in names}
            check_none_is_for_all_to_see(settings, given)
            merge_flags(verb_name, others, settings, given)
            flags = {each: None if value == [] else value for each, value in given.items()}
            environ = merge_variables(others, settings, os.environ)
            loaded = load_settings(cls, flags, environ, values.pop("config"), KNOWN)
            run: Callable[..., int] = function
            raise typer.Exit(run(loaded, **values))

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        flags = [_parameter(setting.name, *_annotation(setting, others, hides)) for setting in settings]
        flags += [_parameter(field_of(flag), _hidden(flag), None) for flag in _flags_of(others)]
        common = [_parameter("config", Config, None), _parameter("debug", Debug, False)]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        vars(command)["__signature__"] = inspect.Signature([*parameters, *flags, *common])
        app.command(name, epilog=epilog)(command)
        return function

    return register


def check_none_is_for_all_to_see(settings: Iterable[Setting], given: Mapping[str, object]) -> None:
    """Raises SettingsError: a secret stands on the command line, which other users of the machine can read."""
    for setting in settings:
        if not setting.has_flag and given[setting.name] is not None:
            raise SettingsError(
                f"{setting.flag} is no flag, as the list of processes would show its value: "
                f"set {setting.variable}, or {setting.name} in a file that --config names."
            )


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _is_switch(setting: Setting) -> bool:
    return setting.type is bool


def _flags_of(others: OtherNames) -> list[str]:
    return [*others.flags, *others.refused]


def _hidden(flag: str) -> object:
    """A flag that the help tells of elsewhere: beside the setting that it means, or when it is used."""
    return Annotated[str | None, typer.Option(flag, hidden=True)]


def _annotation(setting: Setting, others: OtherNames, hides: Collection[str]) -> tuple[object, object]:
    """The type that Typer reads a setting's flag as, and its default, which means not given."""
    help_text = _help(setting, names_in_help(setting, others))
    if _is_switch(setting):
        names = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(names, help=help_text, show_default=False)], None
    option = typer.Option(
        setting.flag,
        metavar=_metavar(setting),
        help=help_text,
        show_default=False,
        hidden=not setting.has_flag or setting.name in hides,
    )
    return Annotated[list[str] | None if setting.many else str | None, option], None


def _help(setting: Setting, also: str) -> str:
    default = f"; default: {setting.default}" if setting.default else ""
    return f"{setting.description}{also} [{setting.variable}{default}]"


def _metavar(setting: Setting) -> str:
    if get_origin(setting.type) is Literal:
        return "|".join(get_args(setting.type))
    if setting.many:
        return "NAME"
    return {int: "N", float: "F", Path: "DIR"}.get(setting.type, "TEXT")
