"""Learned run times outlive the worker, whatever becomes of their file."""

import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.models import read_models
from workers.run_times import RunTimes
from workers.run_times_file import MOST_BYTES, MOST_ENTRIES, Place, RunTimesFile

BUCKET = (("x", (4,)),)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "iris"
    path.mkdir(parents=True)
    return path


def file(
    folder: Path, version: str = "1", device: str = "cuda:0", engine: str = "python", threads: int = 1
) -> RunTimesFile:
    return RunTimesFile(folder, Place(version, device, engine, threads))


def knowing(run_s: float) -> object:
    times = RunTimes()
    for _ in range(5):
        times.observe(BUCKET, 4, 4, run_s)
    return times.to_state()


def told(kept: RunTimesFile) -> float:
    return kept.load().mean_s(BUCKET, 4, 4)


def path_of(folder: Path) -> Path:
    return folder / ".run_times" / "cuda-0.msgpack"


def test_what_was_saved_is_loaded_from_beside_the_model(folder: Path, cache: Path) -> None:
    assert file(folder).save(knowing(0.25))
    assert told(file(folder)) == pytest.approx(0.25)
    assert path_of(folder).exists()
    assert not cache.exists()


def test_a_new_version_starts_from_the_highest_before_it(folder: Path) -> None:
    for version, run_s in (("2", 0.2), ("10", 1.0), ("9", 0.9)):
        file(folder, version).save(knowing(run_s))
    assert told(file(folder, "11")) == pytest.approx(1.0)
    assert told(file(folder, "9")) == pytest.approx(0.9)
    assert told(file(folder, "1")) == 0.0


def test_each_device_engine_and_count_of_threads_has_its_own(folder: Path) -> None:
    file(folder).save(knowing(0.25))
    assert told(file(folder, device="cpu")) == 0.0
    assert told(file(folder, engine="onnxruntime")) == 0.0
    assert told(file(folder, threads=2)) == 0.0


def test_only_the_versions_saved_last_are_kept(folder: Path) -> None:
    for version in range(1, 12):
        file(folder, str(version)).save(knowing(version / 10))
    entries = msgspec.msgpack.decode(path_of(folder).read_bytes(), strict=False)["entries"]
    assert len(entries) == MOST_ENTRIES
    assert told(file(folder, "11")) == pytest.approx(1.1)


