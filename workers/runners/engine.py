"""What an engine is: code that loads one model and runs batches of it. One file an engine beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from producer_sdk.dataref import DataRef, S3Prefix
from producer_sdk.errors import Code, HeadraceError
from producer_sdk.tensors import Array, Datatype
from producer_sdk.wire import Scalar

from .policies import BatchPolicy


class TensorSpec(Struct, frozen=True):
    """One input or output of a model.

    Attributes:
        name: its name.
        datatype: Open Inference Protocol datatype.
        shape: without the batch axis; -1 is variable.
        batched: rows lie along the batch axis; False for a tensor that is the same for the whole batch.
        batch_axis: which axis of what the model takes and gives holds the rows; records always have them first.
        pad_to: for an input: sizes that its variable dimensions are padded to, ascending; empty never pads. What is
            larger than the last is padded to its multiples.
        pad_value: what it is padded with.
        mask: an input that is padded with 0 alongside, or made here (1 for what is real) where requests lack it.
        ragged: for an input: the variable leading dimensions of all records are laid end to end, without padding.
        lengths: for a ragged input: the input that gets each row's length.
        ends: for a ragged input: the input that gets where each row ends, lengths added up.
        offsets: for a ragged input: the input that gets the same with a 0 in front, so one more than there are rows.
        cut_like: for an output: the input whose padding is cut off again along this output's variable dimensions, or,
            where that input is ragged, whose lengths divide this output among the records.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    batched: bool = True
    batch_axis: int = 0
    pad_to: tuple[int, ...] = ()
    pad_value: float = 0.0
    mask: str | None = None
    ragged: bool = False
    lengths: str | None = None
    cut_like: str | None = None
    ends: str | None = None
    offsets: str | None = None


class Signature(Struct, frozen=True):
    """What a model takes and gives."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


DEAD_LETTER_CODES = (Code.RUNNER_CRASHED.value, Code.OUT_OF_MEMORY.value, Code.INTERNAL.value)


class RetryPolicy(Struct, frozen=True):
    """How transient failures of one model are tried again.

    Attributes:
        codes: error codes that count as transient; a failure with `retry_after_s` always does.
        limit: most attempts a record, the first included; None takes the worker's `attempt_limit`.
        first_delay_s: pause before the second attempt, doubled for each further one, with jitter.
        longest_delay_s: most seconds of a pause.
        in_place_s: a longer pause goes by the retry topic, a shorter one is waited for in the worker.
    """

    codes: tuple[str, ...] = (Code.MODEL_NOT_READY.value, Code.QUEUE_FULL.value, Code.QUOTA_EXCEEDED.value)
    limit: int | None = None
    first_delay_s: float = 0.2
    longest_delay_s: float = 300.0
    in_place_s: float = 5.0


class Artifact(Struct, frozen=True):
    """A file of a model that is kept in S3.

    Attributes:
        path: where it belongs, in the version's folder; parts divided by `/`, none of them `.` or `..`.
        ref: the object, with its checksum, and its size where that is known.
        version: the version that it is of; None: of each.
    """

    path: str
    ref: DataRef
    version: str | None = None


class ModelSpec(Struct, frozen=True):
    """One version of a model as found in the model directory; all an engine needs to load it.

    Attributes:
        name: model name.
        version: version directory's name.
        folder: the version directory.
        engine: `onnxruntime` or `python`.
        device: `cpu` or `cuda:N`.
        max_batch_size: most rows a batch.
        max_wait_ms: how long the oldest request may wait for company.
        inputs: declared inputs; empty means read from the file.
        outputs: declared outputs; empty means read from the file.
        threads: threads the runner may use for the model.
        isolation: `process` (a runner process owns the device) or `inline` (a thread of the worker).
        attempt_timeout_s: most time for one batch on the device.
        default_deadline_s: deadline of a request that names none; None leaves it without.
        v1_input: input that `/v1/infer` fills from `prompt`.
        v1_output: output that `/v1/infer` answers from; None takes `output`, else the first.
        parameters: the model's own settings, handed to python models.
        dead_letter_codes: errors with these codes leave a dead letter beside the error reply.
        dedupe: `redis` answers a redelivered request from the reply index; None runs it again.
        retry: when and how often a transient failure is tried again.
        batching: in which order requests run, and when batches close.
        replicas: runners beside each other.
        store: where outcomes of requests without a return address are stored; None: only published.
        warnings: what a person should know, one sentence each.
        profile: `cloudevents` makes every reply such an event; with None only replies to such events are.
        states_rows: model.yaml says max_batch_size, which no setting of a worker may raise.
        artifacts: files that have to be fetched before an engine can load it; with none left `folder` is complete.
    """

    name: str
    version: str
    folder: Path
    engine: str
    device: str = "cpu"
    max_batch_size: int = 32
    max_wait_ms: float = 10.0
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    threads: int = 1
    isolation: str = "process"
    attempt_timeout_s: float = 300.0
    default_deadline_s: float | None = None
    v1_input: str = "prompt"
    v1_output: str | None = None
    parameters: Mapping[str, Any] = {}
    dead_letter_codes: tuple[str, ...] = DEAD_LETTER_CODES
    dedupe: str | None = None
    retry: RetryPolicy = RetryPolicy()
    batching: BatchPolicy = BatchPolicy()
    replicas: int = 1
    store: S3Prefix | None = None
    warnings: tuple[str, ...] = ()
    profile: str | None = None
    states_rows: bool = False
    artifacts: tuple[Artifact, ...] = ()


class Loaded(Struct, frozen=True):
    """What the runner says once the model is loaded and warmed.

    Attributes:
        signature: what the model takes and gives.
        platform: Open Inference Protocol platform name, as `onnx_onnxv1` or `python`.
        max_batch_size: rows a batch, after clamping to a fixed batch dimension in the file.
        warnings: what a person should know, one sentence each.
        load_s: seconds to load and warm up.
    """

    signature: Signature
    platform: str
    max_batch_size: int
    warnings: tuple[str, ...] = ()
    load_s: float = 0.0


RowItem = Mapping[str, Array] | Exception


class Engine(Protocol):
    """Loads one model and runs batches. Lives in the runner; one thread calls it.

    `run` gets every input as an array (batched ones stacked over rows, BYTES as object arrays of `bytes`) and one
    dict of parameters a row. It gives either a dict of arrays stacked over rows, or a list with one item a row: a dict
    of arrays without the batch axis, or an exception, which is that row's error. Raising fails the whole batch, which
    the worker then splits.
    """

    def load(self, spec: ModelSpec) -> Loaded: ...

    def run(
        self, inputs: Mapping[str, Array], parameters: Sequence[Mapping[str, Scalar]]
    ) -> Mapping[str, Array] | Sequence[RowItem]: ...

    def close(self) -> None: ...


class LoadFault(StrEnum):
    """What kind of fault keeps a model from loading."""

    PATH = "path"  # a file or folder is not there
    PERMISSION = "permission"  # it is there but must not be read
    FORMAT = "format"  # it was read and is not what it should be
    DEPENDENCY = "dependency"  # a package, driver or device is missing


class LoadFailed(HeadraceError):
    """The model could not be loaded."""

    def __init__(self, message: str, kind: LoadFault = LoadFault.FORMAT) -> None:
        super().__init__(message)
        self.kind = kind


def check_complete(spec: ModelSpec) -> None:
    """Raises LoadFailed where files of the model are to be fetched first."""
    if spec.artifacts:
        raise LoadFailed(
            f"{spec.artifacts[0].path} of model {spec.name} is in S3, and is fetched by headrace worker alone",
            LoadFault.PATH,
        )
