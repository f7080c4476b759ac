"""The control groups that bind this process, version 2 and 1, as folders to read limits from."""

from __future__ import annotations

from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def own_groups(controller: str, cgroup: Path = CGROUP, own: Path = OWN_CGROUP) -> list[Path]:
    """This process's groups for a controller, each before its parents; the limits of all of them bind."""
    folders: list[Path] = []
    for line in read_words(own):
        _, controllers, below = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroup / controller if controllers else cgroup
        group = root / below.strip("/")
        folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return folders


def read_words(file: Path) -> list[str]:
    """The words in a file; none when it is not there."""
    try:
        return file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []


def read_number(file: Path) -> int | None:
    """The number in a file; None when it is not there or holds `max` or -1."""
    words = read_words(file)
    return int(words[0]) if words and words[0].isdigit() else None
