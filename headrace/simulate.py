"""`headrace simulate`."""

import asyncio
import json
import sys
from pathlib import Path

import headrace.sim_options as options
from headrace.cli import Json, plain_app
from headrace.failure import CommandError, UsageError
from headrace.flags import verb
from headrace.sim_asked import AskedCases, AskedLoad
from headrace.sim_case import PARTITIONS, Site, simulate_case
from headrace.sim_engine import Delays
from headrace.sim_load import make_trace
from headrace.sim_report import summarize
from headrace.sim_table import Tried, document, print_table
from headrace.sim_times import Formula, Learned, formula_of
from headrace.sim_trace import Trace, TraceUnreadable, load_trace, save_trace
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics
from workers.runners.engine import ModelSpec

app = plain_app()
EPILOG = """\
\b
What would other settings do to the same requests? Nothing is served or changed, and no model is run: the worker's own
batching lives through the requests in virtual time. The requests are those that lie in the model's topics:
  headrace simulate --models ./models --model sum --last-s 600 --max-batch-size 16,32,64 --replicas 1,2
those of a trace that was recorded before:
  headrace simulate --models ./models --model sum --record monday.trace
  headrace simulate --models ./models --model sum --trace monday.trace --max-wait-ms 0,5,20
or made-up ones, of a model that need not exist yet:
  headrace simulate --rate 800 --seconds 60 --pattern bursty --run-ms '8 + 0.5*rows' --deadline-ms 60=3,500=1
Settings given as comma lists are tried each with each, a line of the table for each. Those that are not given are what
model.yaml says. A MIX is VALUE=WEIGHT,...: --lane interactive=9,bulk=1 makes one of ten requests bulk.

in time: answered within the deadline. late: ran, but in vain. expired: the deadline passed while it waited. refused:
told at once that it could not make it. busy: share of the time in which a runner ran.

How far the predictions can be trusted is in docs/simulate.md.
"""


@verb(app, KafkaSettings, epilog=EPILOG)
def simulate(
    settings: KafkaSettings,
    models: options.Models = None,
    model: options.Model = None,
    trace_file: options.TraceFile = None,
    record: options.Record = None,
    last_s: options.LastS = None,
    rate: options.Rate = None,
    seconds: options.Seconds = 60.0,
    pattern: options.PatternName = "poisson",
    rows: options.Rows = "1",
    lengths: options.Lengths = None,
    deadline_ms: options.Deadlines = "none",
    lane: options.Lanes = "async",
    tenant: options.Tenants = "none",
    seed: options.Seed = 0,
    max_batch_size: options.BatchSizes = None,
    max_wait_ms: options.Waits = None,
    slo_ms: options.Slos = None,
    replicas: options.Replicas = None,
    workers: options.Workers = "1",
    partitions: options.Partitions = PARTITIONS,
    run_ms: options.RunMs = None,
    run_spread: options.RunSpread = 0.0,
    run_times: options.RunTimesFile = None,
    overhead_ms: options.OverheadMs = 4.0,
    as_json: Json = False,
) -> int:
    """Predict latencies and deadlines under other batching settings, from recorded or made-up requests."""
    spec = _spec(models, model)
    if rate is not None:
        load = AskedLoad(seconds, pattern, rows, lengths, deadline_ms, lane, tenant, seed)
        trace = make_trace(load.at_rate(rate))
    else:
        trace = _replayed(settings, trace_file, model, spec, last_s)
    if record is not None:
        return _record(trace, record)
    usual = spec or ModelSpec("", "", Path(), "")
    cases = AskedCases(max_batch_size, max_wait_ms, slo_ms, replicas, workers).beside(usual)
    times = _times(spec, run_ms, run_spread, run_times)
    delay_s = overhead_ms / 2000
    site = Site(times, times, usual.batching, Delays(delay_s, reply_s=delay_s), partitions=partitions, seed=seed)
    tried = [Tried(case, summarize(simulate_case(trace, case, site))) for case in cases]
    if as_json:
        print(json.dumps(document(trace, tried)))
    else:
        print_table(trace, tried)
    return 0


def _spec(models: Path | None, model: str | None) -> ModelSpec | None:
    """What model.yaml says. Raises UsageError, CommandError."""
    if models is None:
        return None
    if model is None:
        raise UsageError("--models needs --model NAME: which of the models it is about.")
    from workers.models import ModelsRefused, find_models

    try:
        return find_models(models, [model])[0]
    except ModelsRefused as err:
        raise CommandError(str(err)) from err


def _replayed(
    settings: KafkaSettings, file: Path | None, model: str | None, spec: ModelSpec | None, last_s: float | None
) -> Trace:
    """The trace of a file, or of the model's topics. Raises UsageError, CommandError."""
    if file is not None:
        try:
            return load_trace(file)
        except TraceUnreadable as err:
            raise CommandError(f"{err}.") from err
    if model is None:
        raise UsageError("Say which requests: --rate R, --trace FILE, or --model NAME for those in its topics.")
    from headrace.sim_record import record_trace

    recorded = asyncio.run(record_trace(settings.broker(), Topics(settings.prefix), model, spec, last_s))
    if recorded.left_out:
        print(f"{recorded.left_out} records are left out: workers would refuse them.", file=sys.stderr)
    if not recorded.trace.arrivals:
        raise CommandError(f"The request topics of {model} hold no request to replay.")
    return recorded.trace


def _record(trace: Trace, file: Path) -> int:
    save_trace(trace, file)
    print(f"{len(trace.arrivals)} requests of {trace.seconds:.1f} s are written to {file}.")
    return 0


def _times(spec: ModelSpec | None, formula: str | None, spread: float, file: Path | None) -> Formula | Learned:
    """How long batches take: by formula, else as learned. Raises UsageError, CommandError."""
    if formula is not None:
        try:
            return formula_of(formula, spread)
        except ValueError as err:
            raise UsageError(f"--run-ms: {err}.") from err
    from headrace.sim_learned import NotLearned, learned_beside, learned_in

    try:
        if file is not None:
            return Learned(learned_in(file))
        if spec is not None:
            return Learned(learned_beside(spec))
    except NotLearned as err:
        raise CommandError(f"{err}. Serve the model for a while, or say it by --run-ms '8 + 0.5*rows'.") from err
    raise UsageError("Say how long batches take: --run-ms '8 + 0.5*rows', in milliseconds.")
