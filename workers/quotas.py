"""Which requests wait, and which are refused since their tenant has as many waiting as it may. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from producer_sdk.errors import QuotaExceeded
from producer_sdk.topics import Lane

from .runners.policies import BatchPolicy, TenantPolicy
from .work import Work

Waiting = Callable[[Lane, str | None], int]
Refused = tuple[Work, QuotaExceeded]


class Quotas:
    """Bounds how many requests of one tenant wait in a lane.

    Since who has reached the bound is refused and not kept waiting, a tenant that floods takes no more places than
    that, and what it published lies before nobody: it is read and answered at the pace of reading.
    """

    def __init__(self, policy: TenantPolicy, waiting: Waiting) -> None:
        """`waiting` counts the requests of a tenant that wait in a lane."""
        self._policy = policy
        self._waiting = waiting

    def admit(self, works: list[Work]) -> tuple[list[Work], Sequence[Refused]]:
        """Those that may wait, which are to be added; and those that may not, with the error each is answered with.

        Who was admitted once and has come back, by the retry topic or as a suspect, is always admitted.
        """
        counts: dict[tuple[Lane, str | None], int] = {}
        errors: dict[str | None, QuotaExceeded] = {}
        admitted: list[Work] = []
        refused: list[Refused] = []
        for work in works:
            tenant = work.request.tenant
            place = (work.lane, tenant)
            waits = counts.get(place)
            if waits is None:
                waits = self._waiting(*place)
            most = self._policy.most_waiting(tenant)
            if most and waits >= most and not _was_admitted(work):
                if tenant not in errors:
                    errors[tenant] = QuotaExceeded(_sentence(tenant, most))
                refused.append((work, errors[tenant]))
            else:
                admitted.append(work)
                waits += 1
            counts[place] = waits
        return (admitted, refused) if refused else (works, ())


def quotas_of(policy: BatchPolicy, waiting: Waiting) -> Quotas | None:
    """What bounds a model's tenants; None where nothing does."""
    return None if policy.tenants is None else Quotas(policy.tenants, waiting)


def _was_admitted(work: Work) -> bool:
    """Whether an attempt was made already: a failed one, or one that may have been the end of a worker."""
    ledger, offset = work.source.ledger, work.source.offset
    return work.attempts > 0 or work.alone or ledger.is_trying(offset)


def _sentence(tenant: str | None, most: int) -> str:
    who = "requests without a tenant" if tenant is None else f"requests of tenant {tenant!r}"
    return (
        f"{most} {who} wait in this lane of a worker already, the most that may: send it again when others have been "
        "answered, with fewer at a time, or have its limit under tenants raised in model.yaml"
    )
