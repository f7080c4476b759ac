"""What of the model directory is looked at: what `headrace models check` looks at, for the models that are served."""

from msgspec import Struct

from headrace.doctor_line import Area, Line, sentence
from producer_sdk.topics import MODEL_NAME
from workers.overrides import overridden
from workers.runners.engine import ModelSpec
from workers.settings import WorkerSettings

MODELS = Area("models")


class FoundHere(Struct, frozen=True):
    """Models that can be served, and what was found in their directory."""

    specs: tuple[ModelSpec, ...] = ()
    lines: tuple[Line, ...] = ()


def look_at_models(settings: WorkerSettings) -> FoundHere:
    """The models that a worker with these settings would serve. No code of theirs is run."""
    if not settings.models.is_dir():
        text = f"There is no folder {settings.models}: name it by --models, or say --role of who is to run here."
        return FoundHere(lines=(MODELS.fault("directory", text),))
    return FoundHere(tuple(_specs(settings)), tuple(_lines(settings)))


def _specs(settings: WorkerSettings) -> list[ModelSpec]:
    """Those without a fault, as the worker would have them."""
    # Here, since it needs the extra `worker`, which a gateway's machine may not have.
    from workers.models import ModelsRefused, find_models, read_models

    try:
        specs = find_models(settings.models, settings.model, replicas=settings.replicas)
    except ModelsRefused:
        readings, _ = read_models(settings.models, settings.model)
        specs = [reading.spec for reading in readings if reading.spec is not None]
    return overridden([spec for spec in specs if MODEL_NAME.fullmatch(spec.name)], settings)


def _lines(settings: WorkerSettings) -> list[Line]:
    from workers.check import check_models

    checked = check_models(settings.models)
    names = [each.model for each in checked.models if not settings.model or each.model in settings.model]
    others = [str(settings.models / each.model) for each in checked.models if each.model not in names]
    told = [fault for fault in checked.faults if not fault.file.startswith(tuple(f"{other}/" for other in others))]
    absent = [name for name in settings.model if name not in names]
    lines = [
        MODELS.fault("directory", f"{settings.models / name} is not there, but --model names it.") for name in absent
    ]
    lines += [(MODELS.fault if fault.fatal else MODELS.note)("directory", sentence(str(fault))) for fault in told]
    if not any(line.state == "fault" for line in lines):
        lines.insert(0, MODELS.ok("directory", f"{settings.models} holds {', '.join(names)}, without a fault."))
    return lines
