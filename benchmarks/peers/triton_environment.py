"""What Triton's processes need to start, on a busy machine too."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

ATTEMPTS = 4
SMALL_BYTES = 16_384


def variables(environment: Mapping[str, str], row_bytes: int) -> dict[str, str]:
    """To be set before the server starts. Raises SystemExit where it cannot run.

    The wheel's stub looks for libpython by name and would take the system's of the same minor version beside this
    interpreter's standard library: "no attribute '_recursion_count'"
    (https://github.com/triton-inference-server/pytriton/issues/51). Its installation page sets the library's path.

    Its tensor store passes arrays through shared memory. Without it they go through the socket, which gives twice as
    many rows a second where a row is small (mlp), two thirds where it is large (cls).
    """
    folder, library = (sysconfig.get_config_var(name) for name in ("LIBDIR", "INSTSONAME"))
    if not library or not (Path(folder) / library).is_file():
        raise SystemExit("Triton's Python backend needs a Python built with --enable-shared, which this one is not.")
    paths = (folder, environment.get("LD_LIBRARY_PATH"))
    no_store = "1" if row_bytes <= SMALL_BYTES else ""
    return {"LD_LIBRARY_PATH": ":".join(filter(None, paths)), "PYTRITON_NO_TENSORSTORE": no_store}


def again(serve: Callable[[], None], fault: type[Exception]) -> None:
    """Serve; on `fault` a few times. The last is raised.

    The other instances give the first one 1 s to start, which no option of the wheel changes and chance decides on.
    """
    for attempt in range(ATTEMPTS):
        try:
            serve()
            break
        except fault:
            if attempt == ATTEMPTS - 1:
                raise
