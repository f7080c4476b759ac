"""The probes tell why the gateway cannot take traffic, and never restart one that only waits."""

import pytest

from gateway import health
from gateway.health import Health
from gateway.serve import Stop
from gateway.settings import GatewaySettings


def test_readiness_follows_the_life_of_the_process() -> None:
    probe = Health()
    assert probe.not_ready() == "the gateway is starting"
    probe.starting = None
    assert probe.not_ready() is None
    probe.stopping = True
    assert probe.not_ready() == "the gateway is stopping"


def test_a_lost_reader_is_not_ready_but_alive() -> None:
    probe = Health()
    probe.starting = None
    probe.checks = (lambda: None, lambda: "replies cannot be read: no broker")
    assert (probe.not_ready(), probe.not_live()) == ("replies cannot be read: no broker", None)


def test_a_stuck_loop_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Health()
    monkeypatch.setattr(health, "LOOP_STUCK_S", -1.0)
    assert "has not turned" in str(probe.not_live())


def test_the_second_signal_means_now() -> None:
    stop = Stop()
    stop.signal(15)
    assert (stop.asked.is_set(), stop.now.is_set(), stop.patient) == (True, False, True)
    stop.signal(15)
    assert stop.now.is_set()


def test_ctrl_c_waits_for_no_load_balancer() -> None:
    stop = Stop()
    stop.signal(2)
    assert not stop.patient


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"v1_model": "a.b"}, "v1_model 'a.b'"),
        ({"default_deadline_s": 9.0, "max_deadline_s": 8.0}, "default_deadline_s is above max_deadline_s"),
        ({"max_body_bytes": 4096, "max_body_bytes_held": 2048}, "the largest bodies would never fit"),
        ({"port": 8002}, "port and admin_port are both 8002"),
    ],
)
def test_settings_that_contradict_each_other_are_named(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        GatewaySettings(**settings)  # type: ignore[arg-type]
