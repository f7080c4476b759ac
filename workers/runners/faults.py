"""Names what went wrong in model code: as a typed error of a request, or as the reason why a model cannot load."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Sequence
from pathlib import Path

from producer_sdk.errors import Code, HeadraceError

from .engine import LoadFailed, LoadFault
from .messages import Mishap

MAX_MESSAGE_CHARS = 1000
MAX_RETRY_AFTER_S = 86_400.0
_MEMORY_WORDS = (
    "out of memory",
    "failed to allocate memory",
    "is smaller than requested bytes",  # onnxruntime's arena
    "bad_alloc",
    "bad allocation",
    "can't allocate memory",  # torch's allocator of the host
    "not enough memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cudnn_status_internal_error_device_allocation_failed",
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
)
# After one of these every later CUDA call of the process fails too; only a new process gets over it.
_STICKY_WORDS = (
    "illegal memory access",
    "device-side assert",
    "misaligned address",
    "illegal instruction was encountered",
    "unspecified launch failure",
    "uncorrectable ecc error",
    "launch timed out",
    "hardware stack error",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "uncorrectable nvlink error",
    "cuda failure 700",
    "cuda failure 702",
    "cuda failure 710",
    "cuda failure 719",
    "cudaerrorillegaladdress",
    "cudaerrorassert",
    "cudaerrorlaunchfailure",
    "cudaerrorlaunchtimeout",
    "cudaerrormisalignedaddress",
    "cuda_error_illegal_address",
    "cuda_error_assert",
    "cuda_error_launch_failed",
)
_LOAD_FAULTS: tuple[tuple[type[Exception], LoadFault], ...] = (
    (ImportError, LoadFault.DEPENDENCY),
    (PermissionError, LoadFault.PERMISSION),
    (FileNotFoundError, LoadFault.PATH),
    (NotADirectoryError, LoadFault.PATH),
    (IsADirectoryError, LoadFault.PATH),
)


def mishap_of(err: BaseException) -> Mishap:
    """The error of the wire for an exception from model code; a code and a `retry_after_s` that it carries are kept."""
    words, retry_after_s = words_of(err), _retry_after_s(err)
    if isinstance(err, HeadraceError):
        return Mishap(str(err.code), words, retry_after_s)
    text = f"{type(err).__name__}: {words}"[:MAX_MESSAGE_CHARS]
    code = getattr(err, "code", None)
    if isinstance(code, str) and code in Code.__members__:
        return Mishap(code, words or text, retry_after_s)
    return Mishap(str(Code.OUT_OF_MEMORY if is_out_of_memory(err) else Code.INFERENCE_FAILED), text, retry_after_s)


def _retry_after_s(err: BaseException) -> float | None:
    """What the exception says, if that is a time; model code can set it to anything."""
    said = getattr(err, "retry_after_s", None)
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_RETRY_AFTER_S:
        return None
    return float(said)


def words_of(err: BaseException) -> str:
    """The text of any exception, fit for the wire; model code can make ones whose text raises or is no UTF-8."""
    try:
        text = str(err)
    except BaseException as fault:  # noqa: BLE001 - the border to model code
        text = f"(its text cannot be had: {type(fault).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()[:MAX_MESSAGE_CHARS]


def is_out_of_memory(err: BaseException) -> bool:
    """Whether memory of the machine or the device ran out."""
    if isinstance(err, MemoryError) or type(err).__name__ == "OutOfMemoryError":
        return True
    if isinstance(err, OSError) and err.errno == errno.ENOMEM:
        return True
    return _says(err, _MEMORY_WORDS)


def is_sticky(err: BaseException) -> bool:
    """Whether the process's CUDA context is lost with this error."""
    return _says(err, _STICKY_WORDS)


def load_failed(err: BaseException, what: str) -> LoadFailed:
    """Why a model cannot load, from what its code or its engine raised; `what` begins the sentence."""
    if isinstance(err, LoadFailed):
        return err
    kind = next((kind for kinds, kind in _LOAD_FAULTS if isinstance(err, kinds)), LoadFault.FORMAT)
    hint = ""
    if isinstance(err, ImportError) and err.name:
        hint = f": install the package that holds {err.name!r} beside headrace"
    return LoadFailed(f"{what}: {type(err).__name__}: {words_of(err)}"[:MAX_MESSAGE_CHARS] + hint, kind)


def line_in(file: Path, err: BaseException) -> str:
    """`, line N` for the innermost line of that file in the traceback, else nothing."""
    lines: Sequence[int | None] = [
        frame.lineno for frame in traceback.extract_tb(err.__traceback__) if Path(frame.filename) == file
    ]
    return f", line {lines[-1]}" if lines else ""


def _says(err: BaseException, words: Sequence[str]) -> bool:
    """Whether an error of a native library has one of these words; onnxruntime's are no RuntimeErrors."""
    text = words_of(err).lower()
    native = isinstance(err, RuntimeError) or type(err).__module__.startswith("onnxruntime")
    return native and any(word in text for word in words)
