"""What the gateway counts, and that callers cannot make it count without end."""

from gateway.metrics import GatewayMetrics


def test_requests_are_counted_by_model_surface_and_code() -> None:
    metrics = GatewayMetrics(lambda: 3)
    metrics.count("mlp", "oip", "OK", 0.004)
    metrics.count("mlp", "oip", "OK", 0.004)
    text = metrics.text().decode()
    assert 'headrace_gateway_requests_total{code="OK",model="mlp",surface="oip"} 2.0' in text
    assert 'headrace_gateway_request_seconds_bucket{le="0.005",model="mlp",surface="oip"} 2.0' in text
    assert "headrace_gateway_inflight 3.0" in text


def test_two_gateways_in_one_process_count_apart() -> None:
    first, second = GatewayMetrics(lambda: 0), GatewayMetrics(lambda: 0)
    first.count("mlp", "oip", "OK", 0.1)
    assert b"mlp" not in second.text()
