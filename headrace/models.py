"""`headrace models list` and `headrace models check`."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from headrace.cli import Debug, Json, plain_app
from headrace.failure import UsageError
from headrace.flags import verb
from producer_sdk.announcements import TensorAnnouncement
from producer_sdk.directory import ModelDirectory, ModelView
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics

app = plain_app(help="List the models being served; check a model directory.", no_args_is_help=True)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The model directory.")]
Deep = Annotated[bool, typer.Option("--deep", help="Open and warm up each ONNX file too.")]
CHECK_EPILOG = """\
\b
  headrace models check ./models

Exit code 1 when there is a fault; a note alone is none. Without --deep no model is loaded.
"""


@verb(app, KafkaSettings, name="list")
def list_models(settings: KafkaSettings, as_json: Json = False) -> int:
    """List the models that workers announce: state, versions, what they take and give."""
    views = asyncio.run(_served(settings))
    if as_json:
        print(json.dumps([document(view) for view in views]))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "versions", "state", "workers", "inputs", "outputs", box=None, pad_edge=False)
    for view in views:
        state = view.state if not view.reasons else f"{view.state}: {'; '.join(view.reasons)}"
        signature = (signature_text(view.newest.inputs), signature_text(view.newest.outputs))
        cells = (view.name, ", ".join(view.versions), state, f"{view.ready_workers} of {view.workers}", *signature)
        table.add_row(*map(Text, cells))
    Console().print(table if views else "No worker announces a model.")
    return 0


@app.command("check", epilog=CHECK_EPILOG)
def check(directory: Directory, deep: Deep = False, as_json: Json = False, debug: Debug = False) -> None:
    """Check a model directory; explain every fault with file, key and reason."""
    from workers.models import check_models

    if not directory.is_dir():
        raise UsageError(f"{directory} is no folder: name a model directory.")
    faults = check_models(directory, deep=deep)
    if as_json:
        print(json.dumps([msgspec.to_builtins(fault) for fault in faults]))
    else:
        _print_faults([(fault.file, fault.key, fault.reason, "" if fault.fatal else "note") for fault in faults])
    raise typer.Exit(1 if any(fault.fatal for fault in faults) else 0)


def _print_faults(faults: list[tuple[str, str, str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("file", "key", "reason", "", box=None, pad_edge=False)
    for fault in faults:
        table.add_row(*map(Text, fault))
    Console().print(table if faults else "No fault found.")


def document(view: ModelView) -> dict[str, Any]:
    """A model as JSON."""
    return {
        "model": view.name,
        "versions": view.versions,
        "state": view.state,
        "reasons": view.reasons,
        "workers": view.workers,
        "ready_workers": view.ready_workers,
        "platform": view.newest.platform,
        "max_batch_size": view.newest.max_batch_size,
        "inputs": [_tensor(each) for each in view.newest.inputs],
        "outputs": [_tensor(each) for each in view.newest.outputs],
    }


def signature_text(tensors: tuple[TensorAnnouncement, ...]) -> str:
    """As `x FP32 [-1], y BYTES [1]`."""
    return ", ".join(f"{each.name} {each.datatype} {list(each.shape)}" for each in tensors)


def _tensor(tensor: TensorAnnouncement) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape, "batched": tensor.batched}


async def _served(settings: KafkaSettings) -> list[ModelView]:
    directory = ModelDirectory(settings.broker(), Topics(settings.prefix))
    await directory.start()
    try:
        return list(directory.models().values())
    finally:
        await directory.close()
