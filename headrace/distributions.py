"""What is installed: `headrace` carries the SDK's folder, so `headrace-sdk` must not be installed beside it."""

import importlib.metadata
import sys

CONFLICT = (
    "The distributions headrace and headrace-sdk are both installed, and both bring the folder producer_sdk: which one "
    "is used depends on the order of installation. Uninstall both, then install headrace alone."
)


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, None when it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def has_conflict() -> bool:
    """Whether both distributions are installed."""
    return installed("headrace-sdk") is not None and installed("headrace") is not None


def warn_of_conflict() -> None:
    """Say so on stderr, once a run."""
    if has_conflict():
        print(f"Warning: {CONFLICT}", file=sys.stderr)
