"""Everything that can be told of a model directory without serving it: `headrace models check`."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from .manifest import Fault
from .model_code import code_faults
from .models import Reading, read_models
from .runners.engine import LoadFailed, LoadFault
from .runners.load import make_engine


class FoundModel(Struct, frozen=True):
    """One model of a directory, as far as it can be made out; None where it cannot.

    Attributes:
        model: its name.
        version: the one that would be served.
        engine: what runs it.
        max_batch_size: most rows a batch.
        servable: it has no fatal fault.
    """

    model: str
    version: str | None
    engine: str | None
    max_batch_size: int | None
    servable: bool


class Checked(Struct, frozen=True):
    """What a check has found: models in the order of their names, and every fault, with notes (`fatal` False)."""

    models: tuple[FoundModel, ...]
    faults: tuple[Fault, ...]


def check_models(root: Path, *, deep: bool = False) -> Checked:
    """Look at every model of the directory; no code of a model.py is run. `deep` opens and warms each ONNX file too."""
    readings, faults = read_models(root)
    models: list[FoundModel] = []
    for reading in readings:
        own = [*reading.faults, *_code_faults(reading)]
        size = None if reading.spec is None else reading.spec.max_batch_size
        if deep and reading.spec is not None and reading.spec.engine == "onnxruntime":
            size = _try_load(reading, own)
        is_sound = not any(fault.fatal for fault in own)
        version = None if reading.version is None else reading.version.name
        models.append(FoundModel(reading.folder.name, version, reading.engine, size, is_sound))
        faults += own
    return Checked(tuple(models), tuple(faults))


def _code_faults(reading: Reading) -> list[Fault]:
    """What is wrong with the text of a python model's file; nothing where the file itself is at fault."""
    if reading.engine != "python" or reading.version is None:
        return []
    file = reading.version / "model.py"
    if not file.is_file() or any(fault.file == str(file) for fault in reading.faults):
        return []
    return [Fault(str(file), "", f"line {line}: {reason}") for line, reason in code_faults(file.read_bytes())]


def _try_load(reading: Reading, faults: list[Fault]) -> int | None:
    """Open and warm up an ONNX file; adds what is wrong to `faults`, gives the rows of a batch."""
    spec, place = reading.spec, reading.version
    assert spec is not None
    assert place is not None
    file = str(place / "model.onnx")
    if spec.artifacts:
        reason = "is not opened, for artifacts of the model are in S3: a worker fetches and checks them at its start"
        faults.append(Fault(file, "", reason, fatal=False))
        return spec.max_batch_size
    try:
        engine = make_engine(spec.engine)
        loaded = engine.load(spec)
        engine.close()
    except LoadFailed as err:
        # A package or device that is missing here says nothing of the file.
        reason = err.message.replace(str(spec.folder), str(place))
        faults.append(Fault(file, "", reason, fatal=err.kind is not LoadFault.DEPENDENCY))
        return spec.max_batch_size
    faults += [Fault(file, "", warning, fatal=False) for warning in loaded.warnings]
    return loaded.max_batch_size
