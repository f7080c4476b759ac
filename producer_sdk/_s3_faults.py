"""What boto3 raises, as a `Refusal` and words without credentials. Called on the pool's threads."""

from __future__ import annotations

import re
from typing import Any

from ._s3_errors import Refusal, S3Refused

_WORDS = 240
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{8,}\b")
_CREDENTIALS_CURE = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine"
_BY_CODE = {
    "NoSuchKey": Refusal.MISSING,
    "NoSuchBucket": Refusal.MISSING,
    "NoSuchVersion": Refusal.MISSING,
    "NoSuchUpload": Refusal.NO_UPLOAD,
    "PreconditionFailed": Refusal.TAKEN,
    "ConditionalRequestConflict": Refusal.CONFLICT,
    "OperationAborted": Refusal.CONFLICT,
    "InvalidRange": Refusal.EMPTY,
    "AccessDenied": Refusal.DENIED,
    "AllAccessDisabled": Refusal.DENIED,
    "Forbidden": Refusal.DENIED,
    # What comes with status 400, and is the line's or the load's fault all the same.
    "RequestTimeout": Refusal.AGAIN,
    "IncompleteBody": Refusal.AGAIN,
    "BadDigest": Refusal.AGAIN,
    "XAmzContentSHA256Mismatch": Refusal.AGAIN,
    "XAmzContentChecksumMismatch": Refusal.AGAIN,
    "SlowDown": Refusal.AGAIN,
    "Throttling": Refusal.AGAIN,
    "ThrottlingException": Refusal.AGAIN,
    "RequestLimitExceeded": Refusal.AGAIN,
    "InternalError": Refusal.AGAIN,
    "ServiceUnavailable": Refusal.AGAIN,
}
# HEAD has no body, so the status is all there is.
_BY_STATUS = {
    403: Refusal.DENIED,
    404: Refusal.MISSING,
    408: Refusal.AGAIN,
    409: Refusal.CONFLICT,
    412: Refusal.TAKEN,
    416: Refusal.EMPTY,
    429: Refusal.AGAIN,
    501: Refusal.WRONG,
}


def known_faults() -> tuple[type[Exception], ...]:
    """Everything by which boto3 says that a request failed."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    return (BotoCoreError, ClientError, ResponseParserError, HTTPError, OSError)


def refused(err: Exception) -> S3Refused:
    """One of `known_faults` as a refusal."""
    response = getattr(err, "response", None)
    if isinstance(response, dict):
        return _answered(response)
    return S3Refused(_unanswered(err), _words(_said(err)))


def _said(err: Exception) -> str:
    from botocore.exceptions import NoCredentialsError

    if isinstance(err, NoCredentialsError):
        return f"{str(err).rstrip('.')}: {_CREDENTIALS_CURE}"
    return str(err) or type(err).__name__


def _answered(response: dict[str, Any]) -> S3Refused:
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    words = _words(f"{code}: {error.get('Message', '')}".strip(": ") or f"status {status}")
    if code in _BY_CODE:
        return S3Refused(_BY_CODE[code], words)
    # Credentials that are wrong come with 403 too, but by names of their own.
    by_status = _BY_STATUS.get(status) if status != 403 or code in ("", "403") else None
    return S3Refused(by_status or (Refusal.AGAIN if status >= 500 else Refusal.WRONG), words)


def _unanswered(err: Exception) -> Refusal:
    from botocore import exceptions as boto

    if "CERTIFICATE_VERIFY_FAILED" in str(err):
        return Refusal.WRONG
    passing = (
        boto.ConnectionError,
        boto.HTTPClientError,
        boto.IncompleteReadError,
        boto.FlexibleChecksumError,
        boto.MetadataRetrievalError,
        boto.CredentialRetrievalError,
    )
    lasting = isinstance(err, boto.BotoCoreError) and not isinstance(err, passing)
    return Refusal.WRONG if lasting else Refusal.AGAIN


def _words(text: str) -> str:
    line = " ".join(_ACCESS_KEY.sub("***", text).split()).rstrip(".")
    return line if len(line) <= _WORDS else f"{line[:_WORDS]}..."
