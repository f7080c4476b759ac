"""What the gateway knows of models: from announcements, and for names never announced from the list of topics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

from producer_sdk.announcements import Announcement, ModelState
from producer_sdk.broker import Admin
from producer_sdk.directory import ModelDirectory, ModelView
from producer_sdk.errors import HeadraceError, InvalidRequest, ModelNotReady, UnknownModel
from producer_sdk.topics import MODEL_NAME, Lane, Topics

from .call import Call
from .contact import Contact
from .reason import for_callers

TOPICS_FRESH_S = 2.0
SHOWN_NAME_CHARS = 80
MOST_KEPT = 1024


class Served(NamedTuple):
    """A model that answers now. `signature` is None where that of the version is not announced."""

    name: str
    version: str
    announcement: Announcement
    signature: Announcement | None


class TopicNames:
    """Which topics there are, asked at most every two seconds however many unknown names are asked for."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._lock = asyncio.Lock()
        self._names: Mapping[str, int] = {}
        self._read_at = -TOPICS_FRESH_S

    async def has(self, topic: str) -> bool:
        """Whether the topic exists. Raises BrokerError where Kafka does not say."""
        async with self._lock:
            if time.monotonic() - self._read_at > TOPICS_FRESH_S:
                self._names = await self._admin.topics()
                self._read_at = time.monotonic()
        return topic in self._names


class Models:
    """Looks models up for the surfaces. Belongs to the event loop."""

    def __init__(
        self,
        directory: ModelDirectory,
        contact: Contact,
        topic_names: TopicNames,
        topics: Topics,
        v1_model: str | None,
    ) -> None:
        self._directory = directory
        self._contact = contact
        self._topic_names = topic_names
        self._topics = topics
        self._v1_model = v1_model
        self._last: dict[str, tuple[ModelView, Served]] = {}  # those that were ready, by name

    def names(self) -> list[str]:
        """All that are announced, ready or not."""
        return sorted(self._directory.models())

    async def view(self, call: Call, model: str, version: str | None) -> ModelView:
        """What is announced of a model, ready or not. The call notes what it is about, for its headers and metrics.

        Raises:
            UnknownModel: there is no such model, or it does not have the version.
            ModelNotReady: its topics exist, but no worker says anything of it; or Kafka does not answer.
        """
        view = self._directory.get(model)
        if view is None:
            call.model = model
            raise await self._absent(model)
        return self._seen(call, view, version)

    @staticmethod
    def _seen(call: Call, view: ModelView, version: str | None) -> ModelView:
        call.model = call.known_model = model = view.name
        call.version = default_version(view)
        if version is None:
            return view
        if view.versions and version not in view.versions:
            raise UnknownModel(
                f"model '{model}' has no version {version[:SHOWN_NAME_CHARS]!r}: it has {', '.join(view.versions)}"
            )
        call.version = version
        return view

    async def serving(self, call: Call, model: str, version: str | None) -> Served:
        """The model, ready to answer.

        Raises:
            UnknownModel: as `view`.
            ModelNotReady: no live worker serves it now, or Kafka does not answer; a caller would wait in vain.
        """
        return self.known(call, model, version) or self._serving(await self.view(call, model, version), version)

    def known(self, call: Call, model: str, version: str | None) -> Served | None:
        """As `serving`, of a model that is announced; None of another."""
        view = self._directory.get(model)
        if view is None:
            return None
        last = self._last.get(model)
        if last is not None and last[0] is view and version is None and self._contact.lost is None:
            call.known_model, call.version = model, last[1].version
            return last[1]
        served = self._serving(self._seen(call, view, version), version)
        if version is None:
            if len(self._last) >= MOST_KEPT:
                self._last.clear()
            self._last[model] = view, served
        return served

    def _serving(self, view: ModelView, version: str | None) -> Served:
        reason = self.not_ready(view)
        if reason is not None:
            raise ModelNotReady(reason)
        announcement = view.newest
        default = default_version(view)
        chosen = version or default
        return Served(view.name, chosen, announcement, announcement if chosen == default else None)

    def v1_model(self, named: str | None) -> str:
        """The model that a `/v1/infer` request means.

        Raises:
            InvalidRequest: it names none and there are several.
            ModelNotReady: it names none and there is none.
        """
        if named is not None:
            return named
        # The setting comes first: else requests would change to another model when the set one goes away.
        if self._v1_model is not None:
            return self._v1_model
        views = self._directory.models()
        names = [name for name, view in views.items() if view.workers] or list(views)
        if not names:
            raise ModelNotReady(self._contact.lost or "no model is served yet")
        if len(names) == 1:
            return names[0]
        some = ", ".join(f"'{name}'" for name in names[:10])
        raise InvalidRequest(f"say which model: there are {len(names)} ({some}); give 'model' or set HEADRACE_V1_MODEL")

    def not_ready(self, view: ModelView) -> str | None:
        """Why the model cannot answer now, as a sentence for callers; None when it can."""
        if self._contact.lost is not None:
            return self._contact.lost  # what workers said last, or that they are silent, is no news then
        return None if view.state is ModelState.READY else why_not_ready(view)

    async def _absent(self, model: str) -> HeadraceError:
        if self._contact.lost is not None:
            return ModelNotReady(self._contact.lost)
        topic = self._topics.requests(model, Lane.INTERACTIVE)
        if MODEL_NAME.fullmatch(model) and await self._topic_names.has(topic):
            return ModelNotReady(f"model '{model}' has its topics, but no live worker serves it")
        return UnknownModel(f"there is no model {model[:SHOWN_NAME_CHARS]!r}")


def default_version(view: ModelView) -> str:
    return view.versions[-1] if view.versions else ""


def why_not_ready(view: ModelView) -> str:
    """A sentence for callers: the state and what its workers say."""
    reasons = "; ".join(dict.fromkeys(for_callers(reason) for reason in view.reasons if reason))
    return f"model '{view.name}' is {view.state}" + (f": {reasons}" if reasons else "")
