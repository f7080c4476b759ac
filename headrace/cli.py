"""The group of verbs. A verb's module is imported when the verb is used: `headrace --help` stays quick."""

import difflib
import importlib
import logging
import os
from typing import Annotated, Any

import typer
import typer.core
import typer.main

VERBS = {
    "dev": "Start Kafka, a worker and a gateway on this machine, for trying things out.",
    "worker": "Serve models: take requests from Kafka in micro-batches, run them, reply.",
    "gateway": "Serve HTTP over the queue: /v2/models/... and /v1/infer.",
    "infer": "Ask a model and wait for its answer.",
    "publish": "Queue a request and go; prints its id.",
    "cancel": "Ask that requests end, by their ids.",
    "replies": "Show the replies to published requests.",
    "dead": "Look at the records that failed; publish them again.",
    "models": "List the models being served; check a model directory.",
    "topics": "Create a model's topics; list topics.",
    "doctor": "Check Kafka, S3, Redis, engines, devices and this machine; say what is wrong and what to do.",
    "payloads": "Delete large inputs and outputs in S3 that have expired.",
    "verify": "Account for every request of a model: answered, dead, waiting or lost.",
    "simulate": "Predict latencies under other batching settings, from recorded or made-up requests.",
    "kafka": "Run a local Apache Kafka alone.",
    "version": "Say which headrace this is.",
}
EPILOG = """\
\b
Try it out:
  headrace dev
and in another terminal, with the address that dev prints:
  headrace infer shout --input prompt=hello --bootstrap-servers HOST:PORT

Every flag can also be an environment variable (HEADRACE_PORT for --port) or a key of a TOML file given by --config,
and be written with underscores (--log_level).
Exit codes: 0 clean, 1 failed, 2 wrong usage, 3 forced, 130 ended by Ctrl-C.
"""


LONGEST = 500


class VerbGroup(typer.core.TyperGroup):
    """Knows the verbs by name, and loads each on use."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS:
            return typer.main.get_command(importlib.import_module(f"headrace.{cmd_name}").app)
        near = difflib.get_close_matches(cmd_name, VERBS, n=1)
        return ctx.fail(f"No such command {cmd_name!r}: did you mean {near[0]!r}?") if near else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


class WholeSentences(typer.core.TyperGroup):
    """Says in its help all that its commands say of themselves, however narrow the terminal."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(LONGEST)) for name, each in commands if each])


def plain_app(**options: Any) -> typer.Typer:
    """A Typer that does not import rich for its help, which would take a fifth of a second."""
    return typer.Typer(
        **{"cls": WholeSentences} | options,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            # A flag may be written as its setting is, with underscores.
            "token_normalize_func": lambda token: token.replace("_", "-"),
        },
    )


def remember_debug(wanted: bool) -> None:
    """Have this process and its children show tracebacks."""
    if wanted:
        os.environ["HEADRACE_DEBUG"] = "1"


Debug = Annotated[
    bool, typer.Option("--debug", callback=remember_debug, help="On an error, show the traceback too. [HEADRACE_DEBUG]")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]

app = plain_app(cls=VerbGroup, no_args_is_help=True, epilog=EPILOG)


@app.callback()
def headrace(debug: Debug = False) -> None:
    """Asynchronous inference over Kafka: micro-batches on workers, one outcome per request."""
    from headrace.distributions import warn_of_conflict

    warn_of_conflict()
    # What a verb cannot do it says in a sentence of its own; Kafka's client would add hundreds.
    if not os.environ.get("HEADRACE_DEBUG"):
        logging.getLogger().addHandler(logging.NullHandler())
