"""For Locust, which is not among headrace's packages: `locust -f benchmarks/locustfile.py --host http://GATEWAY:8000`.

With `--headless --users 500 --spawn-rate 100 --run-time 10m` it is a common check of a deployment. MODEL names the
model, MAX_WAIT the seconds between a user's requests (0 by default: a closed loop). The model's inputs are read from
the gateway and filled with ones. Locust's users are heavy: where they are not enough, `python -m benchmarks.load` gives
more, and has an open loop.
"""

from __future__ import annotations

import os
from typing import Any

from locust import FastHttpUser, constant, events, task  # type: ignore[import-not-found]

MODEL = os.environ.get("MODEL", "mlp")
PATH = f"/v2/models/{MODEL}"
MOST_P99_MS, MOST_ERRORS = 300, 0.001


def tensor(described: dict[str, Any]) -> dict[str, Any]:
    """One row of ones; variable axes are 3 long."""
    shape = [1, *(3 if length < 0 else length for length in described["shape"][1:])]
    count = 1
    for length in shape:
        count *= length
    value = "hello" if described["datatype"] == "BYTES" else 1
    return {"name": described["name"], "shape": shape, "datatype": described["datatype"], "data": [value] * count}


class Caller(FastHttpUser):  # type: ignore[misc]
    """Asks for one row after another."""

    wait_time = constant(float(os.environ.get("MAX_WAIT", "0")))

    def on_start(self) -> None:
        described = self.client.get(PATH, name="metadata").json()
        self.body = {"inputs": [tensor(each) for each in described["inputs"]]}

    @task  # type: ignore[untyped-decorator]
    def infer(self) -> None:
        self.client.post(f"{PATH}/infer", json=self.body, name="infer")


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def judge(environment: Any, **_: Any) -> None:
    """Exit code 1 when P99 or the share of errors is over its limit."""
    total = environment.stats.total
    if total.fail_ratio > MOST_ERRORS or (total.get_response_time_percentile(0.99) or 0) > MOST_P99_MS:
        environment.process_exit_code = 1
