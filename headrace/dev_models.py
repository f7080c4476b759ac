"""The models of a development stack: which folder, which of them, and what has become of each."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from msgspec import Struct

from headrace.failure import UsageError
from producer_sdk.announcements import ModelState
from producer_sdk.directory import ModelDirectory, ModelView
from producer_sdk.topics import MODEL_NAME

EXAMPLE_MODELS = Path(__file__).parent / "example_models"
LOOK_AGAIN_S = 0.05
REMIND_EVERY_S = 10.0
HTTP_TIMEOUT_S = 2.0

Say = Callable[[str], None]


class Chosen(Struct, frozen=True):
    """Models to serve, and why others cannot be, by name."""

    names: frozenset[str]
    faults: dict[str, str]


def choose_models(given: Path | None) -> Path:
    """The model directory: the one given, else ./models, else the built-in example.

    Raises:
        UsageError: the one given is no folder.
    """
    if given is not None:
        if not given.is_dir():
            raise UsageError(f"The model directory {given} is no folder: name one that holds a folder for each model.")
        return given.absolute()
    usual = Path("models")
    return usual.absolute() if usual.is_dir() and model_names(usual) else EXAMPLE_MODELS


def model_names(models: Path) -> frozenset[str]:
    """Names of the models in a directory."""
    return frozenset(
        folder.name
        for folder in models.iterdir()
        if folder.is_dir() and MODEL_NAME.fullmatch(folder.name) and not folder.name.startswith("_")
    )


def choose_names(models: Path, wanted: tuple[str, ...]) -> Chosen:
    """The models to serve: those wanted, else all, without those that have a fault.

    Raises:
        UsageError: there is none, or one that is wanted is not there.
    """
    names = model_names(models)
    if not names:
        raise UsageError(f"The model directory {models} holds no model: give each model a folder of its name in it.")
    missing = sorted(set(wanted) - names)
    if missing:
        raise UsageError(
            f"The model directory {models} holds no {', '.join(missing)}, only {', '.join(sorted(names))}."
        )
    names = frozenset(wanted) or names
    faults = {name: reason for name, reason in _faults(models).items() if name in names}
    if len(faults) == len(names):
        raise UsageError("\n".join(["No model can be served:", *faults.values()]))
    return Chosen(names - faults.keys(), faults)


def _faults(models: Path) -> dict[str, str]:
    """What keeps models from being served, by name. Raises UsageError: the directory is none."""
    from workers.check import check_models

    faults: dict[str, str] = {}
    for fault in check_models(models).faults:
        if not fault.fatal:
            continue
        place = Path(fault.file).relative_to(models).parts
        if not place:
            raise UsageError(f"{fault}.")
        faults[place[0]] = "; ".join(filter(None, [faults.get(place[0]), str(fault)]))
    return faults


async def settled(directory: ModelDirectory, names: frozenset[str], say: Say) -> list[ModelView]:
    """The models, in order, once each is ready or has failed; says which are waited for."""
    remind_at = time.monotonic() + REMIND_EVERY_S
    while True:
        known = directory.models()
        views = [known[name] for name in sorted(names) if name in known]
        open_names = names - {view.name for view in views if view.state is not ModelState.LOADING}
        if not open_names:
            return views
        if time.monotonic() >= remind_at:
            say(f"Still loading: {', '.join(sorted(open_names))} ...")
            remind_at += REMIND_EVERY_S
        await asyncio.sleep(LOOK_AGAIN_S)


async def answers(url: str) -> None:
    """Waits until a GET of the URL is answered with success."""
    while not await asyncio.to_thread(_is_ok, url):  # noqa: ASYNC110 - another process has no event for us
        await asyncio.sleep(LOOK_AGAIN_S)


def _is_ok(url: str) -> bool:
    try:
        # A proxy of the environment is for other machines than this one.
        with build_opener(ProxyHandler({})).open(url, timeout=HTTP_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
