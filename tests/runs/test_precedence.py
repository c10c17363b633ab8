"""Precedence: command line, recipe, experiment, defaults."""

from pathlib import Path

import pytest
import yaml

from attnx.cli import main
from attnx.config.compose import compose
from attnx.errors import UserError
from tests.refusal import refused

EXPERIMENT = """\
# @package _global_
defaults:
  - override /scorer: dot
  - override /scope: local
  - override /optimizer: sgd
seed: 5
model:
  embedding_dim: 31
scope:
  window: 7
trainer:
  max_steps: 13
"""
RECIPE = """\
# @package _global_
defaults:
  - override /scorer: mlp
  - override /query: [token]
scorer:
  depth: 3
model:
  embedding_dim: 37
"""
BAHDANAU = """\
# @package _global_
defaults:
  - override /scorer: cosine
"""


def write_configs(folder: str, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = Path(folder, f"{name}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def user_configs(work_folder):
    """A user's own configuration folder, which holds a recipe named like one that ships."""
    files = {"experiment/mine": EXPERIMENT, "recipe/mine": RECIPE, "recipe/bahdanau": BAHDANAU}
    return write_configs(str(work_folder / "conf"), files)


def test_an_experiment_wins_over_the_defaults(user_configs):
    config = compose(["experiment=mine"], user_configs)
    assert (config["scorer"]["name"], config["scope"]["name"], config["optimizer"]["name"]) == ("dot", "local", "sgd")
    assert (config["seed"], config["model"]["embedding_dim"], config["scope"]["window"]) == (5, 31, 7)
    assert config["trainer"]["max_steps"] == 13


@pytest.mark.parametrize("line", [["experiment=mine", "recipe=mine"], ["+recipe=mine", "+experiment=mine"]])
def test_a_recipe_wins_over_an_experiment_in_any_order(line, user_configs):
    config = compose(line, user_configs)
    assert (config["scorer"]["name"], config["scorer"]["depth"]) == ("mlp", 3)
    assert list(config["query"]) == ["token"]
    assert config["model"]["embedding_dim"] == 37
    # What only the experiment names stays.
    assert (config["scope"]["name"], config["scope"]["window"]) == ("local", 7)
    assert (config["seed"], config["optimizer"]["name"], config["trainer"]["max_steps"]) == (5, "sgd", 13)


def test_the_command_line_wins_over_both(user_configs):
    line = ["+query=previous_state", "scorer.depth=2", "model.embedding_dim=41", "seed=7", "trainer.max_steps=17"]
    config = compose(["experiment=mine", "recipe=mine", *line, "scope=global", "optimizer=adam"], user_configs)
    assert (config["scorer"]["name"], config["scorer"]["depth"]) == ("mlp", 2)
    assert list(config["query"]) == ["previous_state"]
    assert (config["seed"], config["model"]["embedding_dim"], config["trainer"]["max_steps"]) == (7, 41, 17)
    assert (config["scope"]["name"], config["optimizer"]["name"]) == ("global", "adam")


def test_a_replaced_choice_loses_its_options(user_configs):
    scorer = compose(["recipe=mine", "scorer=additive"], user_configs)["scorer"]
    assert scorer == {"name": "additive", "hidden_size": 128}
    plain = {"name": "global", "sources": ["encoder"], "include_self": False}
    assert compose(["experiment=mine", "scope=global"], user_configs)["scope"] == plain
    assert compose(["recipe=luong_local_p", "scope=global"])["scope"] == plain
    assert compose(["experiment=mine", "recipe=luong_global"], user_configs)["scope"] == plain


@pytest.mark.parametrize(
    ("words", "kind", "names"),
    [
        (["query=previous_state"], "query", ["previous_state"]),
        (["query=[previous_state,token]"], "query", ["previous_state", "token"]),
        (["logger=[]", "query=token"], "logger", []),
        (["+logger=tensorboard", "query=token"], "logger", ["tensorboard"]),
        (["logger=[]", "+logger.wandb.project=mine", "query=token"], "logger", ["wandb"]),
    ],
)
def test_a_choice_of_several_replaces_what_a_file_gave_options(words, kind, names, user_configs):
    """What the command line gives options stays."""
    text = "defaults: [override /query: [self_attentive], override /logger: [wandb]]"
    text += "\nquery: {self_attentive: {rows: 3}}\nlogger: {wandb: {project: ours}}"
    write_configs(user_configs, {"experiment/several": f"{HEADER}{text}"})
    assert list(compose(["experiment=several", *words], user_configs)[kind]) == names


def test_a_wrong_option_in_a_recipe_is_reported(user_configs):
    write_configs(user_configs, {"recipe/wrong": "# @package _global_\nscorer:\n  hiden: 3\n"})
    for line in (["recipe=wrong"], ["recipe=wrong", "scorer=additive"], ["recipe=wrong", "experiment=mine"]):
        with pytest.raises(UserError, match="no option 'hiden'"):
            compose(line, user_configs)


HEADER = "# @package _global_\n"
FIRST_LINE = "the first line of an experiment or a recipe has to be '# @package _global_'"
REPLACED = "a file replaces a choice by '- override /scorer: NAME' in its defaults"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{HEADER}trainer: {{max_stepz: 5}}",
            "{file}: the trainer 'lightning' has no option 'max_stepz'; did you mean",
        ),
        (f"{HEADER}trainer: {{max_steps: five}}", "{file}: trainer.max_steps=five: expected a whole number"),
        (f"{HEADER}defaults: [override /scorer: dott]", "{file}: unknown scorer 'dott'; did you mean dot?"),
        (f"{HEADER}defaults: [scorer: dot]", f"{{file}}: {REPLACED}"),
        (f"{HEADER}defaults: [override scorer: dot]", f"{{file}}: {REPLACED}"),
        (f"{HEADER}defaults: [/scorer: dot]", f"{{file}}: {REPLACED}"),
        (f"{HEADER}foo: bar", "{file}: unknown key 'foo'"),
        (f"{HEADER}query: [token]", "{file}: a list cannot replace a choice of several; a file replaces a choice by"),
        (f"{HEADER}experiment: other", "{file}: a file replaces a choice by '- override /experiment: NAME'"),
        ("defaults: [override /scorer: dot]", f"{{file}}: {FIRST_LINE}"),
        ("trainer: {max_steps: 5}", f"{{file}}: {FIRST_LINE}"),
        ("[a, b]", f"{{file}}: {FIRST_LINE}"),
        (f"{HEADER}trainer: {{max_steps: 5", "{file}:2: not valid YAML: expected ',' or '}}'"),
        (f"{HEADER}seed: 1\nseed: 2", "{file}:3: not valid YAML: found duplicate key seed"),
        (f"{HEADER}name: {'[' * 1000}{']' * 1000}", "{file}: nested too deep"),
        ("name: \udcff", "{file}: not UTF-8 text"),
    ],
    ids=str,
)
def test_a_mistake_in_a_file_names_the_file(text, message, user_configs):
    file = Path(user_configs, "experiment", "mine.yaml")
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    for line in (["experiment=mine"], ["scope=global", "experiment=mine"]):
        with refused(f"{message.format(file=file)}..."):
            compose(line, user_configs)


