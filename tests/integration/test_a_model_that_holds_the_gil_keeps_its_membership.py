"""A model call that holds the interpreter lock for long neither costs the worker its membership nor runs twice."""

from pathlib import Path

import numpy as np
import pytest
from model_folders import GIL_HOLDING, python_model
from worker_rig import running_worker

from producer_sdk import Client
from producer_sdk.broker import Broker

CALL_S = 20.0
SESSION_S = 6.0


@pytest.mark.timeout(180)
async def test_a_20_s_call_with_a_session_of_6_s_changes_no_membership_and_runs_once(
    kafka_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", GIL_HOLDING)
    async with (
        running_worker(kafka_broker, models, prefix, session_timeout_s=SESSION_S) as worker,
        Client(kafka_broker, prefix=prefix) as client,
    ):
        loop = worker.loops[0]
        assignments = loop.intake.assignments
        reply = await client.infer("m", {"x": np.array([[CALL_S, 1]], np.float32)}, deadline_s=60)
        assert reply.outputs["y"][0, 1] == 2.0
        assert reply.parameters["run_ms"] >= CALL_S * 1000
        assert loop.intake.assignments == assignments
        assert loop.metrics.batches == 1
