"""Settings explain themselves, from their declarations; the page in docs/ is what they say."""

from collections import Counter
from pathlib import Path

import pytest
from command_lab import Lab

from eigen2.errors import ConfigError
from eigen2.harness.explain import all_settings, explain, page

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_a_key_says_what_it_means_what_it_takes_and_what_it_is() -> None:
    (found,) = explain(["env.fee_bp"])
    assert found.lines() == [
        "env.fee_bp (trading): number, at least 0; default 10; fixed for a run",
        "    Fee per side in basis points of the quoted value traded.",
        "    in alg=erl env=trading: 10",
    ]


def test_a_section_and_a_word_find_settings() -> None:
    assert "checkpoint.every" in {one.key for one in explain(["checkpoint"])}
    assert "env.slippage_bp" in {one.key for one in explain(["slippage"])}


def test_the_chosen_presets_give_the_values() -> None:
    (found,) = explain(["alg.horizon", "alg=pwm_tiny", "env=pendulum"])
    assert (found.of, found.preset) == ("pwm", "12")
    assert [one.preset for one in explain(["alg.horizon"])] == [None]


def test_what_nobody_speaks_of_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean env.fee_bp"):
        explain(["env.fee_pb"])


def test_a_constant_is_named_with_its_value() -> None:
    with pytest.raises(ConfigError, match="`alg.tau` is no setting: with alg=erl env=gym it is 0.005"):
        explain(["alg.tau", "env=gym"])


def test_every_setting_has_a_line_of_help() -> None:
    assert [one.key for one in all_settings(ours=True) if not one.meaning] == []


def test_settings_are_few() -> None:
    """A setting is a promise to explain it for ever: these numbers only fall. Targets: 24 and 36."""
    count = Counter(one.of for one in all_settings(ours=True))
    assert (count["erl"], count["pwm"]) == (22, 31)


def test_the_page_is_up_to_date() -> None:
    written, wanted = PAGE.read_text(encoding="utf-8"), page()
    assert written == wanted, "write it anew: `./run explain --page > docs/settings.md`"


def test_it_is_a_command(lab: Lab) -> None:
    assert lab.run("explain", "seed", "--json").json["settings"][0]["default"] == "7"
    done = lab.run("explain", "nosuchthing")
    assert (done.code, "No setting is called nosuchthing" in done.err) == (2, True)