def test_a_config_file_of_the_user_replaces_that_of_attnx(user_configs):
    file = Path(user_configs, "config.yaml")
    file.write_text("foo: 1\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"^{file}: unknown key 'foo'"):
        compose([], user_configs)
    with pytest.raises(
        UserError, match=r"^your config\.yaml replaces that of attnx, and has no scorer in its defaults$"
    ):
        compose(["scorer=dot"], user_configs)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("experiment=mine trainer.max_steps=six", "trainer.max_steps=six: expected..."),
        ("experiment=minee", "unknown experiment 'minee'; did you mean mine?..."),
        ("recipe=mine scorer=additive scorer.depth=2", "...'additive' has no option 'depth'..."),  # it is not dropped
    ],
)
def test_a_mistake_on_the_command_line_names_no_file(line, message, user_configs):
    with refused(message):
        compose(line.split(), user_configs)


def test_an_experiment_may_extend_a_recipe(user_configs):
    text = "defaults:\n  - /recipe@_global_: luong_local_m\n  - override /scorer: dot\nscope:\n  window: 2\n"
    write_configs(user_configs, {"experiment/built": f"# @package _global_\n{text}"})
    config = compose(["experiment=built"], user_configs)
    assert (config["scorer"]["name"], config["scope"]["name"], config["scope"]["window"]) == ("dot", "local", 2)
    assert config["model"]["feed"] == "next"


