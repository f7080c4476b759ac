"""A reply on the terminal: a table for people, the Open Inference Protocol response for programs."""

from datetime import datetime

import numpy as np

from producer_sdk.broker import Record
from producer_sdk.errors import HeadraceError
from producer_sdk.oip import encode_json_error, encode_json_reply
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Array, Tensor
from producer_sdk.topics import derived_id
from producer_sdk.wire import Reply, Undecodable

VALUES_SHOWN = 12
CHARS_SHOWN = 200


def print_reply(reply: Reply, latency_s: float, as_json: bool) -> None:
    """Print it; `latency_s` is what the caller waited."""
    if as_json:
        print(_json(reply, latency_ms=round(latency_s * 1000, 3)).decode())
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
    rows = _batch_text(reply)
    console.print(
        f"{reply.model} version {reply.version}, id {reply.id}, {latency_s * 1000:.1f} ms{rows}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def reply_text(record: Record, as_json: bool) -> str:
    """The record of a reply topic: a line for each thing that it says, or one line of JSON."""
    fallback_id = record.key.decode(errors="replace") if record.key is not None else derived_id(*_place(record))
    try:
        outcome = decode_reply_record(record.value, record.headers)
    except Undecodable as err:
        outcome = err
    if isinstance(outcome, HeadraceError):
        outcome.id = outcome.id or fallback_id
    if as_json:
        return _json(outcome).decode()
    when = datetime.fromtimestamp(record.timestamp / 1000).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(outcome, HeadraceError):
        return "\n".join([f"{when}  {outcome.id}  {outcome.code}", f"  {outcome.message}", *_stored_text(outcome)])
    rows = _batch_text(outcome)
    lines = [f"{when}  {outcome.id}  {outcome.model} version {outcome.version}{rows}", *_stored_text(outcome)]
    for name, array in outcome.outputs.items():
        datatype, shape = Tensor.from_array(array).datatype, "x".join(map(str, array.shape))
        lines.append(f"  {name} {datatype} {shape}: {shown(array)}")
    return "\n".join(lines)


def _stored_text(outcome: Reply | HeadraceError) -> list[str]:
    ref = outcome.ref
    return [] if ref is None else [f"  stored at {ref.uri} ({ref.nbytes:,} bytes)"]


def _batch_text(reply: Reply) -> str:
    batch = reply.parameters.get("batch_rows")
    return "" if batch is None else f", batch of {batch} row{'' if batch == 1 else 's'}"


def _place(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _json(outcome: Reply | HeadraceError, **more: float) -> bytes:
    if isinstance(outcome, HeadraceError):
        return encode_json_error(outcome.id, outcome, outcome.ref)
    outputs = {name: Tensor.from_array(array) for name, array in outcome.outputs.items()}
    parameters = {**outcome.parameters, **more}
    return encode_json_reply(outcome.id, outcome.model, outcome.version, outputs, parameters, outcome.ref)


def shown(array: Array) -> str:
    """The first values, text as text."""
    flat = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in array.flat[:VALUES_SHOWN]]
    text = ", ".join(each if isinstance(each, str) else np.format_float_positional(each, precision=6, trim="-")
                     if isinstance(each, np.floating) else str(each) for each in flat)  # fmt: skip
    more = " ..." if array.size > VALUES_SHOWN or len(text) > CHARS_SHOWN else ""
    return text[:CHARS_SHOWN] + more
