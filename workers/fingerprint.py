"""What a request asks of a model, as 16 bytes: equal where the model would be given the same. Pure."""

from __future__ import annotations

from hashlib import blake2b

from producer_sdk.wire import Request

FINGERPRINT_BYTES = 16


def fingerprint(request: Request) -> bytes:
    """Of inputs (in any order), parameters, outputs wanted and version; not of id, deadline, tenant or addresses.

    `repr` tells 1, 1.0, True and '1' apart, and holds numbers and texts that no encoding takes.
    """
    inputs = sorted(request.inputs.items())
    head = (
        request.version,
        None if request.outputs is None else sorted(request.outputs),
        sorted(request.parameters.items()),
        [(name, str(tensor.datatype), tensor.shape, len(tensor.data)) for name, tensor in inputs],
    )
    digest = blake2b(repr(head).encode("utf-8", "surrogatepass"), digest_size=FINGERPRINT_BYTES)
    for _, tensor in inputs:
        digest.update(tensor.data)
    return digest.digest()
