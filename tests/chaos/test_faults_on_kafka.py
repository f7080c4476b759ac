"""Nothing is lost and nobody is answered twice, whatever is killed, frozen or restarted: part of `make chaos`."""

from pathlib import Path

import pytest
from chaos_play import play_row
from chaos_rows import named
from chaos_site import Site

# Kills of runner and worker are in tests/acceptance/test_kill_nine_loses_nothing.py, too.
SHORT = ("worker-frozen", "rolling-restart", "broker-down-at-term", "record-kills-runner", "record-kills-worker")


@pytest.mark.kafka
@pytest.mark.chaos
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", SHORT)
async def test_the_promise_holds_under_this_fault(name: str, site: Site, tmp_path: Path) -> None:
    result = await play_row(named(name), site, tmp_path)
    assert result.breaks == ()
    assert result.outcomes >= named(name).load.requests
