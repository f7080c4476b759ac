"""What of Kafka is looked at: whether it answers, what this client may do, its topics, its clock."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from msgspec import Struct, structs

from headrace.doctor_describe import Described, describe
from headrace.doctor_line import Line, listed, said, sentence
from headrace.doctor_topics import KAFKA, Limits, Need, judge_clock, judge_topics, needs_of
from producer_sdk.broker import Admin, Broker, BrokerError, Misconfigured
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rights import Right, Role, rights_of
from producer_sdk.setting import SettingsError
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Lane, Topics
from workers.settings import WorkerSettings

Describe = Callable[[Collection[str]], Awaitable[Described]]


class Part(StrEnum):
    """Who is to run here."""

    PRODUCER = "producer"
    WORKER = "worker"
    GATEWAY = "gateway"
    OPERATOR = "operator"  # headrace topics, dead and verify


ROLES = {
    Part.PRODUCER: (Role.PRODUCER,),
    Part.WORKER: (Role.WORKER,),
    Part.GATEWAY: (Role.GATEWAY,),
    Part.OPERATOR: (Role.TOPICS, Role.DEAD, Role.VERIFY),
}


class Site(Struct, frozen=True):
    """A cluster to look at.

    Attributes:
        broker: makes its clients.
        describe: tells of topics; None where the broker has no settings of topics.
        budget_s: longest time for one question.
    """

    broker: Broker
    describe: Describe | None
    budget_s: float


def site_of(settings: KafkaSettings, budget_s: float) -> Site:
    """The cluster of the settings, by aiokafka whichever client they name, with little patience."""
    broker = structs.replace(settings, kafka_client="aiokafka").broker()
    assert isinstance(broker, KafkaBroker)
    # Before the budget ends, so that the client itself says what is wrong.
    patience_s = max(0.5, budget_s * 0.8)
    options = replace(broker.options, send_timeout_s=patience_s, request_timeout_s=patience_s)
    hasty = KafkaBroker(broker.bootstrap_servers, options=options)
    return Site(hasty, lambda names: describe(hasty, names), budget_s)


def client_lines(settings: KafkaSettings) -> list[Line]:
    """Whether the client that the settings name is installed, and what is careless about how it connects."""
    try:
        settings.broker()
    except SettingsError as err:
        return [KAFKA.fault("client", said(err))]
    careless = [KAFKA.note("security", sentence(warning)) for warning in settings.security().warnings()]
    return [KAFKA.ok("client", f"{settings.kafka_client}, by {settings.security_protocol}."), *careless]


async def check_kafka(
    site: Site, settings: WorkerSettings, part: Part, deadlines_s: Mapping[str, float | None]
) -> list[Line]:
    """Everything of Kafka; `deadlines_s` are the models that are known here, with their default deadlines."""
    admin = site.broker.admin()
    try:
        # A failed connection is looked into once more, which has a limit of its own.
        lines = await KAFKA.within(site.budget_s * 2, "connection", _reach(admin, site.broker))
        if lines[0].state != "ok":
            return [*lines, KAFKA.skipped("the rest", "Rights, topics and clock cannot be looked at without it.")]
        return [*lines, *await _Look(site, admin, settings, part, deadlines_s).lines()]
    finally:
        await admin.stop()


async def _reach(admin: Admin, broker: Broker) -> list[Line]:
    try:
        await admin.start()
    except Misconfigured:
        raise
    except BrokerError as err:
        cure = "See whether bootstrap_servers is right, the broker up, and the network open."
        return [KAFKA.fault("connection", f"{said(err)} {cure}")]
    return [KAFKA.ok("connection", f"{broker.name} answers, and takes this client.")]


class _Look(Struct):
    """The checks of a cluster that is reached, in order; each uses what those before have found."""

    site: Site
    admin: Admin
    settings: WorkerSettings
    part: Part
    deadlines_s: Mapping[str, float | None]
    there: Mapping[str, int] = {}

    async def lines(self) -> list[Line]:
        budget_s = self.site.budget_s
        lines = await KAFKA.within(budget_s, "topics", self._topics())
        lines += await KAFKA.within(budget_s, "rights", self._rights())
        return lines + await KAFKA.within(budget_s, "topic settings", self._described())

    @property
    def _needs(self) -> list[Need]:
        return needs_of(Topics(self.settings.prefix), self.deadlines_s)

    async def _topics(self) -> list[Line]:
        self.there = await self.admin.topics()
        if self.part is not Part.WORKER and not self.deadlines_s:
            self.deadlines_s = dict.fromkeys(models_of(self.there, self.settings.prefix))
        names = [need.topic for need in self._needs]
        makes = self.part is Part.WORKER and self.settings.create_topics
        return [judge_presence(names, self.there, self.part, makes_all=makes, models=sorted(self.deadlines_s))]

    async def _rights(self) -> list[Line]:
        rights = self._wanted_rights()
        refused = await self.admin.missing(rights)
        if refused is not None:
            return [KAFKA.fault("rights", said(refused))]
        of = f" for {listed(sorted(self.deadlines_s))}" if self.deadlines_s else ", no model being known"
        return [KAFKA.ok("rights", f"All {len(rights)} that {_article(self.part)} needs{of}.")]

    def _wanted_rights(self) -> list[Right]:
        roles = list(ROLES[self.part])
        if self.part is Part.WORKER and self.settings.create_topics and self._missing():
            roles.append(Role.TOPICS)
        prefix, events = self.settings.prefix, self.settings.events
        return [right for role in roles for right in rights_of(role, prefix, self.deadlines_s, events=events)]

    def _missing(self) -> bool:
        return any(need.topic not in self.there for need in self._needs)

    async def _described(self) -> list[Line]:
        if self.site.describe is None:
            return [KAFKA.skipped("topic settings", "This broker has none.")]
        described = await self.site.describe([need.topic for need in self._needs if need.topic in self.there])
        limits = Limits(self.settings.max_record_bytes, described.brokers)
        lines = judge_topics(self._needs, described, limits)
        return [*lines, judge_clock(described.clock, self.settings.clock_skew_allowance_s)]


def models_of(topics: Collection[str], prefix: str) -> list[str]:
    """Models that have a topic for requests under the prefix."""
    end = f".{Lane.INTERACTIVE}"
    inner = [topic.removeprefix(f"{prefix}.") for topic in topics if topic.startswith(f"{prefix}.")]
    return sorted(name.removesuffix(end) for name in inner if name.endswith(end) and name.count(".") == 1)


def judge_presence(
    names: Sequence[str], there: Collection[str], part: Part, *, makes_all: bool, models: Sequence[str]
) -> Line:
    """Whether the topics are there, or will be made by who runs here. Pure.

    A worker makes all that are missing, unless told not to; gateways and clients make those that belong to no model.
    """
    missing = [name for name in names if name not in there]
    if not missing:
        return KAFKA.ok("topics", f"All {len(names)} are there." + ("" if models else " None is a model's."))
    told = f"{len(missing)} of {len(names)} are not there, or hidden: {listed(missing)}"
    if makes_all:
        return KAFKA.ok("topics", f"{told}. The worker makes them at its start.")
    shared = [name for name in missing if name.count(".") == 1]
    if part in (Part.GATEWAY, Part.PRODUCER) and len(shared) == len(missing):
        return KAFKA.ok("topics", f"{told}. They are made when first needed.")
    which = " ".join(models) if models else "MODEL"
    return KAFKA.fault("topics", f"{told}. Make them: headrace topics create {which}")


def _article(part: Part) -> str:
    return f"an {part}" if part is Part.OPERATOR else f"a {part}"
