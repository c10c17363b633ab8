"""What papers, surveys and other programs call things leads to something that exists, and the pages list it."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import attnx
from attnx import registry
from attnx.config.compose import compose
from attnx.config.groups import group_choices, parts_by_option
from attnx.config.hydra_errors import unknown_key
from attnx.registry.synonyms import KNOWN_AS

NEEDED = {
    "model.mixer": ("task=language_model", "model=transformer", "model.form=decoder_only"),
    "task.problem": ("task=probe", "scope=history"),
}
PAGE = Path(__file__).parents[2] / "docs" / "known-as.md"


def test_a_word_of_others_leads_to_what_exists():
    for target in {target for targets in KNOWN_AS.values() for target in targets}:
        key, _, value = target.partition("=")
        kind, _, option = key.partition(".")
        if not option:
            assert value in group_choices(kind), target
        elif value:
            compose([*NEEDED.get(key, ()), target])
        else:
            assert option in parts_by_option(kind), target


def test_a_word_of_others_names_no_such_choice_or_option_itself():
    """Where it did, the hint would never be seen."""
    for word, target in ((word, target) for word, targets in KNOWN_AS.items() for target in targets):
        kind, _, option = target.partition("=")[0].partition(".")
        assert word not in (parts_by_option(kind) if option else group_choices(kind)) or target == f"{kind}={word}"


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (registry.unknown("scope", "causal", ["history", "local"]), "; did you mean history?"),
        (registry.unknown("scorer", "Sliding-Window", ["dot", "additive"]), "; did you mean scope=local?"),
        (registry.unknown_option("decoding", "beam", "num_beams"), "; did you mean beam_size?"),
        (unknown_key("early_stopping"), "; did you mean trainer.patience?"),
        (unknown_key("mixed_precision"), "; did you mean trainer.precision=bf16-mixed?"),
        (unknown_key("decoding.beam_width"), "; did you mean beam_size?"),
    ],
)
def test_messages_on_words_of_others(message, hint):
    assert f"{hint};" in f"{message};"


def test_the_page_lists_every_word():
    """As people search for it: with spaces."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    expected = [
        f"| {word.replace('_', ' ')} | {', '.join(f'`{target}`' for target in targets)} |"
        for word, targets in sorted(KNOWN_AS.items())
    ]
    assert rows == ["| known as | in attnx |", *expected]


def test_the_page_names_options_that_exist():
    """Also those that are called the same everywhere, which it lists beside the table."""
    options = re.findall(r"`([a-z_]+)\.([a-z_]+)[=`]", PAGE.read_text(encoding="utf-8"))
    assert len(options) > len(KNOWN_AS) / 2
    assert [f"{kind}.{option}" for kind, option in options if option not in parts_by_option(kind)] == []


ROOT = Path(__file__).parents[2]
SURVEYS = yaml.safe_load((ROOT / "docs" / "taxonomy.yaml").read_text(encoding="utf-8"))
ROWS: list[dict[str, str]] = [row for survey in SURVEYS for group in survey["groups"].values() for row in group]
SERVED = [row for row in ROWS if "type" in row]


@pytest.mark.parametrize("words", sorted({row["type"] for row in SERVED}))
def test_a_command_composes(words):
    config: dict[str, Any] = attnx.compose(words.split())
    for word in words.split():
        key, _, value = word.partition("=")
        if "." not in key and key not in ("query", "recipe"):
            assert config[key]["name"] == value


def test_rows_are_complete():
    """Served with a test, or outside with a reason; a row without a part names its source."""
    for row in ROWS:
        assert ("outside" in row) != ({"type", "test"} <= row.keys()), row
    for row in SERVED:
        keys = {word.partition("=")[0] for word in row["type"].split()}
        assert "source" in row or not all("." in key or key == "recipe" for key in keys), row


def test_every_test_exists():
    for row in SERVED:
        file, _, name = row["test"].partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, row["test"]


@pytest.mark.parametrize("kind", ["scorer", "normalizer", "model.mixer"])
def test_every_part_of_the_core_has_a_row(kind):
    """A mechanism that no survey names is named in the last group."""
    words = {word for row in SERVED for word in row["type"].split()}
    names = registry.names(kind.rpartition(".")[2])
    parts = [name for name in names if registry.describe(kind.rpartition(".")[2], name).origin == "core"]
    assert [name for name in parts if f"{kind}={name}" not in words] == []
