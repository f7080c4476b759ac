"""Names that people bring from other inference servers, by verb: which setting each means here, or why it has none."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from producer_sdk.setting import Setting, SettingsError


class OtherNames(Struct, frozen=True):
    """Those of one verb.

    Attributes:
        flags: setting by flag.
        variables: setting by environment variable; the setting's own HEADRACE_ variable wins over it.
        refused: what to do instead, by flag.
    """

    flags: Mapping[str, str] = {}
    variables: Mapping[str, str] = {}
    refused: Mapping[str, str] = {}


_MODELS = {"--model-path": "models", "--model-dir": "models"}
_HTTP = "a worker takes requests from Kafka, HTTP is served by headrace gateway"
_WORKER = OtherNames(
    flags={**_MODELS, "--workers": "replicas"},
    variables={"MODEL_PATH": "models", "BATCH_SIZE": "max_batch_size"},
    refused={
        "--host": f"{_HTTP}. The address of health and metrics is --admin-host",
        "--port": f"{_HTTP}. The port of health and metrics is --admin-port",
        "--max-workers": "a worker runs batches, not a thread for each request: --replicas are the runners of a model "
        "beside each other, and how many requests are held at once is --max-inflight of headrace gateway",
    },
)
_NOT_THE_GATEWAYS = "it takes the flags of headrace worker; those of headrace gateway are not needed"
_NO_MODELS = "a gateway learns of models from the workers: give it to headrace worker"
OTHER_NAMES = {
    "worker": _WORKER,
    "doctor": OtherNames(_WORKER.flags, _WORKER.variables, dict.fromkeys(_WORKER.refused, _NOT_THE_GATEWAYS)),
    "gateway": OtherNames(
        flags={"--max-workers": "max_inflight"},
        variables={"MAX_CONCURRENT": "max_inflight"},
        refused={
            "--model-path": _NO_MODELS,
            "--model-dir": _NO_MODELS,
            "--device": _NO_MODELS,
            "--workers": "a gateway is one process: start as many of them as there are to be, behind a load balancer",
        },
    ),
    "dev": OtherNames(
        flags=_MODELS,
        variables={"MODEL_PATH": "models"},
        refused={
            "--host": "the development stack listens on 127.0.0.1 alone: for others to reach it run headrace gateway",
            "--workers": "the worker that it starts reads HEADRACE_REPLICAS",
            "--max-workers": "the gateway that it starts reads HEADRACE_MAX_INFLIGHT",
            "--device": "the worker that it starts reads HEADRACE_DEVICE",
            "--log-level": "it shows warnings of what it starts; run headrace worker by itself for more",
        },
    ),
}
NONE = OtherNames()


def names_in_help(setting: Setting, others: OtherNames) -> str:
    """As ` Also --model-path, MODEL_PATH.`; "" where there are none."""
    also = [
        name for names in (others.flags, others.variables) for name, meant in names.items() if meant == setting.name
    ]
    return f" Also {', '.join(also)}." if also else ""


def field_of(flag: str) -> str:
    """The name under which the value of such a flag is kept."""
    return f"other_{flag.removeprefix('--').replace('-', '_')}"


def merge_flags(verb: str, others: OtherNames, settings: Iterable[Setting], given: dict[str, object]) -> None:
    """Take the values of other flags out of `given`, and put them where they belong.

    Raises:
        SettingsError: a flag has no meaning here, or two that mean the same have different values.
    """
    for flag, instead in others.refused.items():
        if given.pop(field_of(flag)) is not None:
            raise SettingsError(f"headrace {verb} has no {flag}: {instead}.")
    by_name = {setting.name: setting for setting in settings}
    said: dict[str, str] = {name: by_name[name].flag for name in set(others.flags.values()) if given[name] is not None}
    for flag, name in others.flags.items():
        value = given.pop(field_of(flag))
        if value is None:
            continue
        if name in said and given[name] != value:
            raise SettingsError(
                f"{said[name]} is {given[name]!r} and {flag} is {value!r}: they mean the same, give one."
            )
        given[name], said[name] = value, flag


def merge_variables(others: OtherNames, settings: Iterable[Setting], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the values of other variables under headrace's own names where those are not set.

    Raises:
        SettingsError: a value is not what the setting takes; the message names the variable that holds it.
    """
    merged = dict(environ)
    by_name = {setting.name: setting for setting in settings}
    for variable, name in others.variables.items():
        text, setting = environ.get(variable), by_name[name]
        if text and not environ.get(setting.variable):
            setting.read(text, variable)
            merged[setting.variable] = text
    return merged
