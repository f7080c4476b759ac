"""The ports of a development stack: the usual ones where they are free, else others; never those of another stack."""

from types import TracebackType

from msgspec import Struct

from headrace.failure import UsageError
from headrace.port_claims import PortClaim

USUAL_GATEWAY, USUAL_GATEWAY_ADMIN, USUAL_WORKER_ADMIN = 8000, 8002, 9400


class Ports(Struct, frozen=True):
    """TCP ports on 127.0.0.1."""

    gateway: int
    gateway_admin: int
    worker_admin: int


class DevPorts:
    """Claims a stack's ports for the length of a block. `gateway`: None is the usual one or a free one, 0 a free one.

    Raises:
        UsageError: the gateway's port was named and is taken.
    """

    def __init__(self, gateway: int | None) -> None:
        self._claims: list[PortClaim] = []
        self._gateway = gateway
        if gateway:
            claim = PortClaim.take(gateway)
            if claim is None:
                raise UsageError(
                    f"Port {gateway} is in use by another program: name another one by --port, or 0 for any."
                )
            self._claims.append(claim)

    def choose(self) -> Ports:
        """The ports. Called shortly before they are listened on: programs that are not headrace know no claims."""
        gateway = self._gateway or self._take(None if self._gateway == 0 else USUAL_GATEWAY)
        return Ports(gateway, self._take(USUAL_GATEWAY_ADMIN), self._take(USUAL_WORKER_ADMIN))

    def _take(self, usual: int | None) -> int:
        claim = (PortClaim.take(usual) if usual is not None else None) or PortClaim.take_any()
        self._claims.append(claim)
        return claim.port

    def __enter__(self) -> "DevPorts":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for claim in self._claims:
            claim.release()
