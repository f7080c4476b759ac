"""`python -m headrace.demo`: exit code 0 when every answer was right, 1 when not, 130 when it was stopped."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from rich.console import Console

from headrace.demo.run import Demo

STOPPED = 130


def main() -> int:
    """Reads the command line and runs the demo."""
    parser = argparse.ArgumentParser(prog="python -m headrace.demo", description="Real models, real inputs, one table.")
    parser.add_argument(
        "--checkout",
        type=Path,
        default=Path(__file__).resolve().parents[2],
        help="the checkout of headrace whose files are asked about (default: the one this demo lies in)",
    )
    checkout, console = parser.parse_args().checkout, Console()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return 0 if Demo(checkout, console).run() else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("The demo was stopped before its end; all that it started has ended.")
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
