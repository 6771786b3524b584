"""Retention is a pure function: bounded, and never without a good resumable checkpoint."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from eigen2.store.manifest import Manifest
from eigen2.store.objects import Ref
from eigen2.store.retention import NAMES, Plan, live_objects, retain


def outcome(existing: Mapping[str, int], step: int, plan: Plan) -> dict[str, int]:
    """The manifests and their steps once `plan` is carried out."""
    rotated = {"previous": existing["latest"]} if plan.rotate else {}
    return {**existing, **rotated, **dict.fromkeys(plan.write, step)}


def test_the_first_save_writes_init_then_latest() -> None:
    assert retain({}, 0, {"init"}) == Plan(rotate=False, write=("init", "latest"))


def test_a_later_save_rotates_latest() -> None:
    plan = retain({"latest": 3}, 4)
    assert plan == Plan(rotate=True, write=("latest",))
    assert outcome({"latest": 3}, 4, plan) == {"previous": 3, "latest": 4}


def test_saving_the_same_step_again_keeps_the_earlier_previous() -> None:
    existing = {"previous": 3, "latest": 4}
    assert outcome(existing, 4, retain(existing, 4, {"final"})) == {"previous": 3, "latest": 4, "final": 4}


def test_latest_is_written_last() -> None:
    assert retain({}, 9, {"final", "best", "init"}).write == ("init", "best", "final", "latest")


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1))
def test_over_any_history_the_kept_set_is_bounded_and_right(saves: list[tuple[int, bool]]) -> None:
    kept: dict[str, int] = {}
    step, steps, bests = 0, [], []
    for number, (advance, best) in enumerate(saves):
        step += advance
        steps.append(step)
        bests += [step] if best else []
        roles = {role for role, wanted in (("init", number == 0), ("best", best)) if wanted}
        kept = outcome(kept, step, retain(kept, step, roles))
        assert set(kept) <= set(NAMES)
        assert kept["latest"] == step
        assert kept["init"] == steps[0]
        assert kept.get("previous") == (steps[-2] if number else None)
        assert kept.get("best") == (bests[-1] if bests else None)


def test_live_objects_is_the_union_of_what_is_named() -> None:
    one = Manifest("latest", 1, "", {"a": Ref("1" * 64, 1), "b": Ref("2" * 64, 1)})
    two = Manifest("best", 1, "", {"a": Ref("2" * 64, 1), "b": Ref("3" * 64, 1)})
    assert live_objects([one, two]) == {"1" * 64, "2" * 64, "3" * 64}
    assert live_objects([]) == set()
