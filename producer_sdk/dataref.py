"""References to stored payloads: what stands in a record in place of its tensors, and where results are to be stored.

Pure. A reference is written flat, under the same keys in every form: `dataref` (the uri), `sha256`, `bytes` and
`expires_ms`; what is not known is left out. A uri is `s3://bucket/key`, taken literally: nothing is percent-decoded,
and `?` and `#` are parts of the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from .errors import InvalidRequest

MAX_KEY_BYTES = 1024
SCHEME = "s3://"
UNKNOWN_BYTES = -1
REF_KEYS = frozenset(("dataref", "sha256", "bytes", "expires_ms"))
_MAX_INT = 2**63 - 1
_SHOWN_CHARS = 120
_SCHEME_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", re.ASCII)
# Amazon's rules; MinIO, Ceph and R2 take no more than these.
_BUCKET = re.compile(r"(?!\d+\.\d+\.\d+\.\d+\Z)(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_SHA256 = re.compile(r"([0-9a-f]{64})?", re.ASCII)


class S3Key(Struct, frozen=True):
    """An object's place: bucket and key, both checked.

    Raises:
        InvalidRequest: a name that no bucket can have; a key that is empty, too long, or could name another object on
            the way (segments that are empty, `.` or `..`, backslashes, characters that cannot be seen).
    """

    bucket: str
    key: str

    def __post_init__(self) -> None:
        _check_bucket(self.bucket)
        _check_key(self.key)

    @classmethod
    def parse(cls, uri: str) -> S3Key:
        """The place that `s3://bucket/key` names.

        Raises:
            InvalidRequest: it is no such uri, or one of another scheme.
        """
        return cls(*_split(uri))

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"


class S3Prefix(Struct, frozen=True):
    """Where results are to be stored: a bucket, and what keys begin with: "" or text that ends with `/`.

    Raises:
        InvalidRequest: as for `S3Key`.
    """

    bucket: str
    prefix: str

    def __post_init__(self) -> None:
        _check_bucket(self.bucket)
        if not self.prefix:
            return
        if not self.prefix.endswith("/"):
            raise InvalidRequest(f"{_shown(str(self))} names no folder: end it with /.")
        _check_key(self.prefix[:-1])

    @classmethod
    def parse(cls, uri: str) -> S3Prefix:
        """The prefix that `s3://bucket/` or `s3://bucket/prefix/` names.

        Raises:
            InvalidRequest: it is no such uri, or one of another scheme.
        """
        return cls(*_split(uri))

    def key(self, name: str) -> S3Key:
        """The place of an object under the prefix."""
        return S3Key(self.bucket, self.prefix + name)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"


class DataRef(Struct, frozen=True, omit_defaults=True, rename={"uri": "dataref", "nbytes": "bytes"}):
    """Where a payload is stored, and what it must be. Always valid; msgspec writes it under the wire's keys.

    Attributes:
        uri: `s3://bucket/key`.
        sha256: of the whole object, 64 hexadecimal digits in lower case; "" unknown.
        nbytes: size of the object; -1 unknown.
        expires_ms: epoch milliseconds from which on it may be gone; None never, or unknown.

    Raises:
        InvalidRequest: a part is not as said here.
    """

    uri: str
    sha256: str = ""
    nbytes: int = UNKNOWN_BYTES
    expires_ms: int | None = None

    def __post_init__(self) -> None:
        S3Key.parse(self.uri)
        if not _SHA256.fullmatch(self.sha256):
            raise InvalidRequest(f"sha256 is {_shown(self.sha256)}: give 64 hexadecimal digits in lower case.")
        if not UNKNOWN_BYTES <= self.nbytes <= _MAX_INT:
            raise InvalidRequest(f"bytes is {self.nbytes}: give the size of the object {_shown(self.uri)}.")
        if self.expires_ms is not None and not 0 <= self.expires_ms <= _MAX_INT:
            raise InvalidRequest(f"expires_ms is {self.expires_ms}: give milliseconds since 1970.")

    @classmethod
    def from_fields(cls, fields: Mapping[str, object]) -> DataRef:
        """The reference that a record's keys hold; other keys are ignored, and so is the case of `sha256`.

        Raises:
            InvalidRequest: `dataref` is missing, or a value is not as the wire says.
        """
        known = {key: fields[key] for key in fields if key in REF_KEYS and fields[key] is not None}
        if isinstance(known.get("sha256"), str):
            known["sha256"] = str(known["sha256"]).lower()
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as err:
            raise InvalidRequest(f"The reference to a stored payload is not valid: {err}.") from err

    @classmethod
    def optional(cls, fields: Mapping[str, object]) -> DataRef | None:
        """The same, or None where `dataref` is missing or null: the other keys mean nothing then.

        Raises:
            InvalidRequest: a value is not as the wire says.
        """
        return None if fields.get("dataref") is None else cls.from_fields(fields)

    def fields(self) -> dict[str, str | int]:
        """The wire's keys: `dataref`, and what is known of `sha256`, `bytes` and `expires_ms`."""
        known: dict[str, str | int] = {"dataref": self.uri}
        if self.sha256:
            known["sha256"] = self.sha256
        if self.nbytes != UNKNOWN_BYTES:
            known["bytes"] = self.nbytes
        if self.expires_ms is not None:
            known["expires_ms"] = self.expires_ms
        return known

    @property
    def place(self) -> S3Key:
        """Bucket and key of the object."""
        return S3Key.parse(self.uri)

    def expired(self, now_ms: int) -> bool:
        """Whether the object may be gone at `now_ms`, milliseconds since 1970."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


def is_s3_uri(text: str) -> bool:
    """Whether a return address names a bucket rather than a topic; says nothing of whether it is valid."""
    return text.startswith(SCHEME)


def _split(uri: str) -> tuple[str, str]:
    if not uri.startswith(SCHEME):
        scheme = _SCHEME_NAME.match(uri)
        reason = f"{scheme[0]}: is not supported" if scheme and scheme[0] != "s3" else "it is no uri of that form"
        raise InvalidRequest(f"{_shown(uri)}: payloads are named by s3://bucket/key; {reason}.")
    bucket, slash, key = uri.removeprefix(SCHEME).partition("/")
    if not slash:
        raise InvalidRequest(f"{_shown(uri)} has no / after the bucket: write s3://bucket/key.")
    return bucket, key


def _check_bucket(bucket: str) -> None:
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest(
            f"{_shown(bucket)} is no name of a bucket: use 3 to 63 of a-z 0-9 . -, with a letter or digit at both ends."
        )


def _check_key(key: str) -> None:
    if not key.isprintable():
        raise InvalidRequest(f"The key {_shown(key)} holds characters that cannot be seen.")
    size = len(key.encode())
    if not 1 <= size <= MAX_KEY_BYTES:
        raise InvalidRequest(f"The key {_shown(key)} has {size} bytes: give 1 to {MAX_KEY_BYTES}.")
    if "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidRequest(
            f"The key {_shown(key)} could name another object: use no backslash, and no part between slashes "
            "that is empty, . or .."
        )


def _shown(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