def test_old_versions_go_where_the_file_would_grow_too_large(folder: Path) -> None:
    big = {"form": 1, "ballast": b"x" * (MOST_BYTES // 3)}
    for version in ("1", "2", "3", "4"):
        file(folder, version).save(big)
    file(folder, "5").save(knowing(0.5))
    assert path_of(folder).stat().st_size <= MOST_BYTES
    assert told(file(folder, "5")) == pytest.approx(0.5)


def test_the_model_directory_does_not_see_the_folder(folder: Path) -> None:
    (folder / "1").mkdir()
    (folder / "1" / "model.py").write_text("")
    before = [str(fault) for fault in read_models(folder.parent)[1]]
    file(folder).save(knowing(0.25))
    assert [str(fault) for fault in read_models(folder.parent)[1]] == before
    assert [reading.version.name for reading in read_models(folder.parent)[0] if reading.version] == ["1"]


def test_a_read_only_model_folder_leaves_it_to_the_cache_folder(folder: Path, cache: Path) -> None:
    # A file in the folder's place stops root as well, whom permissions do not.
    (folder / ".run_times").write_text("")
    assert file(folder).save(knowing(0.25))
    assert told(file(folder)) == pytest.approx(0.25)
    assert [path.name for path in cache.rglob("*.msgpack")] == ["cuda-0.msgpack"]


def test_models_of_one_name_do_not_share_the_cache(folder: Path, tmp_path: Path) -> None:
    (folder / ".run_times").write_text("")
    file(folder).save(knowing(0.25))
    assert told(file(tmp_path / "elsewhere" / "iris")) == 0.0


def test_where_nothing_can_be_written_there_is_one_warning(
    folder: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / ".run_times").write_text("")
    cache.write_text("")
    kept = file(folder)
    assert [kept.save(knowing(0.25)) for _ in range(3)] == [False] * 3
    assert [record.action for record in caplog.records] == ["run_times_not_kept"]  # type: ignore[attr-defined]
    assert told(kept) == 0.0


def test_the_cache_folder_is_found_by_the_xdg_rule(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (folder / ".run_times").write_text("")
    assert file(folder).save(knowing(0.25))
    assert list((tmp_path / "xdg" / "headrace" / "run_times").rglob("*.msgpack"))


def test_a_device_name_cannot_lead_out_of_the_folder(folder: Path) -> None:
    file(folder, device="../../x/cuda:0").save(knowing(0.25))
    assert [path.name for path in (folder / ".run_times").iterdir()] == ["-x-cuda-0.msgpack"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_broken_file_gives_what_knows_nothing_and_is_replaced(folder: Path, data: st.DataObject) -> None:
    path_of(folder).unlink(missing_ok=True)
    file(folder).save(knowing(0.25))
    sound = path_of(folder).read_bytes()
    cut = data.draw(st.integers(0, len(sound) - 1))
    path_of(folder).write_bytes(sound[:cut] + data.draw(st.binary(max_size=64)))
    assert 0.0 <= told(file(folder)) < 1e9
    assert file(folder).save(knowing(0.5))
    assert told(file(folder)) == pytest.approx(0.5)


@pytest.mark.parametrize("hostile", [b"\x91" * 500_000, b"\xdf\xff\xff\xff\xff", b"", b"\x00" * (MOST_BYTES + 1)])
def test_a_hostile_file_gives_what_knows_nothing(folder: Path, hostile: bytes) -> None:
    path_of(folder).parent.mkdir()
    path_of(folder).write_bytes(hostile)
    assert told(file(folder)) == 0.0


def test_a_state_nested_too_deep_gives_what_knows_nothing(folder: Path) -> None:
    nested = msgspec.Raw(b"\x91" * 300_000 + b"\x90")
    entry = {"version": "1", "engine": "python", "threads": 1, "saved_ms": 1, "state": nested}
    path_of(folder).parent.mkdir()
    path_of(folder).write_bytes(msgspec.msgpack.encode({"form": 1, "entries": [entry]}))
    assert told(file(folder)) == 0.0


def test_a_pipe_in_the_place_of_the_file_stops_nobody(folder: Path) -> None:
    path_of(folder).parent.mkdir()
    os.mkfifo(path_of(folder))
    assert told(file(folder)) == 0.0
    assert file(folder).save(knowing(0.25))
    assert stat.S_ISREG(path_of(folder).stat().st_mode)


def test_of_many_that_save_at_once_one_is_kept_whole(folder: Path) -> None:
    def save(run_s: float) -> None:
        for _ in range(20):
            file(folder).save(knowing(run_s))

    savers = [threading.Thread(target=save, args=(run_s,)) for run_s in (0.1, 0.2, 0.3)]
    for saver in savers:
        saver.start()
    seen = set()
    while any(saver.is_alive() for saver in savers):
        if path_of(folder).exists():
            seen.add(round(told(file(folder)), 3))
    assert seen <= {0.1, 0.2, 0.3}
    assert [path.name for path in path_of(folder).parent.iterdir()] == ["cuda-0.msgpack"]


def test_what_a_much_slower_machine_has_left_is_forgotten_after_one_run(folder: Path) -> None:
    file(folder).save(knowing(1000.0))
    run_times = file(folder).load()
    run_times.observe(BUCKET, 1, 1.0, 0.01)
    assert run_times.predict_s(BUCKET, 1, 1.0) < 0.02
    assert run_times.predict_s("another", 1, 1.0) < 0.02


def test_other_files_in_the_folder_are_let_be(folder: Path) -> None:
    path_of(folder).parent.mkdir()
    of_others = path_of(folder).with_name("report.tmp")
    of_others.write_bytes(b"")
    os.utime(of_others, (1_000_000_000, 1_000_000_000))
    file(folder).save(knowing(0.25))
    assert of_others.exists()


def test_files_that_a_killed_worker_left_half_written_are_removed(folder: Path) -> None:
    path_of(folder).parent.mkdir()
    left, fresh = (path_of(folder).with_name(f"cuda-0.{name}.tmp") for name in ("old", "new"))
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (1_000_000_000, 1_000_000_000))
    file(folder).save(knowing(0.25))
    assert (left.exists(), fresh.exists()) == (False, True)
