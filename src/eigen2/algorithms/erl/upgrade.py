"""States of format 1, whose keys and operators had other names."""

from typing import Any

OPERATORS = {"cem.middle": "cem.mean", "rested": "skipped", "relieved": "replaced"}


def upgrade(state: dict[str, Any]) -> dict[str, Any]:
    """A training state of any format as the present version writes it."""
    return _from_format_1(state) if "cloud" in state["variation"] else state


def _from_format_1(state: dict[str, Any]) -> dict[str, Any]:
    variation, hall, genealogy = state["variation"], state["hall"], state["genealogy"]
    return {
        **state,
        "variation": {
            "distribution": variation["cloud"],
            "averaged_mean": variation["middle"],
            "age": variation["age"],
            "scale": variation["scale"],
        },
        "hall": {"entries": hall["honours"], "actors": hall["actors"]},
        "genealogy": {
            **genealogy,
            "births": [[OPERATORS.get(name, name), parents] for name, parents in genealogy["births"]],
        },
    }
