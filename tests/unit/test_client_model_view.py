"""What announcements of one model amount to."""

from producer_sdk.announcements import Announcement, ModelState
from producer_sdk.directory import Heard, model_view

NOW_S = 1_000_000.0


def announced(worker: str = "w1", *, age_s: float = 0.0, state: ModelState = ModelState.READY, **more: object) -> Heard:
    known: dict[str, object] = {"versions": ("1",), "heartbeat_s": 2.0} | more
    said = Announcement(worker=worker, model="mlp", state=state, at_ms=0, **known)  # type: ignore[arg-type]
    return Heard(said, NOW_S - age_s)


def test_a_model_is_ready_when_any_live_worker_is() -> None:
    loading = announced("w2", state=ModelState.LOADING, reason="loads its weights")
    view = model_view([announced(age_s=1), loading], NOW_S)
    assert view is not None
    assert (view.state, view.workers, view.ready_workers) == (ModelState.READY, 2, 1)
    assert (view.newest.worker, view.reasons) == ("w1", ("loads its weights",))


def test_a_stale_worker_does_not_count() -> None:
    gone = announced("w2", age_s=6.1)
    view = model_view([gone, announced(state=ModelState.LOADING)], NOW_S)
    assert view is not None
    assert (view.state, view.workers) == (ModelState.LOADING, 1)


def test_a_model_whose_workers_are_all_stale_is_unavailable_and_says_so() -> None:
    view = model_view([announced(age_s=60)], NOW_S)
    assert view is not None
    assert (view.state, view.workers, view.reasons) == (ModelState.UNAVAILABLE, 0, ("no live worker announces it",))


def test_a_model_long_unannounced_is_unknown_again() -> None:
    assert model_view([announced(age_s=3601)], NOW_S) is None


def test_the_newest_ready_announcement_gives_signature_and_default_version() -> None:
    old, new = announced("w1", age_s=2, versions=("1", "2")), announced("w2", age_s=1, versions=("2", "3"))
    view = model_view([old, new], NOW_S)
    assert view is not None
    assert (view.newest.worker, view.versions) == ("w2", ("1", "2", "3"))


def test_the_order_of_the_log_says_which_is_newest_whatever_the_clocks_say() -> None:
    view = model_view([announced("w1", age_s=1), announced("w2", age_s=2)], NOW_S)
    assert view is not None
    assert view.newest.worker == "w2"
