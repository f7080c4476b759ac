"""The command `headrace`, also as `python -m headrace`."""

import os
import sys


def main() -> None:
    """Run the command line; ends the process with 0 clean, 1 failed, 2 wrong usage, 3 forced."""
    # Imports wait until here, so that `python -m headrace` can first see to it that it finds its own.
    from headrace.cli import app

    try:
        app()
    except Exception as error:  # noqa: BLE001 - the border to the person at the terminal
        # Explaining imports the error tree, which a run without error need not pay for.
        from headrace.failure import explain

        sys.exit(explain(error))


def import_nothing_of_the_working_folder() -> None:
    """Undo that `python -m` looks there first: a workers.py or queue.py of the user would be taken for ours."""
    # os is loaded at this point; pathlib may not be.
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:
        return  # a folder that has been removed holds no files
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == here != home:
        del sys.path[0]


if __name__ == "__main__":
    import_nothing_of_the_working_folder()
    main()
