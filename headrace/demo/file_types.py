"""Prepares files for magika's model, which tells a file's type from its bytes, and reads its answer.

The model takes 2048 tokens: the first 1024 bytes of the file's beginning and the last 1024 of its end, each looked for
in a block of 4096 bytes without the white space at the file's edge. A byte is its own token; 256 fills what is missing.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.demo.question import Question

MODEL = "magika"
INPUT = "bytes"
BLOCK_BYTES = 4096
SIDE_TOKENS = 1024
PADDING_TOKEN = 256

# Below this a file is often a docstring or a list of imports, which is plain text to anybody who does not see its name.
MIN_FILE_BYTES = 500
MAX_FILE_BYTES = 1024 * 1024

# A JSON document on one line is also JSON Lines, so both names are right for it.
EXPECTED: dict[str, tuple[str, ...]] = {
    "Makefile": ("makefile",),
    ".json": ("json", "jsonl"),
    ".md": ("markdown",),
    ".proto": ("proto",),
    ".py": ("python",),
    ".sh": ("shell",),
    ".toml": ("toml",),
    ".yaml": ("yaml",),
    ".yml": ("yaml",),
}

# Where a checkout keeps its own files; anything else below it (environments, caches) belongs to other people.
PLACES = (
    "*",
    "docs/**/*",
    "producer_sdk/**/*",
    "workers/**/*",
    "gateway/**/*",
    "headrace/**/*",
    "schemas/**/*",
    "deploy/**/*",
    "benchmarks/**/*",
    "tests/**/*.py",
)


def features(content: bytes) -> NDArray[np.int32]:
    """One row of the model's input, 2048 tokens, for a file of this content."""
    begin = content[:BLOCK_BYTES].lstrip()[:SIDE_TOKENS]
    end = content[-BLOCK_BYTES:].rstrip()[-SIDE_TOKENS:]
    tokens = np.full(2 * SIDE_TOKENS, PADDING_TOKEN, dtype=np.int32)
    tokens[: len(begin)] = np.frombuffer(begin, dtype=np.uint8)
    tokens[len(tokens) - len(end) :] = np.frombuffer(end, dtype=np.uint8)
    return tokens


def labels(config: bytes) -> tuple[str, ...]:
    """The label of each of the model's outputs, out of the JSON configuration that lies beside the model."""
    return tuple(json.loads(config)["target_labels_space"])


def expected_labels(path: Path) -> tuple[str, ...]:
    """The labels that are right for a file of this name; none for a kind of file that the demo does not ask about."""
    return EXPECTED.get(path.suffix if path.suffix else path.name, ())


def choose_files(checkout: Path, max_per_kind: int = 8) -> list[Path]:
    """Files of the checkout to ask about, up to `max_per_kind` a suffix, spread over its folders."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted({path for place in PLACES for path in checkout.glob(place)}):
        if expected_labels(path) and path.is_file() and MIN_FILE_BYTES <= path.stat().st_size <= MAX_FILE_BYTES:
            kinds.setdefault(path.suffix, []).append(path)
    return [path for _, paths in sorted(kinds.items()) for path in _spread(paths, max_per_kind)]


def _spread(paths: list[Path], count: int) -> list[Path]:
    """`count` of the paths at even distances, or all when there are fewer."""
    if len(paths) <= count:
        return paths
    return [paths[position * len(paths) // count] for position in range(count)]


def questions(checkout: Path) -> list[Question]:
    """One question for each chosen file of the checkout."""
    return [
        Question(
            str(path.relative_to(checkout)),
            MODEL,
            {INPUT: features(path.read_bytes())[None]},
            expected_labels(path),
        )
        for path in choose_files(checkout)
    ]
