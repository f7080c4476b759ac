"""A record that cannot be decoded for a fault of ours costs its neighbours nothing."""

from pathlib import Path

import numpy as np
from decode_rig import REPLIES, SOURCE, ARecord, accepted, decoder, read

from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request, encode_request
from workers.backlog import Backlog
from workers.later import Later
from workers.reception import Reception
from workers.reply import Scribe
from workers.runners.engine import ModelSpec, TensorSpec
from workers.work import Outcome

WIDE = TensorSpec("x", Datatype.FP32, (40,))


class FaultyCancels:
    def __len__(self) -> int:
        return 1

    def covers(self, id: str, published_ms: int) -> bool:
        if id == "id-3":
            raise KeyError(id)
        return False


def record(number: int) -> ARecord:
    tensor = Tensor.from_array(np.ones((1, 40), np.float32))
    return ARecord(encode_request(Request(f"id-{number}", {"x": tensor}, reply_to=REPLIES)), offset=number)


async def test_of_neighbours_read_together_only_the_one_at_fault_is_given_up() -> None:
    by, topics = decoder(WIDE, cancels=FaultyCancels()), Topics("p")
    accepted(read(record(0), by))  # from now on they are read together
    backlog, given_up = Backlog(100, 1 << 20), list[Outcome]()
    spec = ModelSpec("m", "2", Path(), "python")
    reception = Reception(spec, topics, by, Scribe(topics, "m", "2", 1 << 20), backlog, Later(1), None, given_up.extend)
    await reception.receive([record(number) for number in range(1, 7)], SOURCE.ledger, Lane.ASYNC)
    waiting = backlog.take_out(lambda work: True)
    assert sorted(work.source.offset for work in waiting) == [1, 2, 4, 5, 6]
    assert [(outcome.source.offset, outcome.code) for outcome in given_up] == [(3, "INTERNAL")]
