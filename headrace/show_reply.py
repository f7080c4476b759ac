"""A reply on the terminal: a table for people, the Open Inference Protocol response for programs."""

import numpy as np

from producer_sdk.oip import encode_json_reply
from producer_sdk.tensors import Array, Tensor
from producer_sdk.wire import Reply

VALUES_SHOWN = 12
CHARS_SHOWN = 200


def print_reply(reply: Reply, latency_s: float, as_json: bool) -> None:
    """Print it; `latency_s` is what the caller waited."""
    if as_json:
        parameters = {**reply.parameters, "latency_ms": round(latency_s * 1000, 3)}
        outputs = {name: Tensor.from_array(array) for name, array in reply.outputs.items()}
        print(encode_json_reply(reply.id, reply.model, reply.version, outputs, parameters).decode())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("output", "datatype", "shape", "values", box=None, pad_edge=False)
    for name, array in reply.outputs.items():
        datatype, shape = Tensor.from_array(array).datatype, "x".join(map(str, array.shape))
        table.add_row(Text(name), Text(datatype), Text(shape), Text(shown(array)))
    console = Console()
    console.print(table)
    batch = reply.parameters.get("batch_rows")
    rows = f", batch of {batch} rows" if batch is not None else ""
    console.print(
        f"{reply.model} version {reply.version}, id {reply.id}, {latency_s * 1000:.1f} ms{rows}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def shown(array: Array) -> str:
    """The first values, text as text."""
    flat = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in array.flat[:VALUES_SHOWN]]
    text = ", ".join(each if isinstance(each, str) else np.format_float_positional(each, precision=6, trim="-")
                     if isinstance(each, np.floating) else str(each) for each in flat)  # fmt: skip
    more = " ..." if array.size > VALUES_SHOWN or len(text) > CHARS_SHOWN else ""
    return text[:CHARS_SHOWN] + more
