"""`make chaos`: every fault that we can inject, on Apache Kafka with real processes, and in simulated time."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from chaos_play import play_row
from chaos_row import Result, Row
from chaos_rows import ROWS
from chaos_simulation import Simulated, simulate
from chaos_site import Site, running_site

SEEDS = 300
SIMULATED = "simulated"
EPILOG = """\
One line a fault: requests sent, requests with an outcome, lost ones, requests whose caller saw two answers, repeats on
the topics (which readers drop), and the seconds from the end of the fault until all that was accepted before it had its
outcome. Ends with 1 when a row loses, contradicts itself, shows a caller two answers, or repeats without a kill.

  make chaos                                          all of it, about 15 minutes
  python tests/chaos/run.py --list                    the faults
  python tests/chaos/run.py --row worker-killed       one fault; may be given several times
  python tests/chaos/run.py --kafka-client librdkafka all of it on the other client
  python tests/chaos/run.py --row simulated --seed 7  one seed in simulated time
"""
HEAD = f"{'fault':<22}{'sent':>7}{'outcomes':>10}{'lost':>6}{'twice':>7}{'repeats':>9}{'recovery':>10}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", action="append", metavar="NAME", help="play only this fault")
    parser.add_argument("--list", action="store_true", help="name the faults and end")
    parser.add_argument("--seed", type=int, default=None, help="of the requests, and the one to simulate")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of the table")
    parser.add_argument(
        "--kafka-client", choices=["aiokafka", "librdkafka"], default="aiokafka", help="of all programs"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave models and logs of the workers there")
    return parser.parse_args()


def main() -> int:
    """The exit code."""
    given = arguments()
    for noisy in (
        "aiokafka",
        "librdkafka",
        "asyncio",
        "headrace",
        "producer_sdk",
    ):  # what they say of a broken broker is no news here
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    names = [row.name for row in ROWS] + [SIMULATED]
    if given.list:
        print("\n".join(f"{row.name:<22}{row.fault}" for row in ROWS))
        print(f"{SIMULATED:<22}{SEEDS} seeds of random faults, in memory and in simulated time")
        return 0
    if unknown := set(given.row or ()) - set(names):
        print(f"There is no fault {', '.join(sorted(unknown))}: see --list.", file=sys.stderr)
        return 2
    wanted = given.row or names
    if not given.json:
        print(HEAD, flush=True)
    results = [show(simulated(given.seed), given.json)] if SIMULATED in wanted else []
    rows = [row for row in ROWS if row.name in wanted]
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as temporary:
        folder = given.keep or Path(temporary)
        results += play_all(rows, folder, given.seed or 0, given.json, given.kafka_client) if rows else []
    broken = [result.row for result in results if result.breaks]
    if not given.json:
        print(summary(len(results), broken))
    return 1 if broken else 0


def summary(played: int, broken: Sequence[str]) -> str:
    """The last line."""
    faults = f"{played} fault{'' if played == 1 else 's'}"
    if not broken:
        return f"{faults}, none breaks the promise"
    return f"{faults}, {len(broken)} break{'s' if len(broken) == 1 else ''} the promise: {', '.join(broken)}"


def play_all(rows: Sequence[Row], folder: Path, seed: int, as_json: bool, kafka_client: str) -> list[Result]:
    """On one broker, one row after the other."""
    with running_site(kafka_client) as site:
        return [show(played(row, site, folder, seed), as_json) for row in rows]


def played(row: Row, site: Site, folder: Path, seed: int) -> Result:
    """A row; whatever goes wrong is its result."""
    began = time.monotonic()
    try:
        return asyncio.run(play_row(row, site, folder, seed=seed))
    except Exception as err:  # noqa: BLE001 - the other rows are still to be played
        reason = f"the row could not be played: {type(err).__name__}: {err}"
        return Result(row.name, 0, 0, 0, 0, 0, 0.0, (reason,), time.monotonic() - began)


def simulated(seed: int | None) -> Result:
    """All seeds as one row; breaks name the seed to repeat."""
    began = time.monotonic()
    runs: list[Simulated] = [simulate(each) for each in (range(SEEDS) if seed is None else [seed])]
    return Result(
        SIMULATED,
        sum(run.sent for run in runs),
        sum(run.judged.outcomes for run in runs),
        sum(len(run.judged.lost) for run in runs),
        sum(len(run.seen_twice) for run in runs),
        sum(run.judged.repeats for run in runs),
        max(run.recovery_s for run in runs),
        tuple(f"seed {run.seed} ({', '.join(run.faults)}): {broken}" for run in runs for broken in run.breaks),
        time.monotonic() - began,
    )


def show(result: Result, as_json: bool) -> Result:
    """Print a row as soon as it has ended."""
    if as_json:
        print(json.dumps(msgspec.to_builtins(result)), flush=True)
        return result
    print(
        f"{result.row:<22}{result.sent:>7}{result.outcomes:>10}{result.lost:>6}{result.seen_twice:>7}"
        f"{result.repeats:>9}{result.recovery_s:>9.1f}s",
        flush=True,
    )
    for each in result.breaks[:10]:
        print(f"  BROKEN: {each}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
