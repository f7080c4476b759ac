"""How far outputs drift from what a request gives by itself, and what that says of the model. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

import numpy as np
from msgspec import Struct

from producer_sdk.errors import HeadraceError
from producer_sdk.tensors import Array, Datatype
from workers.runners.engine import ModelSpec, Signature, TensorSpec

_EXACT = frozenset(Datatype) - {Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64}


class Condition(StrEnum):
    """What is other than when the request ran alone, without padding."""

    AGAIN = "again"  # nothing
    PADDED = "padded"  # it is padded
    MATES = "mates"  # others of its size are in the batch
    BOTH = "both"  # others of other sizes are in the batch, and it is padded to the largest


class Drift(Struct, frozen=True):
    """The greatest drift of an output under one condition.

    Attributes:
        absolute: greatest difference of two elements; infinite where they cannot be compared.
        relative: the same as a share of the greatest element of the output over all requests.
        where: in which run.
    """

    absolute: float = 0.0
    relative: float = 0.0
    where: str = ""


class OutputJudged(Struct, frozen=True):
    """One output.

    Attributes:
        drifts: by condition, of those that were tried.
        findings: what is wrong, sentences.
    """

    name: str
    datatype: Datatype
    drifts: Mapping[Condition, Drift]
    findings: tuple[str, ...]

    @property
    def greatest(self) -> Drift:
        return max(self.drifts.values(), key=lambda drift: drift.relative, default=Drift())


class ModelJudged(Struct, frozen=True):
    """One model. `faults` are sentences that are about no output alone."""

    model: str
    version: str
    requests: int
    most_rows: int
    outputs: tuple[OutputJudged, ...]
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        return not self.faults and not any(output.findings for output in self.outputs)


def cannot_be_judged(spec: ModelSpec, reason: str) -> ModelJudged:
    return ModelJudged(spec.name, spec.version, 0, 0, (), (reason,))


class Judge:
    """Gathers the results of one model's runs. `tolerance` is relative; what is no float must be equal."""

    def __init__(self, signature: Signature, tolerance: float) -> None:
        self._signature = signature
        self._tolerance = tolerance
        self._truths: dict[int, Mapping[str, Array]] = {}
        self._scales: dict[str, float] = {}
        self._drifts: dict[str, dict[Condition, Drift]] = {spec.name: {} for spec in signature.outputs if spec.batched}
        self._shapes: dict[str, str] = {}
        self._failures: dict[Condition, str] = {}

    def add(self, number: int, truth: Mapping[str, Array]) -> None:
        """What the request of this number gives by itself."""
        self._truths[number] = truth
        for name in self._drifts:
            array = truth[name]
            if array.size and array.dtype != object:
                numbers = np.abs(np.nan_to_num(array.astype(np.float64), posinf=0.0, neginf=0.0))
                self._scales[name] = max(self._scales.get(name, 0.0), float(numbers.max()))

    def note(self, condition: Condition, number: int, result: Mapping[str, Array] | HeadraceError, where: str) -> None:
        """What it gave in another run."""
        truth = self._truths.get(number)
        if truth is None:
            return
        if isinstance(result, HeadraceError):
            self._failures.setdefault(condition, f"{where}: {result.message}")
            return
        for spec in self._signature.outputs:
            if spec.batched:
                self._note(condition, spec, truth[spec.name], result[spec.name], where)

    def _note(self, condition: Condition, spec: TensorSpec, truth: Array, got: Array, where: str) -> None:
        drifts = self._drifts[spec.name]
        if truth.shape != got.shape:
            self._shapes.setdefault(spec.name, f"{list(got.shape)} {where}, but {list(truth.shape)} by itself")
            return
        absolute = _difference(spec, truth, got)
        relative = absolute / (self._scales.get(spec.name) or 1.0) if spec.datatype not in _EXACT else absolute
        before = drifts.setdefault(condition, Drift())
        if relative > before.relative:
            drifts[condition] = Drift(absolute, relative, where)

    def sum_up(self, spec: ModelSpec, most_rows: int) -> ModelJudged:
        outputs = tuple(self._output(each) for each in self._signature.outputs if each.batched)
        faults = tuple(f"a request that runs by itself fails {failure}" for failure in self._failures.values())
        notes = [
            f"output {each.name!r} is one for the whole batch: it was not compared"
            for each in self._signature.outputs
            if not each.batched
        ]
        if most_rows < 2:
            notes.append("max_batch_size is 1: no request shares a batch with another")
        return ModelJudged(spec.name, spec.version, len(self._truths), most_rows, outputs, faults, tuple(notes))

    def _output(self, spec: TensorSpec) -> OutputJudged:
        drifts = self._drifts[spec.name]
        return OutputJudged(spec.name, spec.datatype, drifts, tuple(self._findings(spec, drifts)))

    def _findings(self, spec: TensorSpec, drifts: Mapping[Condition, Drift]) -> Iterator[str]:
        if spec.name in self._shapes:
            yield _shape_finding(spec, self._shapes[spec.name], self._signature)
        limit = 0.0 if spec.datatype in _EXACT else self._tolerance
        bad = {condition: drift for condition, drift in drifts.items() if not drift.relative <= limit}
        if Condition.AGAIN in bad:
            yield (
                f"output {spec.name!r} differs when the same request runs twice ({_size(bad[Condition.AGAIN])}): the "
                "model is not deterministic, as with dropout left on or random sampling; nothing more can be said"
            )
            return
        if Condition.PADDED in bad:
            yield f"output {spec.name!r} {_padding_finding(bad[Condition.PADDED], self._signature)}"
        if Condition.MATES in bad:
            yield (
                f"output {spec.name!r} depends on the other rows of the batch ({_size(bad[Condition.MATES])}): look "
                "for statistics over the batch, as of batch normalisation in training mode, a mean, maximum or sort "
                "along the rows' axis, or the wrong batch_axis"
            )
        if list(bad) == [Condition.BOTH]:
            yield (
                f"output {spec.name!r} depends on requests of other sizes in its batch "
                f"({_size(bad[Condition.BOTH])}), though neither padding nor mates alone change it: look for a mask "
                "or lengths that are applied to the batch as a whole"
            )


