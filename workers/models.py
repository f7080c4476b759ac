"""The model directory: `<name>/model.yaml` and `<name>/<version>/model.onnx` or `model.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from producer_sdk.topics import MODEL_NAME

from .cpus import cgroup_cpus
from .manifest import Fault, Manifest
from .manifest_artifacts import of_version
from .model_yaml import NotReadable, read_yaml
from .runners.engine import ModelSpec

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


def find_models(
    root: Path, names: Sequence[str] = (), *, attempt_timeout_s: float = 300.0, replicas: int | None = None
) -> list[ModelSpec]:
    """The models of the directory, or those of the given names; the highest version of each.

    `threads` that a model.yaml leaves open is an equal share of the cores for each runner, one core left to the worker
    itself; `attempt_timeout_s` holds where a model.yaml says nothing, `replicas` whatever it says.

    Raises:
        ModelsRefused: one of them, or the directory, has a fault. Nothing is loaded here: LoadFailed comes later.
    """
    specs, faults = _look(root, names, attempt_timeout_s, replicas)
    fatal = [fault for fault in faults if fault.fatal]
    if fatal:
        raise ModelsRefused(fatal)
    return specs


class Reading(Struct):
    """What was read of one model's folder.

    Attributes:
        folder: the model's own.
        version: folder of the highest version; None when there is none.
        engine: what runs it; None when nothing tells.
        faults: what is wrong, in no order.
        spec: None when a fault is fatal.
        names_threads: model.yaml says how many threads.
    """

    folder: Path
    version: Path | None
    engine: str | None
    faults: list[Fault]
    spec: ModelSpec | None = None
    names_threads: bool = False


def _look(
    root: Path, names: Sequence[str], attempt_timeout_s: float, replicas: int | None
) -> tuple[list[ModelSpec], list[Fault]]:
    readings, faults = read_models(root, names, attempt_timeout_s)
    faults += [fault for reading in readings for fault in reading.faults]
    sound = [
        (replace(reading.spec, replicas=replicas or reading.spec.replicas), reading.names_threads)
        for reading in readings
        if reading.spec is not None
    ]
    runners = sum(spec.replicas for spec, _ in sound)
    return [_with_threads(spec, runners, not names_threads) for spec, names_threads in sound], faults


def read_models(
    root: Path, names: Sequence[str] = (), attempt_timeout_s: float = 300.0
) -> tuple[list[Reading], list[Fault]]:
    """Each model of the directory in the order of names, and the faults of the directory itself. Raises nothing."""
    try:
        entries = [entry for entry in sorted(root.iterdir()) if not entry.name.startswith((".", "_"))]
    except OSError as err:
        return [], [Fault(str(root), "", f"the model directory cannot be read: {err.strerror}")]
    folders = [entry for entry in entries if entry.is_dir()]
    if _is_one_model(folders, {entry.name for entry in entries}):
        reason = f"is the folder of one model: name the folder above it, {_above(root)}"
        return [], [Fault(str(root), "", reason)]
    folders = [folder for folder in folders if not names or folder.name in names]
    found = {folder.name for folder in folders}
    faults = [Fault(str(root / name), "", "there is no such model") for name in names if name not in found]
    if not folders and not names:
        faults.append(Fault(str(root), "", "holds no models: put each in <name>/<version>/model.onnx or model.py"))
    return [_read_model(folder, attempt_timeout_s) for folder in folders], faults


def _is_one_model(folders: list[Path], names: set[str]) -> bool:
    """Whether a directory's entries are those of a model's own folder, not those of a directory of models."""
    if any(_is_version(entry.name) for folder in folders if os.access(folder, os.R_OK) for entry in folder.iterdir()):
        return False
    return "model.yaml" in names or any(
        (folder / file).is_file() for folder in folders if _is_version(folder.name) for file in _FILES
    )


def _above(folder: Path) -> Path:
    return folder / ".." if folder.name in ("", "..") else folder.parent


def _with_threads(spec: ModelSpec, runners: int, is_open: bool) -> ModelSpec:
    cpus = cgroup_cpus()
    if is_open:
        return replace(spec, threads=max(1, (cpus - 1) // runners))
    if spec.threads * spec.replicas > cpus:
        each = f" for each of {spec.replicas} replicas" if spec.replicas > 1 else ""
        warning = f"threads {spec.threads}{each} is more than the {cpus} cores that this machine or its cgroup gives"
        return replace(spec, warnings=(*spec.warnings, warning))
    return spec


def _read_model(folder: Path, attempt_timeout_s: float) -> Reading:
    faults = list(_folder_faults(folder))
    manifest = Manifest(folder.name, str(folder / "model.yaml"), {})
    readable = True
    if Path(manifest.file).exists():
        try:
            manifest = Manifest(folder.name, manifest.file, read_yaml(Path(manifest.file)))
            faults += manifest.faults
        except NotReadable as err:
            readable = False
            faults.append(Fault(manifest.file, "", str(err)))
    version, version_faults = _choose_version(folder)
    faults += version_faults
    settings = manifest.settings
    if version is not None:
        settings["artifacts"] = of_version(settings.get("artifacts", ()), version.name)
        faults += _artifact_faults(version, manifest)
        faults += _choose_engine(version, manifest, readable)
    reading = Reading(folder, version, settings.get("engine"), faults, names_threads="threads" in settings)
    if version is not None and not any(fault.fatal for fault in faults):
        settings.setdefault("attempt_timeout_s", attempt_timeout_s)
        notes = tuple(str(fault) for fault in faults)
        reading.spec = ModelSpec(folder.name, version.name, version.absolute(), warnings=notes, **settings)
    return reading


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


def _choose_engine(version: Path, manifest: Manifest, readable: bool) -> Iterator[Fault]:
    """Set the engine from the files that are there, or say why none can run.

    Of a model.yaml that is not `readable`, or whose words on it are at fault already, nothing more is said.
    """
    fetched = {artifact.path for artifact in manifest.settings["artifacts"]}
    there = [name for name in _FILES if name in fetched or (version / name).exists()]
    wanted = manifest.settings.get("engine")
    is_told = not readable or manifest.doubts("engine") or manifest.doubts("artifacts")
    if wanted is None and len(there) == 2:
        if not is_told:
            yield Fault(str(version), "engine", "holds model.onnx and model.py: say `engine:` in model.yaml")
        return
    engine = wanted or (_FILES[there[0]] if there else None)
    file = next((name for name, own in _FILES.items() if own == engine), None)
    if engine is None or file not in there:
        if manifest.doubts("artifacts"):
            return
        missing = f"has no {file}, which engine {engine} runs" if file else "holds no model.onnx and no model.py"
        yield Fault(str(version), "", missing + _what_is_there(version))
        return
    manifest.settings["engine"] = engine
    yield from () if file in fetched else _file_faults(version / file)
    for key in ("inputs", "outputs") if engine == "python" and not is_told else ():
        if not manifest.settings.get(key) and not manifest.doubts(key):
            yield Fault(manifest.file, key, f"a python model needs its {key} declared")


def _artifact_faults(version: Path, manifest: Manifest) -> Iterator[Fault]:
    for artifact in manifest.settings["artifacts"]:
        if (taken := _taken(version, artifact.path.split("/"))) is not None:
            reason = f"{taken} is there already: remove it, or leave {artifact.path} out here"
            yield Fault(manifest.file, "artifacts", reason)


def _taken(place: Path, parts: Sequence[str]) -> Path | None:
    """What would be touched by putting a file there; None: nothing."""
    for part in parts:
        place = place / part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return place
    return place if place.exists() else None


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
