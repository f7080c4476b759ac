"""Asks the demo's questions over HTTP, as a program without the SDK would: Open Inference Protocol JSON, by curl."""

import asyncio
import http.client
import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.demo.question import Answer, AnswerReader, Question, Way, told_by_worker

TIMEOUT_S = 60.0
DATATYPES = {"float32": "FP32", "int32": "INT32"}
JSON_HEADER = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class HttpOutcome:
    """What came back for one POST. `fault` says why there is no HTTP answer at all (then `status` is 0)."""

    status: int
    body: bytes
    latency_s: float
    fault: str = ""


async def ask_through_http(
    gateway: str, questions: list[Question], readers: Mapping[str, AnswerReader], curl: str | None
) -> list[Answer]:
    """One answer for each question, in their order, all asked at once; without a path of `curl`, urllib asks."""
    way = Way.CURL if curl else Way.URLLIB

    async def ask(question: Question) -> Answer:
        url, body = f"{gateway}/v2/models/{question.model}/infer", request_body(question)
        outcome = await (_post_by_curl(curl, url, body) if curl else asyncio.to_thread(_post_by_urllib, url, body))
        return read_response(question, way, outcome, readers[question.model])

    return list(await asyncio.gather(*(ask(question) for question in questions)))


def find_curl() -> str | None:
    """The path of the curl program, where there is one."""
    return shutil.which("curl")


def request_body(question: Question) -> bytes:
    """The question as an Open Inference Protocol infer request."""
    inputs = [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": DATATYPES[array.dtype.name],
            "data": array.ravel().tolist(),
        }
        for name, array in question.inputs.items()
    ]
    return json.dumps({"inputs": inputs}).encode()


def read_response(question: Question, way: Way, outcome: HttpOutcome, reader: AnswerReader) -> Answer:
    """The answer that an HTTP response gives to a question."""
    if outcome.fault:
        return Answer(question, way, outcome.latency_s, fault=outcome.fault)
    try:
        content = json.loads(outcome.body)
        if outcome.status != 200:
            reason = f"HTTP {outcome.status}, {content.get('code', 'no code')}: {content.get('error', content)}"
            return Answer(question, way, outcome.latency_s, fault=reason)
        label, score = reader.read({output["name"]: _array(output) for output in content["outputs"]})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"HTTP {outcome.status} with a body that is no Open Inference Protocol answer: {error!r}."
        return Answer(question, way, outcome.latency_s, fault=reason)
    return Answer(question, way, outcome.latency_s, label, score, *told_by_worker(content.get("parameters") or {}))


def _array(output: dict[str, Any]) -> NDArray[Any]:
    return np.asarray(output["data"], dtype=np.float32).reshape(output["shape"])


async def _post_by_curl(curl: str, url: str, body: bytes) -> HttpOutcome:
    command = [curl, "--silent", "--show-error", "--max-time", str(TIMEOUT_S), "--noproxy", "*"]
    command += ["--header", "content-type: application/json", "--data-binary", "@-"]
    command += ["--write-out", "\n%{http_code} %{time_total}", url]
    pipe = asyncio.subprocess.PIPE
    started_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        output, complaint = await process.communicate(body)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = complaint.decode(errors="replace").strip()
        return HttpOutcome(0, b"", time.monotonic() - started_s, f"curl ended with {process.returncode}: {said}.")
    content, _, measured = output.rpartition(b"\n")
    status, latency_s = measured.split()
    return HttpOutcome(int(status), content, float(latency_s))


def _post_by_urllib(url: str, body: bytes) -> HttpOutcome:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    started_s = time.monotonic()
    try:
        with opener.open(urllib.request.Request(url, body, JSON_HEADER), timeout=TIMEOUT_S) as response:
            return HttpOutcome(response.status, response.read(), time.monotonic() - started_s)
    except urllib.error.HTTPError as error:
        with error:
            return HttpOutcome(error.code, error.read(), time.monotonic() - started_s)
    except (OSError, http.client.HTTPException) as error:
        return HttpOutcome(0, b"", time.monotonic() - started_s, f"{url} cannot be reached: {error}.")
