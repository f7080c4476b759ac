"""Temporary folders go away with their owner, and those of a killed owner with the next one of the kind."""

import os
import time
from pathlib import Path

from headrace.temporary_folder import OWNER_FILE, TemporaryFolder, remove_orphans

PREFIX = "headrace-test-"


def aged(path: Path) -> Path:
    """The folder, as if nobody had touched it for an hour."""
    then = time.time() - 3600
    os.utime(path, (then, then))
    return path


def test_a_folder_ends_with_its_block() -> None:
    with TemporaryFolder.make(PREFIX) as path:
        (path / "file").write_text("x")
    assert not path.exists()


def test_what_a_killed_owner_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    (left / "deep").mkdir(parents=True)
    (left / OWNER_FILE).touch()
    aged(left)
    remove_orphans(tmp_path, PREFIX)
    assert not left.exists()


def test_what_was_left_before_the_lock_was_made_is_removed_too(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    aged(left)
    remove_orphans(tmp_path, PREFIX)
    assert not left.exists()


def test_living_young_and_foreign_folders_stay(tmp_path: Path) -> None:
    folder = TemporaryFolder.make(PREFIX)
    aged(folder.path)
    young, foreign = tmp_path / f"{PREFIX}young", tmp_path / "other"
    for each in (young, foreign):
        each.mkdir()
    (foreign / OWNER_FILE).touch()
    remove_orphans(folder.path.parent, PREFIX)
    remove_orphans(tmp_path, PREFIX)
    assert [folder.path.exists(), young.exists(), foreign.exists()] == [True, True, True]
    folder.leave()
