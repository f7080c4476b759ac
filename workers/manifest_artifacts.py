"""The key `artifacts` of a `model.yaml`: files of the model that are kept in S3. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from producer_sdk.dataref import UNKNOWN_BYTES, DataRef
from producer_sdk.errors import InvalidRequest
from producer_sdk.setting import shown

from .manifest_values import Wrong, convert, unknown
from .runners.engine import Artifact

ARTIFACT_KEYS = frozenset(("artifacts",))
MOST_ARTIFACTS = 1000
MOST_PART_BYTES = 255
_SHA256 = Annotated[str, Meta(pattern="^[0-9A-Fa-f]{64}$", description="the SHA-256 as 64 hexadecimal digits")]
_VERSION = Annotated[int, Meta(ge=1, le=10**18 - 1, description="the number of a version, from 1")]
_KEYS: dict[str, Any] = {
    "path": str,
    "uri": str,
    "sha256": _SHA256,
    "bytes": Annotated[int, Meta(ge=1, le=2**50)],
    "version": _VERSION,
}
_NEEDED = ("path", "uri", "sha256")


def read_artifacts(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    """Set what `content` says of artifacts in `settings`; yields each value that is wrong."""
    if "artifacts" not in content:
        return
    items = convert("artifacts", content["artifacts"], list[dict[str, Any]])
    if len(items) > MOST_ARTIFACTS:
        raise Wrong("artifacts", f"names {len(items)} files: {MOST_ARTIFACTS} is the most")
    read: list[Artifact] = []
    for place, item in enumerate(items):
        key = f"artifacts[{place}]"
        try:
            artifact = _read(key, item)
        except Wrong as wrong:
            yield wrong
            continue
        yield from (Wrong(f"{key}.path", reason) for reason in _in_the_way(artifact, read))
        read.append(artifact)
    settings["artifacts"] = tuple(read)


def of_version(artifacts: Sequence[Artifact], version: str) -> tuple[Artifact, ...]:
    """Those that a version needs."""
    return tuple(each for each in artifacts if each.version in (None, version))


def _read(key: str, item: Mapping[str, Any]) -> Artifact:
    for name in item:
        if name not in _KEYS:
            raise Wrong(f"{key}.{name}", unknown(name, _KEYS.keys()))
    for name in _NEEDED:
        if name not in item:
            raise Wrong(f"{key}.{name}", "is missing: an artifact has a path, a uri and a sha256")
    if isinstance(item["sha256"], int | float):
        raise Wrong(f"{key}.sha256", "is read as a number by YAML: put its 64 digits in quotes")
    values = {name: convert(f"{key}.{name}", value, _KEYS[name]) for name, value in item.items()}
    if fault := path_fault(values["path"]):
        raise Wrong(f"{key}.path", fault)
    try:
        ref = DataRef(values["uri"], values["sha256"].lower(), values.get("bytes", UNKNOWN_BYTES))
    except InvalidRequest as err:
        raise Wrong(f"{key}.uri", f"{err.message.removesuffix('.')}: write s3://bucket/key") from err
    version = values.get("version")
    return Artifact(values["path"], ref, None if version is None else str(version))


def path_fault(path: str) -> str | None:
    """Why no artifact can lie there; None where one can."""
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in parts):
        return (
            f"{shown(path)} is no place in the version's folder: write parts divided by /, such as model.onnx.data, "
            "without . or .. and with no / in front"
        )
    if any(len(part.encode()) > MOST_PART_BYTES for part in parts):
        return f"{shown(path)} is too long: a file's name has at most {MOST_PART_BYTES} bytes"
    if path == "model.yaml" or path.endswith(".py"):
        return f"{path} is read, and checked, before anything is fetched: keep it in the model's folder"
    return None


def _in_the_way(artifact: Artifact, others: Sequence[Artifact]) -> Iterator[str]:
    for other in others:
        if None not in (artifact.version, other.version) and artifact.version != other.version:
            continue
        if artifact.path == other.path:
            yield f"{artifact.path} is there twice"
        elif f"{artifact.path}/".startswith(f"{other.path}/") or f"{other.path}/".startswith(f"{artifact.path}/"):
            yield f"{artifact.path} and {other.path} cannot both be there: one would be the other's folder"
