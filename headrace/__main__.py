"""The command `headrace`, also as `python -m headrace`."""

import sys

from headrace.cli import app


def main() -> None:
    """Run the command line; ends the process with 0 clean, 1 failed, 2 wrong usage, 3 forced."""
    try:
        app()
    except Exception as error:  # noqa: BLE001 - the border to the person at the terminal
        # Explaining imports the error tree, which a run without error need not pay for.
        from headrace.failure import explain

        sys.exit(explain(error))


if __name__ == "__main__":
    main()
