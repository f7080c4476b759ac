"""What a model.yaml says of failures: dead letters, retries, the reply index."""

from pathlib import Path
from typing import Any

import pytest
from model_folders import python_model

from producer_sdk.errors import Code
from workers.check import check_models
from workers.manifest_delivery import MAY_PASS
from workers.models import find_models
from workers.runners.engine import ModelSpec, RetryPolicy


def spec_with(root: Path, **keys: Any) -> ModelSpec:
    (spec,) = find_models(python_model(root, "m", **keys))
    return spec


def faults_of(root: Path, **keys: Any) -> list[tuple[str, str]]:
    return [(fault.key, fault.reason) for fault in check_models(python_model(root, "m", **keys)).faults]


def test_what_a_model_does_not_say_has_its_default(tmp_path: Path) -> None:
    spec = spec_with(tmp_path)
    assert spec.dead_letter_codes == ("RUNNER_CRASHED", "OUT_OF_MEMORY", "INTERNAL")
    assert (spec.dedupe, spec.retry) == (None, RetryPolicy())


def test_every_key_on_failures_is_read(tmp_path: Path) -> None:
    retry = {"codes": ["INTERNAL"], "limit": 3, "first_delay_s": 1, "longest_delay_s": 60, "in_place_s": 0}
    spec = spec_with(tmp_path, dead_letter_codes=["INVALID_REQUEST", "INTERNAL"], dedupe="redis", retry=retry)
    assert (spec.dead_letter_codes, spec.dedupe) == (("INVALID_REQUEST", "INTERNAL"), "redis")
    assert spec.retry == RetryPolicy(("INTERNAL",), 3, 1.0, 60.0, 0.0)


def test_the_profile_of_replies_is_read_and_no_other_is_known(tmp_path: Path) -> None:
    assert spec_with(tmp_path / "a").profile is None
    assert spec_with(tmp_path / "b", profile="cloudevents").profile == "cloudevents"
    assert faults_of(tmp_path / "c", profile="avro") == [("profile", "give cloudevents; it is 'avro'")]


def test_a_part_of_the_retry_keys_leaves_the_others_at_their_defaults(tmp_path: Path) -> None:
    assert spec_with(tmp_path, retry={"limit": 2}).retry == RetryPolicy(limit=2)


def test_no_code_at_all_can_be_said(tmp_path: Path) -> None:
    spec = spec_with(tmp_path, dead_letter_codes=[], retry={"codes": []})
    assert (spec.dead_letter_codes, spec.retry.codes) == ((), ())


@pytest.mark.parametrize("code", list(Code))
def test_every_code_can_leave_a_dead_letter(tmp_path: Path, code: Code) -> None:
    assert spec_with(tmp_path, dead_letter_codes=[str(code), str(code)]).dead_letter_codes == (code,)


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({"dead_letter": []}, "dead_letter", "'dead_letter' is not a known key: did you mean 'dead_letter_codes'?"),
        (
            {"dead_letter_codes": ["INTERNAL", "runer_crashed"]},
            "dead_letter_codes[1]",
            "'runer_crashed' is no error code of headrace: did you mean 'RUNNER_CRASHED'?",
        ),
        (
            {"dead_letter_codes": "INTERNAL"},
            "dead_letter_codes",
            "give a list of error codes, such as [INTERNAL]; it is 'INTERNAL'",
        ),
        (
            {"dead_letter_codes": None},
            "dead_letter_codes",
            "give a list of error codes, such as [INTERNAL]; it is empty",
        ),
        ({"dedupe": "memcached"}, "dedupe", "give redis; it is 'memcached'"),
        ({"dedupe": True}, "dedupe", "give redis; it is true"),
        ({"retry": 3}, "retry", "give `key: value` lines; it is 3"),
        (
            {"retry": {"first_dealy_s": 1}},
            "retry.first_dealy_s",
            "'first_dealy_s' is not a known key: did you mean 'first_delay_s'?",
        ),
        ({"retry": {"limit": 0}}, "retry.limit", "give a whole number from 1 to 1000; it is 0"),
        ({"retry": {"first_delay_s": 0}}, "retry.first_delay_s", "give a number above 0 and at most 86400; it is 0"),
        (
            {"retry": {"longest_delay_s": 86401}},
            "retry.longest_delay_s",
            "give a number above 0 and at most 86400; it is 86401",
        ),
        ({"retry": {"in_place_s": -1}}, "retry.in_place_s", "give a number from 0 to 3600; it is -1"),
        ({"retry": {"codes": ["WHAT"]}}, "retry.codes[0]", "'WHAT' is no error code of headrace"),
        (
            {"retry": {"codes": ["RUNNER_CRASHED"]}},
            "retry.codes[0]",
            f"RUNNER_CRASHED does not pass by itself: use some of {', '.join(MAY_PASS)}",
        ),
        (
            {"retry": {"first_delay_s": 9, "longest_delay_s": 5}},
            "retry.longest_delay_s",
            "first_delay_s (9) must be at most longest_delay_s (5)",
        ),
        (
            {"retry": {"first_delay_s": 400}},
            "retry.first_delay_s",
            "first_delay_s (400) must be at most longest_delay_s (300, the default: set it too)",
        ),
        (
            {"retry": {"longest_delay_s": 0.1}},
            "retry.longest_delay_s",
            "first_delay_s (0.2, the default: set it too) must be at most longest_delay_s (0.1)",
        ),
    ],
)
def test_a_fault_is_told_with_its_key_and_what_to_do(
    tmp_path: Path, keys: dict[str, Any], key: str, reason: str
) -> None:
    assert faults_of(tmp_path, **keys) == [(key, reason)]


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    retry = {"codes": ["X", "CANCELLED"], "limit": "many", "pause": 1}
    faults = faults_of(tmp_path, dead_letter_codes=["Y"], dedupe="no", retry=retry)
    assert [key for key, _ in faults] == [
        *("dead_letter_codes[0]", "dedupe"),
        *("retry.codes[0]", "retry.codes[1]", "retry.limit", "retry.pause"),
    ]
