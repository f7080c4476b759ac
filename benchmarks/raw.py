"""The ceiling: onnxruntime alone on one thread, one batch after another: `python -m benchmarks.raw MODEL FILE BATCH`.

Writes samples per second. Several started together overlap: each works a while before and after what it measures.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.subjects import Subject, open_session

RUN_S = 2.0
MARGIN_S = 0.5


def rate(subject: Subject) -> float:
    """Samples per second at the subject's batch."""
    session = open_session(subject.file)
    rows = [subject.row(number) for number in range(subject.batch)]
    batch = {name: np.concatenate([row[name] for row in rows]) for name in subject.rows}

    def run_for(seconds: float) -> float:
        began, runs = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < seconds:
            session.run(None, batch)
            runs += 1
        return runs * subject.batch / passed

    run_for(MARGIN_S)
    measured = run_for(RUN_S)
    run_for(MARGIN_S)
    return measured


if __name__ == "__main__":
    print(rate(Subject.of(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))), flush=True)
