"""A problem of attnx is a plug-in that ships: its folder, copied to a user's plug-ins, trains under another name."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx import registry
from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.inference.load import open_run
from attnx.registry.source_scan import catalog
from attnx.runs.run import read_run
from tests.runs.conftest import fit_run

SIZES = ["trainer.batch_size=8", "trainer.max_steps=5", "trainer.num_validations=2", "trainer.test_examples=3"]
# A small run of each problem that has a model of its own, a source that it reads, and a picture that it draws itself.
PROBLEMS = {
    "forecasting": (
        [
            *("recipe=attention_rnn", "model=history", "task=forecasting", "task.file=series.csv", "task.lookback=7"),
            *("task.horizon=3", "task.split=[61,17,19]", "task.season_length=5"),
        ],
        np.arange(14, dtype=np.float32).reshape(7, 2) % 5,
        "forecasts.png",
    ),
    "pointing": (
        ["recipe=pointer", "task=pointing", "task.problem=hull", "task.examples=31", "task.num_held_out=7"],
        np.array([[0.1, 0.2], [0.7, 0.3], [0.5, 0.9]], np.float32),
        "points.png",
    ),
    "stories": (
        ["recipe=entnet", "task.data=world_model", "task.stories=40", "task.statements=5", "model.num_slots=3"],
        "agent1 is at (3,4). agent1 moves-2. Where is agent1?",
        "alignments.png",
    ),
}


def copy_renamed(problem: str, folder: Path) -> dict[str, str]:
    """Copy the files of a problem with a new name for each part they register; return these by kind."""
    source = Path(attnx.__file__).parent / "problems" / problem
    parts = [part for part in catalog().parts.values() if part.file.is_relative_to(source)]
    for file in source.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for part in parts:
            text = text.replace(f'"{part.name}"', f'"my_{part.name}"')
        copy = folder / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return {part.kind: f"my_{part.name}" for part in parts}


# What contradicts each model, by the names of the copies.
MISTAKES = {
    "forecasting": [
        "model=my_history task=g2p",
        "model=my_history task=language_model",
        "model=my_history task=my_forecasting attention=none",
        "model=my_history task=my_forecasting scope=encoder_decoder",
    ],
    "pointing": [
        "model=my_pointer task=g2p",
        "model=my_pointer task=my_pointing attention=none",
        "model=my_pointer task=my_pointing attention.hops=2",
        "model=my_pointer task=my_pointing encoder=hierarchical",
    ],
    "stories": [
        "model=my_entity task=g2p",
        "model=my_entity task=my_qa attention=none",
        "model=my_entity task=my_qa scope.include_self=true",
    ],
}


@pytest.mark.parametrize("problem", MISTAKES)
def test_a_copied_problem_speaks_of_its_own_names(problem):
    """As model=my_entity, not as the original, which is there, too."""
    names = copy_renamed(problem, Path("plugins/mine"))
    for mistake in MISTAKES[problem]:
        with pytest.raises(UserError) as error:
            compose(mistake.split())
        assert f"model={names['model']}" in str(error.value)
        assert not re.search(r"model=(history|pointer|entity)\b", str(error.value))


def measured(folder: str) -> dict[str, Any]:
    """The metrics of a run's test by their original names."""
    results = read_run(folder).results
    return {name.replace("my_", ""): value for name, value in results.items() if name.startswith("test_")}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_copied_problem_trains_under_another_name(problem, same_weights, monkeypatch):
    """Weights, results and pictures are those of the original, which cannot be imported; the run keeps its files."""
    words, source, picture = PROBLEMS[problem]
    for others in ("draw_curves", "draw_predictions" if picture == "alignments.png" else "draw_attention"):
        monkeypatch.setattr(f"attnx.reports.build_all.{others}", lambda folder: [])
    rows = [f"{step * 37 % 11},{step * 17 % 5}" for step in range(97)]
    Path("series.csv").write_text("\n".join(["a,b", *rows]), encoding="utf-8")
    config = fit_run([*words, *SIZES], "original").config

    names = copy_renamed(problem, Path("plugins/mine"))
    for module in [name for name in sys.modules if f"{name}.".startswith("attnx.problems.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "attnx.problems", None)
    assert catalog().broken == []
    renamed: dict[str, Any] = {kind: {**config[kind], "name": names[kind]} for kind in ("task", "model")}
    run = fit_run([*words, *SIZES], "copy", **renamed)
    for kind in renamed:
        part = getattr(run, kind)
        assert type(part).__module__.startswith("attnx.plugins.mine.")
    assert same_weights(["original", "copy"])
    assert measured("copy") == measured("original")
    assert Path("copy", picture).read_bytes() == Path("original", picture).read_bytes()

    shutil.move("plugins", "unused")
    registry.forget_changed()
    monkeypatch.setenv("ATTNX_PLUGINS", "copy/plugins")
    reopened, trained = (opened.predict([source])[0].output for opened in (open_run("copy"), run))
    assert np.array_equal(reopened, trained)
    files, copies = (
        {str(file.relative_to(top)) for file in Path(top).rglob("*.py")} for top in ("unused", "copy/plugins")
    )
    assert copies == files
