"""Open Inference Protocol: what the server and its models are, and whether they are ready."""

from __future__ import annotations

import msgspec

from producer_sdk.announcements import Announcement, TensorAnnouncement
from producer_sdk.directory import ModelView
from producer_sdk.errors import HeadraceError, ModelNotReady

from .answers import error_answer
from .call import Answer, Call
from .health import Health
from .models import Models, default_version
from .signature import full_shape

DOCS = "https://github.com/headrace/headrace/tree/main/docs/http.md"


class StatusPages:
    """The GET endpoints. Belongs to the event loop."""

    def __init__(self, models: Models, health: Health, server_version: str) -> None:
        self._models = models
        self._health = health
        self._server = {"name": "headrace", "version": server_version, "extensions": ["binary_tensor_data"]}

    async def index(self, call: Call) -> Answer:
        return _json(
            {
                "name": "headrace gateway",
                "version": self._server["version"],
                "about": "synchronous HTTP over Kafka: a request is queued, batched, run by a worker and answered here",
                "paths": ["/v2", "/v2/health/ready", "/v2/models/{model}", "/v2/models/{model}/infer", "/v1/infer"],
                "models": self._models.names(),
                "docs": DOCS,
            }
        )

    async def server(self, call: Call) -> Answer:
        return _json(self._server)

    async def live(self, call: Call) -> Answer:
        return _json({"live": True})

    async def ready(self, call: Call) -> Answer:
        reason = self._health.not_ready()
        if reason is not None:
            return error_answer(call, ModelNotReady(reason), {"ready": False})
        return _json({"ready": True})

    async def model(self, call: Call) -> Answer:
        """Metadata, of an unready model too; a version whose signature is not announced has empty lists."""
        view = await self._view(call)
        signature = view.newest if call.version == default_version(view) else None
        return _json(
            {
                "name": view.name,
                "versions": list(view.versions),
                "platform": view.newest.platform,
                "inputs": _tensors(signature, "inputs"),
                "outputs": _tensors(signature, "outputs"),
            }
        )

    async def model_ready(self, call: Call) -> Answer:
        try:
            view = await self._view(call)
        except ModelNotReady as error:
            return _not_ready(call, error)
        reason = self._models.not_ready(view)
        if reason is not None:
            return _not_ready(call, ModelNotReady(reason))
        return _json({"name": view.name, "ready": True})

    async def _view(self, call: Call) -> ModelView:
        assert call.model is not None
        return await self._models.view(call, call.model, call.url_version)


def _not_ready(call: Call, error: HeadraceError) -> Answer:
    return error_answer(call, error, {"name": call.model, "ready": False})


def _tensors(signature: Announcement | None, which: str) -> list[dict[str, object]]:
    if signature is None:
        return []
    tensors: tuple[TensorAnnouncement, ...] = getattr(signature, which)
    return [{"name": each.name, "datatype": each.datatype, "shape": full_shape(each)} for each in tensors]


def _json(value: object) -> Answer:
    return Answer(msgspec.json.encode(value))
