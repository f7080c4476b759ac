"""Where large payloads are stored: the settings as people give them, and the object that the store is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from .dataref import S3Key
from .errors import InvalidRequest

if TYPE_CHECKING:
    from .payloads import Payloads

CLAIM_BYTES = 512 << 10


class S3Settings(Struct, frozen=True):
    """What a payload store may touch. Credentials are not among it: boto3 finds them (environment, profile, role).

    Attributes:
        endpoint_url: of a store other than Amazon's; buckets are then named in the path, not in the host.
        buckets: those that references and results may name.
        claim_bucket: where claim checks go, allowed as the others are; None: no claim checks are made.
        claim_bytes: payloads above this size become claim checks, where there is a claim bucket.
        kms_key: key of the store's key service that encrypts what is put; None leaves that to the bucket.
    """

    endpoint_url: str | None = None
    buckets: frozenset[str] = frozenset()
    claim_bucket: str | None = None
    claim_bytes: int = CLAIM_BYTES
    kms_key: str | None = None

    @property
    def allowed(self) -> frozenset[str]:
        """All buckets that may be touched."""
        return self.buckets if self.claim_bucket is None else self.buckets | {self.claim_bucket}


class PayloadSettings(Struct, frozen=True, kw_only=True):
    """Where large payloads are stored; every program that sends or takes requests has these.

    Raises:
        ValueError: settings that contradict each other; the message names them.
    """

    s3_endpoint_url: Annotated[
        str | None, Meta(description="S3 store other than Amazon's, as https://HOST:PORT; needs headrace[s3].")
    ] = None
    s3_buckets: Annotated[
        tuple[str, ...], Meta(description="Buckets that requests may refer to and ask for results in; none else.")
    ] = ()
    s3_model_buckets: Annotated[
        tuple[str, ...],
        Meta(description="Buckets that workers fetch artifacts of models from; no request may use them."),
    ] = ()
    s3_claim_bucket: Annotated[
        str | None, Meta(description="Bucket that large inputs and outputs are put into; without it none are.")
    ] = None
    claim_check_bytes: Annotated[
        int, Meta(description="Larger payloads go to s3_claim_bucket, and the record refers to them.", ge=1)
    ] = CLAIM_BYTES
    s3_kms_key: Annotated[
        str | None, Meta(description="Key id of the store's key service, which encrypts what is put.", min_length=1)
    ] = None

    def __post_init__(self) -> None:
        self._check_buckets()
        self._check_endpoint()
        self._check_use()
        self._check_apart()

    def _check_apart(self) -> None:
        both = sorted({*self.s3_model_buckets} & {*self.s3_buckets, self.s3_claim_bucket})
        if both:
            raise ValueError(
                f"s3_model_buckets names {both[0]}, which requests may use too: callers could read the models, and put "
                "objects beside them; keep models in a bucket of their own"
            )

    def _check_use(self) -> None:
        """Nothing is given that no bucket uses; artifacts of models are encrypted by whoever puts them there."""
        if self.s3_endpoint_url is not None and not self._buckets():
            raise ValueError(
                "s3_endpoint_url has no effect without a bucket: "
                "set s3_buckets, s3_claim_bucket or s3_model_buckets too"
            )
        if self.s3_kms_key is not None and not (self.s3_buckets or self.s3_claim_bucket):
            raise ValueError("s3_kms_key has no effect without a bucket: set s3_buckets or s3_claim_bucket too")

    def _buckets(self) -> tuple[str, ...]:
        return (*self.s3_buckets, *self.s3_model_buckets, *filter(None, [self.s3_claim_bucket]))

    def _check_buckets(self) -> None:
        for bucket in self._buckets():
            try:
                S3Key(bucket, "x")
            except InvalidRequest as err:
                raise ValueError(
                    f"s3_buckets, s3_model_buckets or s3_claim_bucket: {err.message.removesuffix('.')}"
                ) from err

    def _check_endpoint(self) -> None:
        if self.s3_endpoint_url is None:
            return
        url = urlsplit(self.s3_endpoint_url)
        # What stands before @ is a password: not for an error text either.
        if url.username is not None or url.password is not None:
            raise ValueError("s3_endpoint_url holds a user name: give credentials as boto3 takes them, not in the url")
        if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/") or url.query or url.fragment:
            raise ValueError(
                f"s3_endpoint_url is {self.s3_endpoint_url!r}: write http://HOST:PORT or https://HOST:PORT"
            )

    def s3(self) -> S3Settings | None:
        """What a store is made of; None where no bucket is named."""
        settings = S3Settings(
            endpoint_url=self.s3_endpoint_url,
            buckets=frozenset(self.s3_buckets),
            claim_bucket=self.s3_claim_bucket,
            claim_bytes=self.claim_check_bytes,
            kms_key=self.s3_kms_key,
        )
        return settings if settings.allowed else None

    def model_s3(self) -> S3Settings:
        """What the store of artifacts is made of. Apart from `s3`, which whoever sends requests can read and fill."""
        return S3Settings(endpoint_url=self.s3_endpoint_url, buckets=frozenset(self.s3_model_buckets))

    def payloads(self) -> Payloads | None:
        """The store that these settings name, not asked for anything yet; None where no bucket is named.

        Raises:
            Misconfigured: boto3 is not installed.
        """
        from .payloads import Payloads

        settings = self.s3()
        return None if settings is None else Payloads(settings)
