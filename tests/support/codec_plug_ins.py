"""Codecs as a process finds them that have been installed: by the metadata of a distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from producer_sdk import codecs

FLAT = {"flatbuffers": "producer_sdk.flatbuffers_codec:FlatBuffers"}


@contextmanager
def plug_ins(folder: Path, entries: Mapping[str, str], **modules: str) -> Iterator[None]:
    """A distribution with these entry points and modules is installed in the folder."""
    written = folder / "made_codecs-1.dist-info"
    written.mkdir(parents=True)
    (written / "METADATA").write_text("Metadata-Version: 2.1\nName: made-codecs\nVersion: 1\n")
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    (written / "entry_points.txt").write_text(f"[{codecs.GROUP}]\n{lines}")
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    sys.path.insert(0, str(folder))
    codecs._look_up.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in modules:
            sys.modules.pop(name, None)
        codecs._look_up.cache_clear()
