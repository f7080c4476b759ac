"""`python -m headrace.demo`: exit code 0 when every answer was right, 1 when not, 130 when it was stopped."""

import argparse
import asyncio
import logging
import os
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
    parser.add_argument("--debug", action="store_true", help="show what the libraries log, and tracebacks")
    arguments, console = parser.parse_args(), Console()
    set_up_logging(arguments.debug)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return 0 if Demo(arguments.checkout, console).run() else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("The demo was stopped before its end; all that it started has ended.")
        return STOPPED


def set_up_logging(debug: bool) -> None:
    """What Kafka's client has to say is for those who debug it; here and in the stack, which inherits the wish."""
    if debug:
        logging.basicConfig(level=logging.INFO)
        os.environ["HEADRACE_DEBUG"] = "1"
    else:
        logging.getLogger().addHandler(logging.NullHandler())


if __name__ == "__main__":
    sys.exit(main())
