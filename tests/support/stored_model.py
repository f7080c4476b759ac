"""A model whose weights are two shards in a bucket, for tests of what fetches and loads it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from onnx_files import sharded_half
from s3 import S3Server

from producer_sdk.payloads import S3Settings
from workers.artifacts import Artifacts
from workers.models import find_models
from workers.runners.engine import LoadFailed
from workers.runners.load import make_runner
from workers.runners.runner import Runner


class Stored:
    """A model directory whose model `m` has its shards in a bucket, and a cache of its own."""

    def __init__(self, s3: S3Server, tmp_path: Path, hidden: int = 640) -> None:
        self.s3, self.bucket = s3, s3.new_bucket()
        self.models, self.cache = tmp_path / "models", tmp_path / "cache"
        self.files = sharded_half(self.models / "m" / "1", hidden)
        self.sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in self.files}
        for file in self.files:
            s3.client.put_object(Bucket=self.bucket, Key=f"m/{file.name}", Body=file.read_bytes())
            file.unlink()
        self.write()

    def write(self, **changes: object) -> None:
        """model.yaml; the changes are of its first artifact."""
        items = self.items()
        items[0] |= changes
        (self.models / "m" / "model.yaml").write_text(yaml.safe_dump({"artifacts": items}))

    def items(self) -> list[dict[str, object]]:
        """The list of artifacts as it should be."""
        return [
            {"path": name, "uri": f"s3://{self.bucket}/m/{name}", "sha256": sha256}
            for name, sha256 in self.sums.items()
        ]

    @asynccontextmanager
    async def artifacts(self, url: str | None = None, timeout_s: float = 30.0) -> AsyncIterator[Artifacts]:
        artifacts = Artifacts(S3Settings(url or self.s3.url, frozenset([self.bucket])), self.cache, timeout_s)
        yield artifacts
        await artifacts.close()

    @asynccontextmanager
    async def started(self, url: str | None = None, timeout_s: float = 30.0, model: str = "m") -> AsyncIterator[Runner]:
        """A runner that has the model loaded."""
        (spec,) = find_models(self.models, [model])
        async with self.artifacts(url, timeout_s) as artifacts:
            runner = make_runner(spec, lay_out=artifacts.lay_out)
            try:
                await runner.start()
                yield runner
            finally:
                await runner.stop()

    async def refused(self, url: str | None = None, timeout_s: float = 30.0) -> LoadFailed:
        """Why the model is not loaded; nothing of it is left behind."""
        with pytest.raises(LoadFailed) as caught:
            async with self.started(url, timeout_s):
                pass
        assert self.left() == []
        return caught.value

    def left(self) -> list[str]:
        """What is neither a whole artifact nor lies in a folder that is in use."""
        there = [*self.cache.glob("artifacts/*.part"), *self.cache.glob("loads/*")]
        return [str(path) for path in there]
