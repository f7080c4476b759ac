"""`headrace worker`."""

from headrace.cli import plain_app
from headrace.event_loop import calm_collector, run
from headrace.failure import CommandError
from headrace.flags import verb
from workers.settings import WorkerSettings

app = plain_app()
EPILOG = """\
\b
Serve all models of a directory:
  headrace worker --bootstrap-servers kafka-1:9092,kafka-2:9092 --models /srv/models
Serve one of them, and leave within a minute at TERM:
  headrace worker --models /srv/models --model resnet50 --drain-timeout-s 60

/startupz, /livez, /readyz and /metrics are on the admin port. A first TERM drains, a second ends at once with exit
code 3; USR1 makes the worker quiet: it takes no new work, but keeps its partitions until TERM.
"""


@verb(app, WorkerSettings, epilog=EPILOG)
def worker(settings: WorkerSettings) -> int:
    """Serve models: take requests from Kafka in micro-batches, run them on the device, reply, commit."""
    from workers.models import ModelsRefused
    from workers.serve import serve

    calm_collector()
    try:
        return run(serve(settings))
    except ModelsRefused as err:
        raise CommandError(f"The models cannot be served:\n{err}") from err
