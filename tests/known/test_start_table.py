"""The table that a run starts with: what was chosen, and what differs from the defaults."""

from types import SimpleNamespace
from typing import Any

import pytest

import attnx
from attnx.config.groups import changed_options
from attnx.config.view import dotted_keys
from attnx.reports.run.tables import option_rows, start_table
from attnx.runs.run import Run
from attnx.training.run_folder import task_notes
from tests.terminal_text import terminal_text

COMPOSITION = ["task", "model", "scorer", "scope", "query", "normalizer", "seed"]


def make_run(*overrides: str, **info: Any) -> Run:
    run = Run("multirun/runs/mine")
    run.config = {key: value for key, value in attnx.compose(list(overrides)).items() if key != "folder"}
    run.info = {"format": 1, "overrides": list(overrides), **info}
    return run


def shown(run: Run, is_verbose: bool = False) -> list[list[str]]:
    return [line.split() for line in terminal_text(start_table(run, is_verbose), 100).splitlines()]


def test_the_default_run_shows_its_composition():
    rows = list(option_rows(make_run()))
    assert [key for key, _, _ in rows] == COMPOSITION
    assert not any(mark for _, _, mark in rows)
    assert changed_options(attnx.compose([])) == {}


@pytest.mark.parametrize(("count", "further"), [(5, []), (6, ["and 2 further notes, of less weight"])])
def test_at_most_five_notes_are_kept(count, further):
    notes = [f"note {number}" for number in range(count)]
    module = SimpleNamespace(task=SimpleNamespace(signatures=lambda metrics: {}), test_metrics={})
    prepared: Any = SimpleNamespace(notes=notes, module=module)
    assert task_notes(prepared) == {"notes": [*notes[: 5 - len(further)], *further]}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["+scorer=mlp", "scorer.depth=2"], {"scorer": "mlp", "scorer.depth": "2"}),
        (["scorer=additive", "trainer.max_steps=7"], {"scorer": "additive", "trainer.max_steps": "7"}),
        (["query=[token,language_tag]", "query.language_tag.embedding_dim=5"],
         {"query": "[token,language_tag]", "query.language_tag.embedding_dim": "5"}),
        (["name=mine", "accel=off", "seed=3"], {"seed": "3", "name": "mine", "accel": "off"}),
    ],
    ids=str,
)  # fmt: skip
def test_overrides_are_marked(overrides, expected):
    rows = list(option_rows(make_run(*overrides)))
    assert {key: value for key, value, mark in rows if mark} == expected
    assert {key for key, _, mark in rows if not mark} == {*COMPOSITION} - set(expected)


def test_what_a_recipe_sets_is_shown_without_a_mark():
    """Luong et al. 2015 multiply, and predict the center of a window; an override wins, and is marked."""
    run = make_run("recipe=luong_local_p", "scope.window=3")
    rows = {key: (value, mark) for key, value, mark in option_rows(run)}
    assert rows["recipe"] == ("luong_local_p", "override")
    assert rows["scorer"] == ("multiplicative", "")
    assert rows["scope.center"] == ("predictive", "")
    assert rows["scope.window"] == ("3", "override")
    assert {key for key, (_, mark) in rows.items() if mark} == {"recipe", "scope.window"}


def test_the_table_continues_with_the_schedule_and_kernels():
    run = make_run("scorer=dot", schedule="run then attend", kernels="sdpa", parameters=29243)
    lines = shown(run)
    assert lines[0] == ["attnx", "multirun/runs/mine"]
    assert ["scorer", "dot", "override"] in lines
    assert ["scope", "global"] in lines
    assert ["schedule", "run", "then", "attend"] in lines
    assert ["fast", "kernels", "sdpa"] in lines
    assert ["parameters", "29,243"] in lines
    assert not any("trainer.max_time" in line for line in lines)


def test_verbose_shows_every_option():
    run = make_run("scorer=dot")
    lines = shown(run, is_verbose=True)
    assert {*dotted_keys(run.config)} <= {line[0] for line in lines if line}
    assert ["trainer.max_time", "00:04:00"] in lines
    assert ["scorer", "dot", "override"] in lines
