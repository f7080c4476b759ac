"""A trace recorded from a model's request topics: when its requests were published, and what each asked for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker_admin import admin_of
from headrace.known_model import check_has_topics
from headrace.sim_trace import Arrival, Trace, in_order
from headrace.topic_reader import bounds_of
from headrace.verify_read import read_partitions
from producer_sdk.broker import Bounds, Broker, Record, TopicPartition
from producer_sdk.errors import InvalidRequest
from producer_sdk.records import decode_record
from producer_sdk.tensors import Tensor
from producer_sdk.topics import Topics, check_model_name, derived_id
from producer_sdk.wire import Request, Undecodable
from workers.queue_policy import PRIORITY, priority_of
from workers.runners.engine import ModelSpec, TensorSpec
from workers.runners.load import make_engine
from workers.shapes import Fit, Shapes


class Recorded(Struct, frozen=True):
    """A trace, and how many records were left out since workers would not run them."""

    trace: Trace
    left_out: int


class Reader:
    """Reads records of one model's request topics as arrivals, at their epoch seconds. Pure.

    `spec` None: no model directory is at hand. A request then has the rows of its first input, costs its rows, shares
    batches with those of the same shapes, and has the priority level that it names.
    """

    def __init__(self, topics: Topics, model: str, spec: ModelSpec | None) -> None:
        self._lanes = topics.lanes(model)
        self._deadline_s = None if spec is None else spec.default_deadline_s
        self._policy = None if spec is None else spec.batching
        self._shapes = None
        if spec is not None:
            self._shapes = Shapes(signature_of(spec), spec.max_batch_size, spec.batching.cost)

    def read(self, record: Record) -> Arrival | None:
        """The arrival of a record; None where workers would refuse it unrun."""
        fallback_id = derived_id(record.topic, record.partition, record.offset)
        try:
            request = decode_record(record.value, record.headers, fallback_id, record.timestamp)
            if not isinstance(request, Request):
                return None
            priority = self._priority(request)
            fit = _fit(request.inputs) if self._shapes is None else self._shapes.fit(request.inputs)
        except (Undecodable, InvalidRequest):
            return None
        deadline_s = self._deadline_s
        if request.deadline_ms is not None:
            deadline_s = (request.deadline_ms - record.timestamp) / 1000
        return Arrival(
            record.timestamp / 1000,
            self._lanes[record.topic],
            fit.rows,
            fit.cost,
            fit.nbytes,
            deadline_s,
            fit.bucket,
            request.tenant,
            priority,
        )

    def _priority(self, request: Request) -> int:
        """What level it has, or asks for where nobody says which there are; raises InvalidRequest as workers do."""
        if self._policy is not None:
            return priority_of(self._policy, request.parameters)
        asked = request.parameters.get(PRIORITY, 0)
        return asked if type(asked) is int and asked > 0 else 0


async def record_trace(
    broker: Broker, topics: Topics, model: str, spec: ModelSpec | None, last_s: float | None = None
) -> Recorded:
    """The requests that lie in a model's topics now; `last_s`: of so many seconds before the newest alone.

    Raises:
        InvalidRequest: the model's name is none.
        UnknownModel: it has no request topic.
        BrokerError: the broker does not answer, or does not give its records.
        LoadFailed: the model's file, which says what it takes, cannot be opened.
    """
    check_model_name(model)
    reader = Reader(topics, model, spec)
    arrivals: list[Arrival] = []
    left_out = 0

    def take(record: Record) -> None:
        nonlocal left_out
        arrival = reader.read(record)
        if arrival is None:
            left_out += 1
        else:
            arrivals.append(arrival)

    await read_partitions(broker, await _bounds(broker, topics, model), take)
    newest = max((each.at_s for each in arrivals), default=0.0)
    kept = [each for each in arrivals if last_s is None or each.at_s >= newest - last_s]
    return Recorded(Trace(f"topics of {model}", from_zero(kept)), left_out)


def from_zero(arrivals: list[Arrival]) -> tuple[Arrival, ...]:
    """In order of time, the first at 0. Kafka's milliseconds are kept apart by nothing: several may be equal."""
    first = min((each.at_s for each in arrivals), default=0.0)
    return in_order(_moved(each, -first) for each in arrivals)


def signature_of(spec: ModelSpec) -> tuple[TensorSpec, ...]:
    """The inputs of a model: those that model.yaml declares, else those of its file, which is opened.

    Raises:
        LoadFailed: the file cannot be opened.
    """
    if spec.inputs or spec.engine != "onnxruntime":
        return spec.inputs
    engine = make_engine(spec.engine)
    try:
        return engine.load(spec).signature.inputs
    finally:
        engine.close()


async def _bounds(broker: Broker, topics: Topics, model: str) -> Mapping[TopicPartition, Bounds]:
    async with admin_of(broker) as admin:
        counts = await admin.topics()
        check_has_topics(model, topics, counts)
        found: dict[TopicPartition, Bounds] = {}
        for topic in topics.lanes(model):
            found |= await bounds_of(admin, topic, counts.get(topic, 0))
        return found


def _fit(inputs: Mapping[str, Tensor]) -> Fit:
    shapes = [tensor.shape for tensor in inputs.values()]
    rows = next((shape[0] for shape in shapes if shape), 1)
    nbytes = sum(len(tensor.data) for tensor in inputs.values())
    return Fit(rows, nbytes, tuple(shape[1:] for shape in shapes), float(rows))


def _moved(arrival: Arrival, by_s: float) -> Arrival:
    return replace(arrival, at_s=round(arrival.at_s + by_s, 6))
