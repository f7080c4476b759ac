"""Engine `python`: a `model.py` with a class `Model`, written by the user.

    class Model:
        def load(self, context): ...                  # optional
        def predict(self, inputs): ...                # or predict(self, inputs, parameters)

`inputs` is a dict of read-only arrays stacked over rows, `parameters` a list with each row's parameters. `predict`
gives a dict of arrays stacked over rows, or a list with one item a row: a dict of arrays without the batch axis, or
an exception, which is that row's error.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from producer_sdk.tensors import Array
from producer_sdk.wire import Scalar

from .engine import Loaded, LoadFailed, LoadFault, ModelSpec, RowItem, Signature, check_complete
from .faults import line_in, load_failed
from .misfits import check_signature

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Context(Struct, frozen=True):
    """What a model's `load` is told.

    Attributes:
        name: model name.
        version: version directory's name.
        folder: the version directory, where the model's files lie.
        device: `cpu` or `cuda:N`.
        threads: threads that the model may use.
        parameters: `parameters` of model.yaml.
    """

    name: str
    version: str
    folder: Path
    device: str
    threads: int
    parameters: Mapping[str, Any]


class PythonModel:
    """Runs the user's class."""

    def __init__(self) -> None:
        self._predict: Callable[..., Any] | None = None
        self._takes_parameters = False

    def load(self, spec: ModelSpec) -> Loaded:
        check_complete(spec)
        if not spec.inputs or not spec.outputs:
            raise LoadFailed("a python model needs its inputs and outputs declared in model.yaml")
        signature = Signature(spec.inputs, spec.outputs)
        check_signature(signature, spec.batching.cost)
        file = spec.folder / "model.py"
        module = _import(file, f"headrace_model_{spec.name}_{spec.version}")
        model = self._make(module, file, spec)
        self._predict = getattr(model, "predict", None)
        self._takes_parameters = _takes_parameters(self._predict, file)
        return Loaded(signature, "python", spec.max_batch_size)

    def run(
        self, inputs: Mapping[str, Array], parameters: Sequence[Mapping[str, Scalar]]
    ) -> Mapping[str, Array] | Sequence[RowItem]:
        assert self._predict is not None, "load comes first"
        result: Mapping[str, Array] | Sequence[RowItem]
        result = self._predict(inputs, parameters) if self._takes_parameters else self._predict(inputs)
        return result

    def close(self) -> None:
        self._predict = None

    def _make(self, module: ModuleType, file: Path, spec: ModelSpec) -> object:
        """The user's object, loaded."""
        made = getattr(module, "Model", None)
        if not callable(made):
            raise LoadFailed(f"{file} has no class Model")
        context = Context(spec.name, spec.version, spec.folder, spec.device, spec.threads, spec.parameters)
        try:
            model: object = made()
            load = getattr(model, "load", None)
            if load is not None:
                load(context)
        except BaseException as err:
            raise load_failed(err, f"Model in {file}{line_in(file, err)} failed to load") from err
        return model


def _import(file: Path, private_name: str) -> ModuleType:
    """The module, under a name that no other import can meet; its folder comes last on the import path."""
    if not file.is_file():
        raise LoadFailed(f"{file} is not there", LoadFault.PATH)
    found = importlib.util.spec_from_file_location(private_name, file)
    assert found is not None, "a .py file always has a loader"
    assert found.loader is not None, "a .py file always has a loader"
    module = importlib.util.module_from_spec(found)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    sys.modules[private_name] = module
    try:
        found.loader.exec_module(module)
    except BaseException as err:
        del sys.modules[private_name]
        raise load_failed(err, f"{file}{line_in(file, err)} cannot be imported") from err
    return module


def _takes_parameters(predict: object, file: Path) -> bool:
    """Whether `predict` wants the rows' parameters too."""
    if not callable(predict):
        raise LoadFailed(f"class Model in {file} has no method predict(self, inputs)")
    if inspect.iscoroutinefunction(predict) or inspect.isgeneratorfunction(predict):
        raise LoadFailed(f"predict in {file} must be a plain function: write 'def predict', without async and yield")
    taken = list(inspect.signature(predict).parameters.values())
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in taken):
        return True
    needed = [parameter for parameter in taken if parameter.default is parameter.empty and not _is_open(parameter)]
    places = [parameter for parameter in taken if parameter.kind in _POSITIONAL]
    if not places or len(needed) > 2 or any(parameter.kind not in _POSITIONAL for parameter in needed):
        raise LoadFailed(
            f"predict in {file} takes {inspect.signature(predict)}: write predict(self, inputs) or "
            "predict(self, inputs, parameters)"
        )
    return len(needed) == 2 or (len(places) > 1 and places[1].name == "parameters")


def _is_open(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
