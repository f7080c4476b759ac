"""Asks the demo's questions through the producer SDK: published to Kafka, answered on a reply topic."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from headrace.demo.question import Answer, AnswerReader, Question, Way, told_by_worker
from producer_sdk import Client, HeadraceError, Reply

NO_OUTCOME = "the SDK gave no outcome for it, not even an error."


async def ask_through_sdk(
    bootstrap_servers: str, questions: list[Question], readers: Mapping[str, AnswerReader], window: int
) -> list[Answer]:
    """One answer for each question, model by model; `window` is how many may be unanswered at a time."""
    try:
        async with Client(bootstrap_servers) as client:
            answers = [await _ask_model(client, asked, readers, window) for asked in _by_model(questions)]
            return [answer for group in answers for answer in group]
    except (HeadraceError, OSError) as error:
        return [Answer(question, Way.SDK, 0.0, fault=_sentence(error)) for question in questions]


def _by_model(questions: list[Question]) -> list[list[Question]]:
    models = dict.fromkeys(question.model for question in questions)
    return [[question for question in questions if question.model == model] for model in models]


async def _ask_model(
    client: Client, questions: list[Question], readers: Mapping[str, AnswerReader], window: int
) -> list[Answer]:
    """The answers of one model, in the order of the questions; a failure of the whole call is each open one's fault."""
    model, started_s = questions[0].model, list[float]()

    def inputs() -> Iterator[dict[str, NDArray[Any]]]:
        for question in questions:
            started_s.append(time.monotonic())
            yield question.inputs

    answers: dict[int, Answer] = {}
    fault = NO_OUTCOME
    try:
        async for outcome in client.map(model, inputs(), window=window):
            index = outcome.index
            assert index is not None
            latency_s = time.monotonic() - started_s[index]
            answers[index] = read_outcome(questions[index], outcome, latency_s, readers[model])
    except HeadraceError as error:
        fault = _sentence(error)
    return [answers.get(i, Answer(question, Way.SDK, 0.0, fault=fault)) for i, question in enumerate(questions)]


def read_outcome(question: Question, outcome: Reply | HeadraceError, latency_s: float, reader: AnswerReader) -> Answer:
    """The answer that a reply or an error of the SDK gives to a question."""
    if isinstance(outcome, HeadraceError):
        return Answer(question, Way.SDK, latency_s, fault=_sentence(outcome))
    try:
        label, score = reader.read(outcome.outputs)
    except ValueError as error:
        return Answer(question, Way.SDK, latency_s, fault=str(error))
    return Answer(question, Way.SDK, latency_s, label, score, *told_by_worker(outcome.parameters))


def _sentence(error: HeadraceError | OSError) -> str:
    return f"{error.code}: {error.message}" if isinstance(error, HeadraceError) else f"{error}."
