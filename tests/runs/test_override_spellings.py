"""One composition has many spellings on the command line and in Python."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

import attnx
from attnx.cli import main
from attnx.config.compose import compose
from attnx.config.groups import conf_folder
from attnx.registry import names
from attnx.sweeps.overrides import expand_sweep

GROUPS = ("recipe", "experiment")
PRESETS = [f"{group}={file.stem}" for group in GROUPS for file in sorted((conf_folder() / group).glob("*.yaml"))]

# What a preset needs beside it: a pointer writes positions, and words have none.
NEEDED_WITH = {"recipe=pointer": ["task=pointing"]}


def test_without_arguments_the_default_experiment_runs(trained_configs):
    assert main.run([]) == 0
    (config,) = trained_configs
    assert config["task"]["name"] == "g2p"
    assert config["task"]["train"] is None
    assert (config["scorer"]["name"], config["scope"]["name"]) == ("additive", "global")
    assert list(config["query"]) == ["current_state"]
    assert config["normalizer"]["name"] == "softmax"
    assert config["attention"]["name"] == "standard"


@pytest.mark.parametrize("spelling", ["{}", "+{}", "++{}"])
def test_a_choice_may_have_any_number_of_pluses(spelling, trained_configs):
    assert main.run([spelling.format(choice) for choice in ("scorer=mlp", "scope=local", "scorer.depth=3")]) == 0
    assert (trained_configs[0]["scorer"]["name"], trained_configs[0]["scope"]["name"]) == ("mlp", "local")
    assert trained_configs[0]["scorer"]["depth"] == 3
    assert trained_configs[0]["scope"]["window"] == 3


def test_a_sweep_accepts_every_spelling_and_order(swept_configs):
    assert main.run(["+scorer=dot,scaled", "-m", "++scope=local"]) == 0
    parts = [(config["scorer"]["name"], config["scope"]["name"]) for config in swept_configs]
    assert parts == [("dot", "local"), ("scaled", "local")]


def test_a_glob_expands_to_every_part_of_a_kind():
    jobs = expand_sweep(["scope=glob(*)"]).jobs
    assert [job[0].partition("=")[2] for job in jobs] == sorted(names("scope"))


@pytest.mark.parametrize(
    "line", ["--cfg job scorer=dot seed=7", "seed=7 --cfg=job +scorer=dot", "++scorer=dot -c job seed=7"]
)
def test_a_configuration_is_printed_and_nothing_is_trained(line, command, trained_configs, work_folder):
    answer = command(*line.split())
    shown = yaml.safe_load(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert (shown["scorer"]["name"], shown["scope"]["name"], shown["seed"]) == ("dot", "global", 7)
    assert "hydra" not in shown
    assert not trained_configs
    assert not list(work_folder.iterdir())


def test_a_query_is_an_ordered_set():
    assert list(compose(["+query=[token,last_context]"])["query"]) == ["token", "last_context"]
    assert list(compose(["query=[last_context,token]"])["query"]) == ["last_context", "token"]
    assert list(compose(["+query=token"])["query"]) == ["token"]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_recipe_and_experiment_composes(preset):
    kind, _, name = preset.partition("=")
    written = yaml.safe_load((conf_folder() / kind / f"{name}.yaml").read_text(encoding="utf-8"))
    config = compose([preset, *NEEDED_WITH.get(preset, [])])
    for line in written.get("defaults", []):
        for group, choice in line.items():
            if group.startswith("override /hydra/"):  # of Hydra's sweeper or launcher
                continue
            part_node = config[group.removeprefix("override /")]
            assert part_node["name"] == choice if isinstance(choice, str) else list(part_node) == choice
    for node, options in written.items():
        if node not in ("defaults", "hydra"):
            assert_contains(config[node], options)


def assert_contains(node: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """A part has these options, a set of parts these parts with their options."""
    for option, value in options.items():
        if isinstance(value, dict):
            assert_contains(node[option], value)
        else:
            assert node[option] == value


def test_a_preset_file_is_a_choice():
    trainer = compose(["trainer=ddp", "experiment=g2p_full"])["trainer"]
    assert (trainer["name"], trainer["devices"]) == ("lightning", None)
    assert trainer["max_epochs"] == compose(["experiment=g2p_full"])["trainer"]["max_epochs"] == 20


def test_there_are_presets_to_compose():
    assert {preset.partition("=")[0] for preset in PRESETS} == {"recipe", "experiment"}


def test_python_composes_what_the_command_does(trained_configs):
    main.run(["+scorer=mlp", "scorer.depth=3", "seed=11"])
    assert attnx.compose(["scorer=mlp", "+scorer.depth=3", "seed=11"]) == trained_configs[0]


def test_help_does_not_import_torch():
    loaded = (
        "import sys, attnx.cli.main; [attnx.cli.main.run(words) for words in (['--help'], ['--help', 'all'])]; "
        "sys.exit(bool({'torch', 'lightning'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("scorer", "multiplicative", "scope", "recipe", "bahdanau", "resume FOLDER", "+scope=local"):
        assert word in done.stdout