def test_a_user_file_wins_over_a_shipped_one(user_configs):
    assert compose(["recipe=bahdanau"])["scorer"]["name"] == "additive"
    assert compose(["recipe=bahdanau"], user_configs)["scorer"]["name"] == "cosine"
    assert compose(["recipe=luong_global"], user_configs)["scorer"]["name"] == "multiplicative"
    assert compose(["recipe=bahdanau"])["scorer"]["name"] == "additive"


@pytest.mark.parametrize("flag", [["--config-dir", "conf"], ["--config-dir=conf"], ["-cd", "conf"]])
def test_the_flag_works_for_a_run(flag, user_configs, trained_configs):
    assert main.run(["recipe=bahdanau", *flag, "scope=local"]) == 0
    (config,) = trained_configs
    assert (config["scorer"]["name"], config["scope"]["name"]) == ("cosine", "local")


def test_the_flag_works_for_a_sweep_and_a_printed_configuration(user_configs, swept_configs, command):
    shown = yaml.safe_load(command("--cfg", "job", "recipe=bahdanau", "--config-dir", user_configs).out)
    assert shown["scorer"]["name"] == "cosine"
    main.run(["-m", "recipe=mine,bahdanau", "--config-dir", "conf"])
    assert [config["scorer"]["name"] for config in swept_configs] == ["mlp", "cosine"]


INEFFECTIVE = {
    "in one file": (["experiment=odd"], r"^experiment=odd: trainer\.batch_size=32 has no effect beside"),
    "in the file of a part": (["trainer=odd"], r"^trainer=odd: trainer\.batch_size=32"),
    "a part": (["recipe=odd"], r"^recipe=odd: encoder=pyramid has no effect beside model=transformer"),
    "on the command line": (["recipe=even", "trainer.batch_size=3"], r"^trainer\.batch_size=3 has no effect beside"),
}


@pytest.fixture
def odd_configs(user_configs):
    """Files that set what they leave without effect."""
    files = {
        "experiment/odd": "# @package _global_\ntrainer: {batch_size: 32, batch_tokens: 1000}\n",
        "trainer/odd": "defaults: [lightning]\nbatch_size: 32\nbatch_tokens: 1000\n",
        "recipe/odd": "# @package _global_\ndefaults: [override /model: transformer, override /encoder: pyramid]\n",
        "recipe/even": "# @package _global_\ntrainer: {batch_tokens: 1000}\n",
        "recipe/rows": "# @package _global_\ntrainer: {batch_size: 32}\n",
    }
    return write_configs(user_configs, files)


@pytest.mark.parametrize(("overrides", "message"), INEFFECTIVE.values(), ids=INEFFECTIVE)
def test_what_a_user_wrote_without_effect_is_refused(overrides, message, odd_configs):
    with pytest.raises(UserError, match=message):
        compose(overrides, odd_configs)


def test_what_the_command_line_or_another_preset_replaces_is_no_mistake(odd_configs):
    assert compose(["recipe=rows", "trainer.batch_tokens=7"], odd_configs)["trainer"]["batch_tokens"] == 7
    assert compose(["recipe=even", "experiment=odd"], odd_configs)["trainer"]["batch_tokens"] == 1000
    assert compose(["recipe=odd", "model=seq2seq"], odd_configs)["encoder"]["name"] == "pyramid"
    assert compose(["recipe=transformer"])["model"]["name"] == "transformer"
