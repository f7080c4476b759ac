"""What is published of an outcome that is stored: a pointer to it, in the request's own form. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from producer_sdk.cloudevents import retold
from producer_sdk.dataref import DataRef
from producer_sdk.errors import HeadraceError
from producer_sdk.forms import error_value, result_value

from .work import OK, Outcome


def pointer(outcome: Outcome, model: str, version: str, ref: DataRef, error: HeadraceError | None) -> Outcome:
    """The outcome as it is published once it is stored at `ref`; `error` says what is there, None is a result."""
    assert outcome.storing is not None, "only what was stored is pointed to"
    if error is None:
        value = result_value(outcome.form, outcome.id, model, version, {}, outcome.storing.parameters, ref)
    else:
        value = error_value(outcome.form, outcome.id, model, version, error, ref)
    code = OK if error is None else error.code
    headers = retold(outcome.outgoing.headers, is_error=error is not None, ref=ref)
    fingerprint = outcome.fingerprint if error is None else b""
    outgoing = outcome.outgoing._replace(value=value, headers=headers)
    return replace(outcome, code=code, outgoing=outgoing, storing=None, fingerprint=fingerprint)


def unstored(outcome: Outcome, model: str, version: str, error: HeadraceError) -> Outcome:
    """The outcome of a request whose result could not be stored; an error is told as it is."""
    if outcome.code != OK:
        return replace(outcome, storing=None)
    value = error_value(outcome.form, outcome.id, model, version, error)
    outgoing = outcome.outgoing._replace(value=value, headers=retold(outcome.outgoing.headers, is_error=True))
    return replace(outcome, code=error.code, outgoing=outgoing, storing=None, fingerprint=b"",
                   evidence=outcome.storing.evidence if outcome.storing is not None else None)  # fmt: skip
