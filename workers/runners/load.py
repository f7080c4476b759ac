"""Finds the engine or the runner that a model asks for. Engines are imported only when used."""

from __future__ import annotations

import importlib
import time
from functools import partial
from typing import cast

from msgspec.structs import replace

from .engine import Engine, Loaded, LoadFailed, LoadFault, ModelSpec
from .faults import load_failed
from .fetching import FetchingRunner, LayOut
from .runner import Runner
from .session import Session

DEFAULT_MAX_BATCH_BYTES = 256 * 1024 * 1024
_ENGINES = {"onnxruntime": "onnxrt:OnnxRuntime", "python": "python_model:PythonModel"}
ENGINE_NAMES = tuple(_ENGINES)


def make_engine(name: str) -> Engine:
    """A new engine of that name.

    Raises:
        LoadFailed: no engine has the name.
    """
    if name not in _ENGINES:
        known = ", ".join(ENGINE_NAMES)
        raise LoadFailed(f"engine {name!r} is not known: use one of {known}", LoadFault.DEPENDENCY)
    module, _, attribute = _ENGINES[name].partition(":")
    return cast(Engine, getattr(importlib.import_module(f"{__package__}.{module}"), attribute)())


def make_runner(
    spec: ModelSpec, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES, lay_out: LayOut | None = None
) -> Runner:
    """A new runner of the isolation that the model asks for; `max_batch_bytes` bounds inputs and outputs alike.

    Raises:
        LoadFailed: the isolation is not known.
    """
    if spec.artifacts and lay_out is not None:
        return FetchingRunner(spec, lay_out, partial(make_runner, max_batch_bytes=max_batch_bytes))
    if spec.isolation == "process":
        from .handle import RunnerProcess

        return RunnerProcess(spec, max_batch_bytes=max_batch_bytes)
    if spec.isolation == "inline":
        from .inline import InlineRunner

        return InlineRunner(spec, max_batch_bytes=max_batch_bytes)
    raise LoadFailed(f"isolation {spec.isolation!r} is not known: use 'process' or 'inline'")


def open_session(spec: ModelSpec, max_batch_bytes: int) -> tuple[Session, Loaded, Engine]:
    """Load and warm a model, here and now.

    Raises:
        LoadFailed: it cannot be loaded; the message says why.
    """
    began = time.perf_counter()
    engine = make_engine(spec.engine)
    try:
        loaded = engine.load(spec)
        session = Session(engine, spec, loaded, max_batch_bytes)
    except BaseException as err:
        raise load_failed(err, f"model {spec.name!r} cannot be loaded") from err
    return session, replace(loaded, load_s=time.perf_counter() - began), engine
