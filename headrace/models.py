"""`headrace models list` and `headrace models check`."""

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from headrace.cli import Debug, Json, plain_app
from headrace.failure import CommandError, UsageError
from headrace.flags import verb
from headrace.print_table import print_lines
from producer_sdk.announcements import TensorAnnouncement
from producer_sdk.directory import ModelDirectory, ModelView
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics

if TYPE_CHECKING:
    from workers.check import Checked

app = plain_app(help="List the models being served; check a model directory.", no_args_is_help=True)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The model directory.")]
Deep = Annotated[bool, typer.Option("--deep", help="Open and warm up each ONNX file too.")]
Invariance = Annotated[
    bool, typer.Option("--invariance", help="Run the models: do requests get the same alone as padded and in a batch?")
]
Model = Annotated[list[str] | None, typer.Option("--model", metavar="NAME", help="Of --invariance: this model alone.")]
Inputs = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE", help="Of --invariance: requests as JSON, in place of made-up ones."),
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0.0, help="Of --invariance: most drift, as a share of an output's scale.")
]
CHECK_EPILOG = """\
\b
  headrace models check ./models

DIR is the folder that holds a folder for each model. Exit code 1 when there is a fault; a note alone
is none. Without --deep no ONNX file is opened; the code of a model.py is read, never run.

\b
  headrace models check ./models --invariance --model scorer

loads and runs the models, here and now. Exit code 1 when an output drifts further than --tolerance.
"""


@verb(app, KafkaSettings, name="list")
def list_models(settings: KafkaSettings, as_json: Json = False) -> int:
    """List the models that workers announce: state, versions, what they take and give."""
    views = asyncio.run(_served(settings))
    if as_json:
        print(json.dumps([document(view) for view in views]))
        return 0
    print_views(views)
    return 0


def print_views(views: list[ModelView]) -> None:
    """A table for people; what is the matter with a model comes below it, for a sentence needs the whole width."""
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "versions", "state", "workers", "inputs", "outputs", box=None, pad_edge=False)
    for column in table.columns[:4]:
        column.no_wrap = True
    for view in views:
        signature = (signature_text(view.newest.inputs), signature_text(view.newest.outputs))
        cells = (view.name, ", ".join(view.versions), view.state, f"{view.ready_workers} of {view.workers}", *signature)
        table.add_row(*map(Text, cells))
    reasons = [f"{view.name}: {reason}" for view in views for reason in view.reasons]
    print_lines(table if views else None, reasons if views else ["No worker announces a model."])


@app.command("check", epilog=CHECK_EPILOG)
def check(
    directory: Directory,
    deep: Deep = False,
    invariance: Invariance = False,
    model: Model = None,
    inputs: Inputs = None,
    tolerance: Tolerance = 1e-3,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check a model directory; explain every fault with file, key and reason."""
    from workers.check import check_models

    if not directory.is_dir():
        raise UsageError(f"{directory} is no folder: name a model directory.")
    if invariance:
        raise typer.Exit(_check_invariance(directory, model or [], inputs, tolerance, as_json))
    if model or inputs is not None:
        raise UsageError("--model and --inputs belong to --invariance.")
    found = check_models(directory, deep=deep)
    if as_json:
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        print_checked(found)
    raise typer.Exit(1 if any(fault.fatal for fault in found.faults) else 0)


def _check_invariance(directory: Path, names: list[str], file: Path | None, tolerance: float, as_json: bool) -> int:
    from headrace.invariance import check_model
    from headrace.invariance_report import print_judged, report
    from workers.models import ModelsRefused, find_models

    try:
        specs = find_models(directory, names)
    except ModelsRefused as err:
        raise CommandError(f"the models cannot be run:\n{err}") from err
    if file is not None and len(specs) > 1:
        raise UsageError("--inputs are for one model: name it with --model.")
    log = logging.getLogger("headrace.runner")
    before = log.level
    log.setLevel(logging.ERROR)  # what fails is told below, without a traceback
    try:
        judged = [check_model(spec, tolerance, file) for spec in specs]
    finally:
        log.setLevel(before)
    if as_json:
        print(json.dumps(report(judged)))
    else:
        print_judged(judged)
    return 0 if all(each.passes for each in judged) else 1


def print_checked(found: "Checked") -> None:
    """The models as a table, then each fault on a line of its own."""
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "version", "engine", "batch rows", "check", box=None, pad_edge=False)
    for each in found.models:
        told = (each.version, each.engine, each.max_batch_size)
        cells = ["-" if value is None else str(value) for value in told]
        table.add_row(*map(Text, [each.model, *cells, "sound" if each.servable else "FAULTY"]))
    sentences = [f"{'fault' if fault.fatal else 'note'}: {fault}" for fault in found.faults]
    print_lines(table if found.models else None, sentences or ["No fault found."])


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
