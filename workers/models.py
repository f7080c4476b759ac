"""The model directory: `<name>/model.yaml` and `<name>/<version>/model.onnx` or `model.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from producer_sdk.topics import MODEL_NAME

from .cpus import cgroup_cpus
from .manifest import Fault, Manifest
from .model_yaml import NotReadable, read_yaml
from .runners.engine import LoadFailed, LoadFault, ModelSpec
from .runners.load import make_engine

_FILES = {"model.onnx": "onnxruntime", "model.py": "python"}
_PICKLED = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".ckpt", ".bin")
_OTHERS = {
    ".plan": "a TensorRT engine",
    ".savedmodel": "a TensorFlow model",
    ".graphdef": "a TensorFlow model",
    ".h5": "a Keras model",
    ".keras": "a Keras model",
    ".safetensors": "weights without their code",
    ".gguf": "a llama.cpp model",
    ".tflite": "a TensorFlow Lite model",
}


class ModelsRefused(Exception):
    """Models of the directory cannot be served; `faults` says why, and the message holds all of it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def find_models(root: Path, names: Sequence[str] = (), *, attempt_timeout_s: float = 300.0) -> list[ModelSpec]:
    """The models of the directory, or those of the given names; the highest version of each.

    `threads` that a model.yaml leaves open is an equal share of the cores, one core left to the worker itself;
    `attempt_timeout_s` holds where a model.yaml says nothing.

    Raises:
        ModelsRefused: one of them, or the directory, has a fault. Nothing is loaded here: LoadFailed comes later.
    """
    specs, faults = _look(root, names, attempt_timeout_s)
    fatal = [fault for fault in faults if fault.fatal]
    if fatal:
        raise ModelsRefused(fatal)
    return specs


def check_models(root: Path, *, deep: bool = False) -> list[Fault]:
    """Every fault of the directory, and notes (`fatal` False); `deep` also opens and warms each ONNX file."""
    specs, faults = _look(root, (), 300.0)
    if deep:
        for spec in specs:
            if spec.engine == "onnxruntime":
                faults += _try_load(spec)
    return faults


def _look(root: Path, names: Sequence[str], attempt_timeout_s: float) -> tuple[list[ModelSpec], list[Fault]]:
    try:
        folders = [entry for entry in sorted(root.iterdir()) if not entry.name.startswith((".", "_"))]
    except OSError as err:
        return [], [Fault(str(root), "", f"the model directory cannot be read: {err.strerror}")]
    folders = [folder for folder in folders if folder.is_dir() and (not names or folder.name in names)]
    found = {folder.name for folder in folders}
    faults = [Fault(str(root / name), "", "there is no such model") for name in names if name not in found]
    if not folders and not names:
        faults.append(Fault(str(root), "", "holds no models: put each in <name>/<version>/model.onnx or model.py"))
    specs: list[ModelSpec] = []
    open_threads: set[str] = set()
    for folder in folders:
        spec, own_faults, has_threads = _read_model(folder, attempt_timeout_s)
        faults += own_faults
        specs += [spec] if spec else []
        open_threads |= set() if has_threads else {folder.name}
    return [_with_threads(spec, len(specs), spec.name in open_threads) for spec in specs], faults


