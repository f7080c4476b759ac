"""Where the jars of the local Apache Kafka come from: an unpacked Kafka, else a cache that each user fills once."""

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile, ZipFile

from headrace.kafka_java import LocalKafkaError, find_java

KAFKA_VERSION = "4.3.1"
KAFKA_COORDINATE = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
DOWNLOAD_THREADS = 8
REQUEST_TIMEOUT_S = 30
MANIFEST = "manifest.json"

Progress = Callable[[str], None]


class Jar(Protocol):
    """One jar of Kafka's, which `resolve` downloads; a jar that did not arrive whole raises."""

    @property
    def filename(self) -> str:
        """Its name, version included."""

    def resolve(self) -> Path:
        """The downloaded file."""


Resolve = Callable[[Path], Sequence[Jar]]


@dataclass(frozen=True, slots=True)
class KafkaInstall:
    """What it takes to run Kafka: the `java` program, the class path as `java -cp` wants it, Kafka's version."""

    java: Path
    class_path: str
    version: str


def prepare(progress: Progress | None = None) -> KafkaInstall:
    """Find Java and Kafka; the first call of a user downloads Kafka's jars (about 45 MB) into the cache folder.

    `KAFKA_HOME`, where set, is used as it is. `progress` gets one sentence a step; by default they go to stderr.
    Raises LocalKafkaError when no Java or no Kafka can be had. Safe to call from many processes at once.
    """
    java = find_java()
    home = os.environ.get("KAFKA_HOME")
    if home:
        return KafkaInstall(java, str(Path(home) / "libs" / "*"), _unpacked_version(Path(home)))
    folder = cache_dir() / f"kafka-{KAFKA_VERSION}"
    if not is_complete(folder):
        fill_cache(folder, progress or _to_stderr)
    jars = os.pathsep.join(str(folder / name) for name in sorted(_manifest(folder)))
    return KafkaInstall(java, jars, KAFKA_VERSION)


def cache_dir() -> Path:
    """The user's cache folder for headrace: `HEADRACE_CACHE_DIR`, else by the XDG rule `~/.cache/headrace`."""
    own = os.environ.get("HEADRACE_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "headrace"


def is_complete(folder: Path) -> bool:
    """Whether every jar that the manifest of `folder` names is there with its size in bytes."""
    sizes = _manifest(folder)
    return bool(sizes) and all(_size(folder / name) == size for name, size in sizes.items())


def _manifest(folder: Path) -> dict[str, int]:
    try:
        sizes = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return sizes if isinstance(sizes, dict) else {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _unpacked_version(home: Path) -> str:
    jars = sorted((home / "libs").glob("kafka_2.1*-*.jar"))
    versions = [jar.stem.split("-", 1)[1] for jar in jars if jar.stem.count("-") == 1]
    if not versions:
        raise LocalKafkaError(
            f"KAFKA_HOME is {home}, but {home / 'libs'} holds no Kafka server jar. "
            "Set KAFKA_HOME to an unpacked Apache Kafka, or unset it to let headrace download one."
        )
    return versions[-1]


def resolve_with_jgo(repository: Path) -> list[Jar]:
    """Find out by the POMs which jars Kafka needs; what gets downloaded lies under `repository`."""
    try:
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as err:
        raise LocalKafkaError(
            "Apache Kafka is not on this machine, and the package that downloads it is not installed. "
            "Install headrace[dev], or unpack Apache Kafka and set KAFKA_HOME."
        ) from err
    # jgo's EnvironmentBuilder would do this too, but it fetches a whole JDK 11 only to sort the jars into two folders.
    context = MavenContext(repo_cache=repository, resolver=PythonResolver(), timeout=REQUEST_TIMEOUT_S)
    roots, rest = context.resolver.resolve([context.create_dependency(KAFKA_COORDINATE)])
    artifacts = [dependency.artifact for dependency in [*roots, *rest]]
    # Kafka's POM leaves the binding of slf4j to log4j out; resolved as a second root it would drag in other versions.
    core = next(each for each in artifacts if each.artifactId == "log4j-core")
    binding = context.project(core.groupId, "log4j-slf4j-impl").at_version(core.version).artifact()
    return [*artifacts, binding]


def fill_cache(folder: Path, progress: Progress, resolve: Resolve = resolve_with_jgo) -> None:
    """Download Kafka into `folder`, unless another process has done so meanwhile. Raises LocalKafkaError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(folder.name + ".lock"), progress):
            if not is_complete(folder):
                _download(folder, progress, resolve)
    except LocalKafkaError:
        raise
    except (OSError, RuntimeError) as err:
        raise LocalKafkaError(
            f"Apache Kafka {KAFKA_VERSION} could not be downloaded from Maven Central into {folder.parent} ({err}). "
            "Jars that arrived whole are kept, and the next start goes on from there. Check the network (HTTPS_PROXY), "
            "or unpack Apache Kafka yourself and set KAFKA_HOME."
        ) from err


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Waiting for another process that is downloading Apache Kafka ...")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _download(folder: Path, progress: Progress, resolve: Resolve) -> None:
    """Fill `folder`: jars arrive one by one in a folder beside it, which takes its name once all are there.

    A jar moves into that folder only when it is whole, so a cut download goes on where it stopped.
    """
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    progress(f"Downloading Apache Kafka {KAFKA_VERSION} (46 jars, 44 MB) once, into {folder} ...")
    # What a cut download left in its own repository may be half a file, so every download has a new one.
    repository = folder.with_name(folder.name + ".maven")
    shutil.rmtree(repository, ignore_errors=True)
    jars = resolve(repository)
    missing = [each for each in jars if not (partial / each.filename).exists()]
    with ThreadPoolExecutor(DOWNLOAD_THREADS) as pool:
        arrivals = [pool.submit(_fetch, each, partial) for each in missing]
        try:
            for count, arrival in enumerate(as_completed(arrivals), len(jars) - len(missing) + 1):
                arrival.result()
                if count % 10 == 0 or count == len(jars):
                    progress(f"  {count} of {len(jars)} jars")
        finally:
            pool.shutdown(cancel_futures=True)
    shutil.rmtree(repository, ignore_errors=True)
    sizes = {each.filename: (partial / each.filename).stat().st_size for each in jars}
    (partial / MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True))
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def _fetch(jar: Jar, folder: Path) -> None:
    arrived = jar.resolve()
    try:
        with ZipFile(arrived) as archive:
            broken = archive.testzip()
    except BadZipFile as err:
        raise OSError(f"{jar.filename} arrived broken: {err}") from err
    if broken is not None:
        raise OSError(f"{jar.filename} arrived broken: checksum of {broken}")
    arrived.replace(folder / jar.filename)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