def _difference(spec: TensorSpec, truth: Array, got: Array) -> float:
    """The greatest; infinite where one is NaN or infinite and the other is not the same, or where texts differ."""
    if not truth.size:
        return 0.0
    if spec.datatype is Datatype.BYTES:
        return 0.0 if truth.tolist() == got.tolist() else math.inf
    if spec.datatype in _EXACT:
        differ = truth != got
        return float(np.abs(truth[differ].astype(np.float64) - got[differ].astype(np.float64)).max(initial=0.0))
    one, two = truth.astype(np.float64), got.astype(np.float64)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    if not np.isfinite(one[~same]).all() or not np.isfinite(two[~same]).all():
        return math.inf
    return float(np.abs(one[~same] - two[~same]).max(initial=0.0))


def _shape_finding(spec: TensorSpec, shapes: str, signature: Signature) -> str:
    padded = next((each.name for each in signature.inputs if each.pad_to), None)
    told = f"output {spec.name!r} has shape {shapes}"
    if padded is None or spec.cut_like is not None:
        return f"{told}: the model must give each request the same shape"
    return f"{told}: callers see the padding; declare `cut_like: {padded}` for it"


def _padding_finding(drift: Drift, signature: Signature) -> str:
    words = (
        f"changes when the request is padded ({_size(drift)}): padding counts as if it were real, as in a mean, "
        "maximum, softmax or convolution over all positions"
    )
    padded = [each for each in signature.inputs if each.pad_to]
    if all(each.mask is None for each in padded):
        return f"{words}; no `mask` is declared for {padded[0].name!r}: the model cannot know what is real"
    masks = ", ".join(sorted({repr(each.mask) for each in padded if each.mask is not None}))
    return f"{words}; multiply by the mask {masks} there, and divide by its sum"


def _size(drift: Drift) -> str:
    return f"by {drift.absolute:.3g}, {drift.relative:.3g} of its scale, {drift.where}"
