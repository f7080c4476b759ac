"""Paths name endpoints, models and versions; broken ones are refused in a sentence."""

import pytest

from gateway.route import Target, find_target
from producer_sdk.errors import InvalidRequest


@pytest.mark.parametrize(
    ("raw_path", "target"),
    [
        (b"/", Target("/")),
        (b"/v2", Target("/v2")),
        (b"/v2/", Target("/v2")),
        (b"/v2/health/ready", Target("/v2/health/ready")),
        (b"/v1/infer", Target("/v1/infer")),
        (b"/v2/models/mlp", Target("/v2/models/{m}", "mlp")),
        (b"/v2/models/mlp/infer", Target("/v2/models/{m}/infer", "mlp")),
        (b"/v2/models/m%6Cp/infer", Target("/v2/models/{m}/infer", "mlp")),
        (b"/v2/models/mlp/versions/3", Target("/v2/models/{m}", "mlp", "3")),
        (b"/v2/models/mlp/versions/3/ready", Target("/v2/models/{m}/ready", "mlp", "3")),
        (b"/v2/models/mlp/versions", Target("/v2/models/{m}/versions", "mlp")),
        (b"/v2/models", Target("/v2/models")),
    ],
)
def test_a_path_names_its_endpoint_model_and_version(raw_path: bytes, target: Target) -> None:
    assert find_target(raw_path) == target


@pytest.mark.parametrize("raw_path", [b"/v2/models/a%2Finfer", b"/v2/models/mlp%2Finfer/ready"])
def test_an_escaped_slash_separates_nothing(raw_path: bytes) -> None:
    target = find_target(raw_path)
    assert target.model is not None
    assert "infer" in target.model


def test_a_literal_template_is_no_model_path() -> None:
    assert find_target(b"/v2/models/{m}/infer").model == "{m}"


@pytest.mark.parametrize("raw_path", [b"/v2/models/%zz/infer", b"/v2/models/50%", b"/%ff", b"/v2/models/%C3%28/infer"])
def test_broken_escapes_and_utf8_are_refused(raw_path: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the path"):
        find_target(raw_path)
