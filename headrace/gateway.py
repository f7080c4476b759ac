"""`headrace gateway`."""

from gateway.settings import GatewaySettings
from headrace.cli import plain_app
from headrace.event_loop import calm_collector, run
from headrace.flags import verb

app = plain_app()
EPILOG = """\
\b
Serve HTTP on port 8000, with /livez, /readyz and /metrics on 8002:
  headrace gateway --bootstrap-servers kafka-1:9092
Ask it:
  curl http://localhost:8000/v2/models/sum/infer -d \\
    '{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}'

It learns models from what the workers announce; any number of gateways may run.
"""


@verb(app, GatewaySettings, epilog=EPILOG)
def gateway(settings: GatewaySettings) -> int:
    """Serve HTTP over the queue: the Open Inference Protocol under /v2, and /v1/infer."""
    from gateway.serve import serve
    from workers.log import set_up_logging

    set_up_logging(settings.log_level, settings.log_format)
    calm_collector()
    return run(serve(settings))
