"""The cache of artifacts: links where it can, copies where it cannot, and nothing of others is removed."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from workers.artifact_cache import ArtifactCache, Cancelled, link_or_copy, sha256_of
from workers.runners.engine import LoadFailed

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def kept(cache: ArtifactCache, sha256: str, data: bytes) -> Path:
    """An artifact in the cache."""
    part = cache.new_part(sha256, len(data))
    part.write(0, [data])
    part.close()
    cache.keep(part, sha256)
    part.discard()
    return cache.artifacts / sha256


def test_parts_are_written_in_any_order(tmp_path: Path) -> None:
    part = ArtifactCache(tmp_path).new_part("s", 6)
    part.write(4, [b"ef"])
    part.write(0, [b"ab", b"cd"])
    part.close()
    assert part.path.read_bytes() == b"abcdef"
    assert part.written == 6


def test_a_thread_that_comes_late_writes_nowhere(tmp_path: Path) -> None:
    part = ArtifactCache(tmp_path).new_part("s", 2)
    part.close()
    with (tmp_path / "other").open("wb") as other:  # most likely gets the number of the closed file
        part.write(0, [b"ab"])
        other.flush()
    assert (tmp_path / "other").read_bytes() == b""
    assert part.path.read_bytes() == b"\0\0"


def test_what_was_fetched_is_lent_without_a_copy(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    blob = kept(cache, "s", b"abc")
    folder = cache.new_load("m-1")
    assert cache.lend("s", folder.place("deep/shard"))
    assert (folder.path / "deep" / "shard").samefile(blob)
    assert not cache.lend("absent", folder.place("other"))
    folder.remove()
    assert blob.read_bytes() == b"abc"


def test_without_hard_links_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, place: Path) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_bytes(b"abc")
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"abc"
    assert not (tmp_path / "b").is_symlink()


def test_the_versions_own_files_are_beside_the_artifacts(tmp_path: Path) -> None:
    version, mounted = tmp_path / "1", tmp_path / "mounted"
    (version / "deep").mkdir(parents=True)
    mounted.mkdir()
    (mounted / "model.onnx").write_bytes(b"onnx")
    (version / "model.onnx").symlink_to(mounted / "model.onnx")  # as Kubernetes mounts a ConfigMap
    (version / "deep" / "labels.txt").write_bytes(b"labels")
    folder = ArtifactCache(tmp_path / "cache").new_load("m-1")
    folder.place("deep/shard").write_bytes(b"shard")
    folder.add_own(version)
    assert sorted(os.listdir(folder.path / "deep")) == ["labels.txt", "shard"]
    assert (folder.path / "model.onnx").read_bytes() == b"onnx"
    assert not (folder.path / "model.onnx").is_symlink()
    folder.remove()


def test_folders_of_workers_that_ended_are_removed_and_those_in_use_stay(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    ended = tmp_path / "loads" / "m-1-ended"
    ended.mkdir(parents=True)
    in_use = cache.new_load("m-1")
    another = ArtifactCache(tmp_path).new_load("m-1")
    assert not ended.exists()
    assert in_use.path.exists()
    in_use.remove()
    another.remove()


def test_a_disk_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LoadFailed, match="HEADRACE_CACHE_DIR"):
        ArtifactCache(tmp_path).new_load("m-1")
    assert list((tmp_path / "loads").iterdir()) == []


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    part = ArtifactCache(tmp_path).new_part("s", 1)
    with pytest.raises(LoadFailed, match="No space left on device"):
        part.write(0, [b"x"])
    part.discard()


def test_what_a_killed_fetch_left_is_removed_at_once_and_a_fetch_under_way_stays(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    under_way, hashed = cache.new_part("s", 1), cache.new_part("s", 1)
    hashed.close()
    left = tmp_path / "artifacts" / "s.killed.part"
    left.write_bytes(b"x")
    cache.new_part("t", 1).discard()
    assert under_way.path.exists()
    assert hashed.path.exists()
    assert not left.exists()
    for part in (under_way, hashed):
        part.discard()


def test_a_part_that_was_kept_or_discarded_holds_no_file_open(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    before = len(os.listdir("/dev/fd"))
    part = cache.new_part("s", 1)
    part.close()
    cache.keep(part, "s")
    for each in (part, cache.new_part("t", 1)):
        each.discard()
    assert len(os.listdir("/dev/fd")) == before


def test_a_hash_ends_when_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert sha256_of(tmp_path / "a", lambda: True) == EMPTY
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(Cancelled):
        sha256_of(tmp_path / "a", lambda: True)