def _with_threads(spec: ModelSpec, models: int, is_open: bool) -> ModelSpec:
    cpus = cgroup_cpus()
    if is_open:
        return replace(spec, threads=max(1, (cpus - 1) // models))
    if spec.threads > cpus:
        warning = f"threads {spec.threads} is more than the {cpus} cores that this machine or its cgroup gives"
        return replace(spec, warnings=(*spec.warnings, warning))
    return spec


def _read_model(folder: Path, attempt_timeout_s: float) -> tuple[ModelSpec | None, list[Fault], bool]:
    """The model of a folder, None when it has a fatal fault; and whether it names its threads."""
    faults = list(_folder_faults(folder))
    settings: dict[str, Any] = {}
    file = folder / "model.yaml"
    if file.exists():
        try:
            manifest = Manifest(folder.name, str(file), read_yaml(file))
            settings = manifest.settings
            faults += manifest.faults
        except NotReadable as err:
            faults.append(Fault(str(file), "", str(err)))
    version, version_faults = _choose_version(folder)
    faults += version_faults
    if version is not None:
        faults += _choose_engine(version, settings, file)
    if version is None or any(fault.fatal for fault in faults):
        return None, faults, True
    notes = tuple(str(fault) for fault in faults)
    settings.setdefault("attempt_timeout_s", attempt_timeout_s)
    spec = ModelSpec(name=folder.name, version=version.name, folder=version.absolute(), warnings=notes, **settings)
    return spec, faults, "threads" in settings


def _folder_faults(folder: Path) -> Iterator[Fault]:
    if not MODEL_NAME.fullmatch(folder.name):
        yield Fault(str(folder), "", "the model's name is not valid: use 1 to 64 of A-Z a-z 0-9 _ - (no dots)")
    if (folder / "config.pbtxt").exists():
        yield Fault(
            str(folder / "config.pbtxt"),
            "",
            "Triton's config.pbtxt is not read: write model.yaml beside it, the words are the same, and remove it",
        )
    for wrong in ("model.yml", "config.yaml", "config.yml"):
        if (folder / wrong).exists():
            yield Fault(str(folder / wrong), "", "is not read: name it model.yaml")


def _choose_version(folder: Path) -> tuple[Path | None, list[Fault]]:
    """The highest version; folders that are no versions are noted."""
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "_"))]
    except OSError as err:
        return None, [Fault(str(folder), "", f"cannot be read: {err.strerror}")]
    folders = [entry for entry in entries if entry.is_dir()]
    versions = [entry for entry in folders if _is_version(entry.name)]
    notes = [
        Fault(str(entry), "", "is not a version (a number that does not start with 0), so it is ignored", fatal=False)
        for entry in sorted(folders)
        if entry not in versions
    ]
    if versions:
        return max(versions, key=lambda entry: int(entry.name)), notes
    misplaced = [entry.name for entry in entries if entry.name in _FILES]
    reason = f"move {misplaced[0]} into {folder.name}/1/" if misplaced else "put the model into a folder named 1"
    return None, [*notes, Fault(str(folder), "", f"has no version folder: {reason}")]


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and not name.startswith("0") and len(name) <= 18


def _choose_engine(version: Path, settings: dict[str, Any], manifest: Path) -> Iterator[Fault]:
    """Set the engine from the files that are there, or say why none can run."""
    there = [name for name in _FILES if (version / name).exists()]
    wanted = settings.get("engine")
    if wanted is None and len(there) == 2:
        yield Fault(str(version), "engine", "holds model.onnx and model.py: say `engine:` in model.yaml")
        return
    engine = wanted or (_FILES[there[0]] if there else None)
    file = next((name for name, own in _FILES.items() if own == engine), None)
    if engine is None or file not in there:
        missing = f"has no {file}, which engine {engine} runs" if file else "holds no model.onnx and no model.py"
        yield Fault(str(version), "", missing + _what_is_there(version))
        return
    settings["engine"] = engine
    yield from _file_faults(version / file)
    if engine == "python":
        for key in ("inputs", "outputs"):
            if not settings.get(key):
                yield Fault(str(manifest), key, f"a python model needs its {key} declared")


def _file_faults(file: Path) -> Iterator[Fault]:
    if not file.is_file():
        yield Fault(str(file), "", "is not a file")
    elif not os.access(file, os.R_OK):
        yield Fault(str(file), "", "must not be read by this user: change its permissions")
    elif file.stat().st_size == 0:
        yield Fault(str(file), "", "is empty")


def _what_is_there(version: Path) -> str:
    """Why files that are there do not help."""
    for entry in sorted(version.iterdir()):
        suffix = entry.suffix.lower()
        if suffix in _PICKLED:
            return (
                f"; {entry.name} is refused, for pickled files can run any code when they are loaded: export to ONNX, "
                "or load weights in a model.py"
            )
        if suffix in _OTHERS:
            return f"; {entry.name} is {_OTHERS[suffix]}, which no engine here runs: export to ONNX or write a model.py"
        if suffix == ".onnx":
            return f"; rename {entry.name} to model.onnx"
    return ""


def _try_load(spec: ModelSpec) -> list[Fault]:
    file = str(spec.folder / "model.onnx")
    try:
        engine = make_engine(spec.engine)
        loaded = engine.load(spec)
        engine.close()
    except LoadFailed as err:
        # A package or device that is missing here says nothing of the file.
        return [Fault(file, "", err.message, fatal=err.kind is not LoadFault.DEPENDENCY)]
    return [Fault(file, "", warning, fatal=False) for warning in loaded.warnings]
