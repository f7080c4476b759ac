"""`python -m gateway`: the gateway with settings from the environment. `headrace gateway` takes flags too."""

from __future__ import annotations

import logging
import os
import sys

from producer_sdk.setting import SettingsError
from producer_sdk.settings import load_settings

from .serve import run
from .settings import GatewaySettings

FOREIGN = frozenset({"models", "model"})


def main() -> int:
    try:
        settings = load_settings(GatewaySettings, {}, os.environ, None, FOREIGN)
    except SettingsError as err:
        sys.stderr.write(f"{err}\n")
        return 2
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
