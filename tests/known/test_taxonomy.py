"""The table of the mechanisms of surveys: every command composes, every test exists, every part has a row."""

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

import attnx
from attnx import registry

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
