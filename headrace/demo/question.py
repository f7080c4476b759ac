"""What the demo asks and what it got: the values that travel between its steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from numpy.typing import NDArray


class Way(Enum):
    """The way a question took to the model."""

    SDK = "producer SDK"
    """Published to Kafka by `producer_sdk.Client`; the reply read from a reply topic."""
    CURL = "HTTP, curl"
    """Posted to the gateway by the curl program, as Open Inference Protocol JSON."""
    URLLIB = "HTTP, urllib"
    """The same posted by Python, on a machine without curl."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request: tensors with the row axis in front (here always one row), and the labels that are right answers."""

    name: str
    model: str
    inputs: dict[str, NDArray[Any]]
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads a model's answer: the scores are in `output`, one row, in the order of `labels`."""

    output: str
    labels: tuple[str, ...]

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> tuple[str, float]:
        """The best label and its score. Raises ValueError when the outputs are not what the model declares."""
        scores = outputs.get(self.output)
        if scores is None or scores.shape != (1, len(self.labels)):
            shapes = {name: array.shape for name, array in outputs.items()}
            raise ValueError(f"the reply holds {shapes}, not '{self.output}' of shape (1, {len(self.labels)}).")
        best = int(scores[0].argmax())
        return self.labels[best], float(scores[0][best])


def told_by_worker(parameters: Mapping[str, Any]) -> tuple[int | None, float | None]:
    """`batch_rows` and `run_ms` of a reply's parameters, None where they are not what they should be."""
    rows, run_ms = parameters.get("batch_rows"), parameters.get("run_ms")
    return rows if isinstance(rows, int) else None, float(run_ms) if isinstance(run_ms, int | float) else None


@dataclass(frozen=True, slots=True)
class Answer:
    """One outcome. `fault` is a sentence that says why there is no label; it is empty when there is one.

    `latency_s` is what the caller waited, `run_ms` the part of it that the model took for the whole batch.
    """

    question: Question
    way: Way
    latency_s: float
    label: str = ""
    score: float = 0.0
    batch_rows: int | None = None
    run_ms: float | None = None
    fault: str = ""

    @property
    def right(self) -> bool:
        return not self.fault and self.label in self.question.expected

    @property
    def explanation(self) -> str:
        """A sentence for an answer that is not right, and nothing for one that is."""
        if self.right:
            return ""
        place = f"{self.question.name} ({self.question.model}, by {self.way.value})"
        if self.fault:
            return f"{place} got no answer: {self.fault}"
        wanted = " or ".join(self.question.expected)
        return f"{place} was answered '{self.label}' with a score of {self.score:.2f}, but '{wanted}' is right."
