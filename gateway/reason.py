"""What callers may read of a worker's reason. Pure."""

from __future__ import annotations

import re

MAX_CHARS = 300

_END = re.compile(r"\n|[.;:,]?\s+(?:its |his )?last words\b|;\s|\.\s+(?=[A-Z])")
_QUOTED_PATH = re.compile(r"""(['"])(?:~?/|[A-Za-z]:[\\/])[^'"\n]*[\\/]([^'"\n]*)\1""")
_BARE_PATH = re.compile(r"""(?<![\w/.:'"])(?:~?/|[A-Za-z]:[\\/])[^\s'"<>,;:()]*[\\/]([^\s'"<>,;:()\\/]*)""")


def for_callers(reason: str) -> str:
    """The first sentence, with the last part of each path in place of the path.

    A caller can do nothing with a folder of the server or with a program's output; who runs it finds both in the
    worker's log and in `headrace models list`.
    """
    first = _END.split(reason.strip(), maxsplit=1)[0]
    named = _BARE_PATH.sub(r"\1", _QUOTED_PATH.sub(r"\1\2\1", first))
    return named if len(named) <= MAX_CHARS else named[:MAX_CHARS] + "..."
