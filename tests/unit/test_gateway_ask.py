"""headrace's own parameters leave the model's; those that make no sense over HTTP are refused."""

import pytest

from gateway.ask import options_over_http, read_id, shortened
from producer_sdk.errors import InvalidRequest
from producer_sdk.wire import Scalar


def test_own_parameters_are_taken_and_others_stay() -> None:
    options = options_over_http({"deadline_s": 2, "tenant": "a", "version": "3", "top_k": 5}, None)
    assert (options.deadline_s, options.tenant, options.version) == (2, "a", "3")
    assert options.parameters == {"top_k": 5}


def test_a_version_may_stand_in_the_path_and_in_the_body() -> None:
    assert options_over_http({}, "3").version == "3"
    assert options_over_http({"version": 3}, "3").version == "3"
    assert options_over_http({"version": "3", "deadline_s": 1}, "3").version == "3"


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"reply_to": "headrace.x.results"}, "reply_to has no meaning over HTTP"),
        ({"version": "4"}, "the path asks for version '3', parameters.version for '4'"),
        ({"version": True}, "version"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": True}, "deadline_s"),
        ({"tenant": ""}, "tenant"),
    ],
)
def test_wrong_options_are_refused(parameters: dict[str, Scalar], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        options_over_http(parameters, "3")


def test_tritons_timeout_only_shortens_the_deadline() -> None:
    assert shortened(None, 1_500_000) == 1.5
    assert shortened(1.0, 1_500_000) == 1.0
    assert (shortened(None, 0), shortened(2.0, None)) == (None, 2.0)


@pytest.mark.parametrize("timeout", ["soon", True, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(timeout: Scalar) -> None:
    with pytest.raises(InvalidRequest, match="timeout"):
        shortened(None, timeout)


def test_an_id_is_the_callers_or_ours() -> None:
    assert [read_id(given, "ours") for given in (None, "", "a:1")] == ["ours", "ours", "a:1"]
    with pytest.raises(InvalidRequest, match="id"):
        read_id("a b", "ours")
