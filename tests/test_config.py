"""Presets and overrides become one frozen, typed config, and every mistake is named with what would be right."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from eigen2.algorithms import registry
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.presets import read_presets
from eigen2.config import computing_differences, differences, load_config, preset_config, validate
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.errors import ConfigError
from eigen2.harness.commands import config_facts, config_text


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides)
    return str(caught.value)


def test_without_overrides_it_is_erl_on_the_embedded_prices() -> None:
    config = load_config()
    assert config.presets == {"alg": "erl", "env": "trading"}
    assert isinstance(config.env, TradingConfig)
    assert (config.seed, config.alg.kind, config.env.data) == (7, "erl", "sp20")
    assert (config.run.root, config.checkpoint.every, config.cluster) == (Path("runs"), 1, "inline")


@pytest.mark.parametrize(
    ("typo", "nearest"),
    [
        ("alg.populaton=4", "alg.population"),
        ("env.windw=8", "env.window"),
        ("sed=3", "seed"),
        ("replay.capasity=10", "replay.capacity"),
        ("env.synthetic.dayz=10", "env.synthetic.days"),
        ("chekpoint.every=3", "checkpoint.every"),
    ],
)
def test_an_unknown_key_names_the_nearest_one(typo: str, nearest: str) -> None:
    assert f"did you mean `{nearest}`?" in refusal(typo)


def test_a_constant_is_stored_and_cannot_be_chosen() -> None:
    config = load_config()
    assert config.model_dump()["alg"]["policy_delay"] == 2
    assert refusal("alg.policy_delay=3") == "`alg.policy_delay` is no setting: it is 2; leave it out."
    assert "policy_delay" not in config_facts([])["config"]["alg"]


def test_a_stored_constant_counts_although_it_is_another_now() -> None:
    values = load_config().model_dump(mode="json")
    values["alg"]["policy_delay"] = 3
    stored = validate(values, stored=True)
    assert load_config(["alg.generations=30"], stored).model_dump()["alg"]["policy_delay"] == 3


def test_a_key_that_resembles_nothing_points_to_the_list() -> None:
    assert "--show-config" in refusal("zzz.qqq=1")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("alg.population=1", "at least 2"),
        ("alg.gamma=1.0", "less than 1"),
        ("env.position_fraction=1.5", "at most 1"),
        ("seed=-1", "at least 0"),
        ("alg.population=many", "must be a whole number"),
        ("alg.population=2.5", "must be a whole number"),
        ("replay.compress=perhaps", "must be true or false"),
        ("env.tradable=AAPL", "must be a list, e.g. [AAPL]"),
        ("env.actions=weight", "did you mean `weights`?"),
        ("env.actions=shorts", "'orders', 'original' or 'weights'"),
        ("cluster=cloud", "'inline'"),
        ("device=tpu", "'auto'"),
    ],
)
def test_a_value_out_of_range_or_of_another_type_is_refused_with_key_and_value(
    override: str, words: str
) -> None:
    key, value = override.split("=")
    text = refusal(override)
    assert f"`{key}`" in text
    assert words in text
    assert value in text


def test_values_that_contradict_each_other_are_refused() -> None:
    assert "elites 4 must be fewer than population 4" in refusal(
        "alg.population=4", "alg.learners=1", "alg.elites=4"
    )
    assert "target_low" in refusal("env.target_low=0.6")


def test_several_mistakes_are_named_together() -> None:
    text = refusal("alg.population=1", "alg.gamma=2")
    assert "alg.population" in text
    assert "alg.gamma" in text


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("run.name=${nothing}", "Interpolation key 'nothing' not found"),
        ("run.name=${run.name}", "Recursive"),
        ("seed.=3", "Cannot read `seed.=3`"),
        ("alg..gamma=3", "Cannot read `alg..gamma=3`"),
        ("seed@alg=3", "write key=value"),
    ],
)
def test_what_only_the_grammar_of_overrides_knows_is_refused_in_a_sentence(override: str, words: str) -> None:
    assert words in refusal(override)


def test_the_last_of_two_overrides_counts() -> None:
    assert load_config(["seed=1", "seed=2"]).seed == 2


def test_hydra_grammar_gives_lists_nulls_and_quotes() -> None:
    config = load_config(
        ["env.features=[return_1,rsi]", "env.start='2010-01-01'", "run.name='a b, c'", "alg.candidates=null"]
    )
    assert isinstance(config.env, TradingConfig)
    assert config.env.features == ("return_1", "rsi")
    assert config.env.start == "2010-01-01"
    assert config.run.name == "a b, c"
    assert isinstance(config.alg, ERLConfig)
    assert config.alg.candidates is None


@pytest.mark.parametrize("override", ["alg.population=2,4", "alg.population=range(2,8)", "seed=choice(1,2)"])
def test_a_sweep_is_refused(override: str) -> None:
    assert "one value per run" in refusal(override)


@pytest.mark.parametrize("override", ["+alg.extra=1", "~alg.population"])
def test_keys_are_neither_added_nor_deleted(override: str) -> None:
    assert "write key=value" in refusal(override)


@pytest.mark.parametrize("override", ["alg.population", "alg.population=[1", "a b=3"])
def test_what_is_no_override_is_refused(override: str) -> None:
    assert "write key=value" in refusal(override)


def test_a_preset_that_does_not_exist_names_the_nearest_and_all() -> None:
    text = refusal("env=tradin")
    assert "did you mean `trading`?" in text
    assert "gym" in text


def test_presets_are_not_a_key() -> None:
    assert "alg=NAME" in refusal("presets.alg=erl")


def test_another_environment_is_another_kind_of_section() -> None:
    config = load_config(["env=gym", "env.id=Pendulum-v1"])
    assert isinstance(config.env, GymConfig)
    assert "Unknown key `env.window`" in refusal("env=gym", "env.window=8")


def test_an_algorithms_preset_says_how_it_differs_by_kind_of_environment() -> None:
    on = read_presets("eigen2.algorithms.erl.presets")["erl_ddpg"]["on"]
    for env, kind in (("trading", "trading"), ("gym", "gym"), ("pendulum", "control")):
        alg = load_config(["alg=erl_ddpg", f"env={env}"]).alg
        assert on[kind]
        assert {key: getattr(alg, key) for key in on[kind]} == on[kind]
    assert load_config(["alg.learners=2"]).alg.model_dump()["learners"] == 2


def test_what_is_shipped_is_what_is_declared() -> None:
    assert load_config().alg == ERLConfig()


@pytest.mark.parametrize("name", read_presets("eigen2.conf.env"))
def test_an_environments_preset_owns_nothing_but_the_environment(name: str) -> None:
    config = load_config(["alg=pwm_tiny" if name == "tasks" else "alg=erl", f"env={name}"])
    assert read_presets("eigen2.conf.env")[name].keys() <= type(config.env).model_fields.keys()


def loadable() -> list[tuple[str, str]]:
    """Each algorithm with an environment that all can learn, and each environment with an algorithm that takes it."""
    pairs = {(alg, "gym") for alg in registry.preset_names()}
    return sorted(
        pairs | {("pwm_tiny" if env == "tasks" else "erl", env) for env in read_presets("eigen2.conf.env")}
    )


@pytest.mark.parametrize(("alg", "env"), loadable())
def test_every_preset_loads_and_validates(alg: str, env: str) -> None:
    config = load_config([f"alg={alg}", f"env={env}"])
    assert config.presets == {"alg": alg, "env": env}
    assert validate(config.model_dump(mode="json")) == config


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        load_config().seed = 3  # type: ignore[misc]


def test_a_config_survives_yaml() -> None:
    config = load_config(
        ["alg.population=8", "env.tradable=[A,B]", "run.root='some where'", "env.end='2020-01-01'"]
    )
    assert validate(yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))) == config


def test_differences_name_what_changed_and_nothing_else() -> None:
    one, other = load_config(), load_config(["alg.population=8", "env.features=[rsi]"])
    found = differences(one, other)
    assert found.keys() == {"alg.population", "env.features"}
    assert isinstance(one.alg, ERLConfig)
    assert found["alg.population"] == (one.alg.population, 8)
    assert differences(one, load_config()) == {}


def test_differences_between_environments_read_none_where_a_key_is_missing() -> None:
    found = differences(load_config(), load_config(["env=gym"]))
    assert found["env.id"] == (None, "Pendulum-v1")
    assert found["env.kind"] == ("trading", "gym")


def test_overrides_on_a_base_keep_everything_else_of_it() -> None:
    base = load_config(["seed=3", "alg.population=8", "env.fee_bp=1"])
    resumed = load_config(["alg.generations=50"], base=base)
    assert isinstance(base.alg, ERLConfig)
    assert differences(base, resumed) == {"alg.generations": (base.alg.generations, 50)}


def test_a_base_keeps_its_presets() -> None:
    base = load_config(["env=gym"])
    assert load_config(["env=gym", "alg=erl"], base=base) == base
    with pytest.raises(ConfigError, match="keeps its presets"):
        load_config(["env=trading"], base=base)


def test_loading_twice_gives_equal_configs_and_leaves_nothing_behind() -> None:
    first = load_config(["seed=3"])
    load_config(["seed=4", "alg.population=8"])
    assert load_config(["seed=3"]) == first
    assert load_config() == preset_config({"alg": "erl", "env": "trading"})


def test_the_working_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_config()
    (tmp_path / "conf").mkdir()
    (tmp_path / "config.yaml").write_text("seed: 99")
    monkeypatch.chdir(tmp_path)
    assert load_config() == before


def test_the_shown_config_is_yaml_that_gives_the_same_config() -> None:
    overrides = ["alg.population=8", f"run.root='{'deep ' * 40}'", "run.name='[odd] name'"]
    facts = config_facts(overrides)
    assert validate(yaml.safe_load(config_text(facts))) == load_config(overrides)
    assert facts["differences"].keys() == {"alg.population", "run.root", "run.name"}
    assert config_text(config_facts([])).endswith("# as in the preset alg=erl env=trading")


def test_an_algorithm_that_cannot_learn_an_environment_says_so() -> None:
    assert "PWM learns control tasks" in refusal("alg=pwm_tiny", "env=trading")
    assert "one environment at a time" in refusal("alg=erl", "env=tasks")


def test_an_algorithm_nobody_brings_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="no algorithm called dreamer"):
        validate({"alg": {"kind": "dreamer"}, "env": {"kind": "gym"}})


def test_keys_that_only_operate_do_not_make_another_run() -> None:
    overrides = [
        "run.root=elsewhere",
        "checkpoint.every=9",
        "replay.every=3",
        "cluster=processes",
        "workers=5",
    ]
    assert computing_differences(load_config(), load_config([*overrides, "alg.generations=99"])) == {}
    changed = computing_differences(
        load_config(["alg=pwm_tiny", "env=gym"]), load_config(["alg=pwm_tiny", "env=gym", "alg.iterations=7"])
    )
    assert changed.keys() == {"alg.iterations"}, "the learning rate depends on it"


def test_a_renamed_key_is_read_from_old_configs_and_pointed_to_on_the_command_line() -> None:
    values = load_config(["alg=pwm_tiny", "env=gym"]).model_dump(mode="json")
    values["alg"]["final_rate"] = 0.5 * values["alg"].pop("final_lr_scale")
    assert validate(values).alg.model_dump()["final_lr_scale"] == values["alg"]["final_rate"]
    assert "`alg.final_rate` is now called `alg.final_lr_scale`" in refusal(
        "alg=pwm_tiny", "env=gym", "alg.final_rate=0.5"
    )


@pytest.mark.parametrize(
    "values", [{}, {"alg": None}, {"env": {"kind": "gym"}}, [], "alg", {"alg": {"kind": 3}}]
)
def test_a_config_without_an_algorithm_is_no_config(values: object) -> None:
    """A section that is missing is damage, never a default."""
    with pytest.raises(ConfigError):
        validate(values)
    with pytest.raises(ConfigError, match="env"):
        validate({"alg": {"kind": "erl"}})


@pytest.mark.parametrize(
    "path", ["~/p.csv", "my prices (1).csv", "a[b].csv", "C:\\p.csv", "it's.csv", "100%.csv", "a{b}.csv"]
)
def test_a_path_needs_no_quotes_beside_those_of_the_shell(path: str) -> None:
    config = load_config([f"env.data={path}"])
    assert isinstance(config.env, TradingConfig)
    assert config.env.data == path


def test_without_features_there_is_nothing_to_see_and_old_runs_still_read() -> None:
    assert "features is empty" in refusal("env.features=[]")
    stored = load_config([]).model_dump(mode="json")
    stored["env"]["features"] = []
    env = validate(stored, stored=True).env
    assert isinstance(env, TradingConfig)
    assert env.features == ()


def test_an_environment_can_be_given_arguments() -> None:
    config = load_config(["env=gym", "env.kwargs.g=9.0", "env.max_episode_steps=5"])
    assert isinstance(config.env, GymConfig)
    assert config.env.kwargs == {"g": 9.0}
    asked = load_config(["env=gym", "env.kwargs={g: 9.0}"]).env
    assert isinstance(asked, GymConfig)
    assert asked.kwargs == {"g": 9.0}
    assert computing_differences(config, load_config(["env=gym", "env.max_episode_steps=5"]))
