"""States of earlier versions, some of whose keys and operators had other names."""

from typing import Any

OPERATORS = {"cem.middle": "cem.mean", "rested": "skipped", "relieved": "replaced"}


def upgrade(state: dict[str, Any], *, critics: bool) -> dict[str, Any]:
    """A training state of any format as the present version writes it; `critics`: whether learners have them."""
    if "cloud" in state["variation"]:
        state = _from_format_1(state)
    learners = state["learners"]
    if learners is not None:
        # Earlier versions kept the critics that nobody trained, and forgot that batches were cut.
        untrained: dict[str, Any] = {} if critics else {"critic": {}, "critic_target": {}}
        learners = {"parts": 1, **learners, **untrained}
    return {name: value for name, value in {**state, "learners": learners}.items() if name != "hall"}


def _from_format_1(state: dict[str, Any]) -> dict[str, Any]:
    variation, genealogy = state["variation"], state["genealogy"]
    return {
        **state,
        "variation": {
            "distribution": variation["cloud"],
            "averaged_mean": variation["middle"],
            "age": variation["age"],
            "scale": variation["scale"],
        },
        "genealogy": {
            **genealogy,
            "births": [[OPERATORS.get(name, name), parents] for name, parents in genealogy["births"]],
        },
    }
