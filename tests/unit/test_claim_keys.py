"""Keys of claim checks: they sort by the day on which they expire, and nobody can guess one."""

from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.claim_keys import DAY_MS, claim_key, day_prefix, end_of_day_ms
from producer_sdk.dataref import S3Key

MOMENTS = st.integers(0, 253_402_300_799_999)


@given(MOMENTS)
def test_the_day_of_a_key_is_that_of_its_expiry(expires_ms: int) -> None:
    end_ms = end_of_day_ms(claim_key(expires_ms))
    assert end_ms is not None
    assert end_ms - DAY_MS <= expires_ms < end_ms


@given(MOMENTS, MOMENTS)
def test_keys_sort_by_day(one_ms: int, other_ms: int) -> None:
    earlier, later = sorted([one_ms, other_ms])
    assert day_prefix(earlier) <= day_prefix(later)


@given(st.integers(0, 2**63 - 1))
def test_any_expiry_has_a_key(expires_ms: int) -> None:
    S3Key("bucket", claim_key(expires_ms))


def test_no_two_keys_are_the_same() -> None:
    assert len({claim_key(0) for _ in range(100)}) == 100


def test_other_keys_have_no_day() -> None:
    for key in ("claims/x", "claims/2026/13/01/" + "0" * 32, "claims/2026/01/01/name", "x/2026/01/01/" + "0" * 32):
        assert end_of_day_ms(key) is None
