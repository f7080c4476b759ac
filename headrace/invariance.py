"""Whether a model gives each request the same alone as in a batch, padded or not. `headrace models check --invariance`.

Each sampled request is run alone, without padding: that is the truth. Then it is run again, padded further and further,
with others of its size, and with others of other sizes, at several places of batches of several sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.invariance_judge import Condition, Judge, ModelJudged, cannot_be_judged
from headrace.invariance_runs import Bench, Outputs
from headrace.invariance_samples import Sample, made_up, read_samples
from producer_sdk.errors import HeadraceError, InvalidRequest
from workers.runners.engine import LoadFailed, ModelSpec
from workers.runners.variable import variable_axes
from workers.shapes import Bucket, Shapes

JUDGED = 3  # of each group
MOST_ROWS = 32  # of a batch


def check_model(spec: ModelSpec, tolerance: float, file: Path | None = None) -> ModelJudged:
    """Load a model and judge it, on the requests of the file if there is one. Its code runs in this process."""
    try:
        bench = Bench(spec)
    except LoadFailed as err:
        return cannot_be_judged(spec, f"the model does not load: {err.message}")
    try:
        inputs = bench.loaded.signature.inputs
        samples = made_up(inputs) if file is None else read_samples(file, inputs)
        return _Trial(spec, bench, samples, tolerance).run()
    finally:
        bench.close()


class _Trial:
    """The runs of one model."""

    def __init__(self, spec: ModelSpec, bench: Bench, samples: Sequence[Sample], tolerance: float) -> None:
        signature = bench.loaded.signature
        self._spec = spec
        self._bench = bench
        self._samples = samples
        self._most_rows = min(bench.loaded.max_batch_size, MOST_ROWS)
        self._padded = [each for each in signature.inputs if each.pad_to]
        self._mixes = any(each.pad_to or each.ragged for each in signature.inputs)
        self._shapes = Shapes(signature.inputs, bench.loaded.max_batch_size)
        self._judge = Judge(signature, tolerance)
        self._judged: list[int] = []

    def run(self) -> ModelJudged:
        """Stops at the first request that fails by itself."""
        try:
            alike, mixed = self._groups()
        except InvalidRequest as err:
            return cannot_be_judged(self._spec, f"a request does not fit the model: {err.message}")
        # One of each group after the other, so that small batches mix sizes too.
        self._judged = [group[place] for place in range(JUDGED) for group in alike if place < len(group)]
        for number in self._judged:
            (truth,) = self._run([number], ())
            if isinstance(truth, HeadraceError):
                reason = f"a request fails by itself: {truth.message} (give requests that it takes with --inputs FILE)"
                return cannot_be_judged(self._spec, reason)
            self._judge.add(number, truth)
        self._compare_alone()
        for group in alike:
            for batch in self._batches(group if len(group) > 1 else group * 2):
                self._compare(Condition.MATES, batch, ())
        for group in mixed if self._mixes else ():
            for batch in self._batches([number for number in self._judged if number in group]):
                self._compare(Condition.BOTH, batch, None)
        return self._judge.sum_up(self._spec, self._most_rows)

    def _groups(self) -> tuple[list[list[int]], list[list[int]]]:
        """Requests of equal shapes, and those that may share a batch where sizes are padded; by their numbers."""
        alike: dict[object, list[int]] = {}
        mixed: dict[object, list[int]] = {}
        for number, sample in enumerate(self._samples):
            bucket = self._shapes.fit(sample.inputs).bucket
            exact = bucket.exact if isinstance(bucket, Bucket) else ()
            shapes = tuple(tensor.shape[1:] for tensor in sample.inputs.values())
            alike.setdefault((exact, shapes), []).append(number)
            mixed.setdefault(exact, []).append(number)
        return list(alike.values()), list(mixed.values())

    def _compare_alone(self) -> None:
        for number in self._judged:
            self._compare(Condition.AGAIN, [number], ())
            for pad_to in self._paddings(self._samples[number]):
                self._compare(Condition.PADDED, [number], pad_to)

    def _paddings(self, sample: Sample) -> Iterator[tuple[int, ...] | None]:
        """That of its own bucket, and further ones up to twice the largest."""
        if self._padded:
            yield None
            sizes = sorted({size for each in self._padded for size in each.pad_to})
            largest = max(sample.inputs[each.name].shape[axis] for each in self._padded for axis in variable_axes(each))
            yield from ((size,) for size in [*sizes, 2 * sizes[-1]] if size > largest)

    def _batches(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Batches of two, of three, and as large as may be; each request comes at several places."""
        for order in (list(numbers), list(reversed(numbers))):
            for most in sorted({2, 3, self._most_rows}):
                batch: list[int] = []
                rows = 0
                for number in order:
                    if rows + self._samples[number].rows <= min(most, self._most_rows):
                        batch.append(number)
                        rows += self._samples[number].rows
                if len(batch) > 1:
                    yield batch

    def _run(self, numbers: Sequence[int], pad_to: tuple[int, ...] | None) -> list[Outputs | HeadraceError]:
        return self._bench.run([self._samples[number] for number in numbers], pad_to)

    def _compare(self, condition: Condition, batch: Sequence[int], pad_to: tuple[int, ...] | None) -> None:
        for place, (number, result) in enumerate(zip(batch, self._run(batch, pad_to), strict=True)):
            self._judge.note(condition, number, result, where=_where(condition, batch, place, pad_to))


def _where(condition: Condition, batch: Sequence[int], place: int, pad_to: tuple[int, ...] | None) -> str:
    words = "in its own bucket" if pad_to is None else f"padded to {pad_to[0]}" if pad_to else "not padded"
    if condition is Condition.AGAIN:
        return "alone, run twice"
    return f"alone, {words}" if len(batch) == 1 else f"request {place + 1} of a batch of {len(batch)}, {words}"
