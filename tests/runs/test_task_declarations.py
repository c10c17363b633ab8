"""What a task declares for reports: what draws its outputs, captions, names of baselines, and facts on its metrics."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attnx import registry
from attnx.errors import UserError
from attnx.reports.build_all import draw_attention, draw_predictions
from attnx.reports.metric_names import is_error, is_higher_better, is_percent, metric_label, metric_unit
from attnx.reports.run.readme import write_run_readme
from attnx.reports.run.task_declarations import baseline_names
from attnx.runs.run import read_run
from tests.runs.conftest import write_plug_in

TASK = """
from attnx.registry import register
from attnx.tasks.contract import SequenceTask

@register(
    "task", "drawn",
    baselines={"luck": "a guess"},
    figures={"predictions": ".drawn_figures.draw_lines"},
    pictures={"lines.png": "some lines"},
    metric_facts={
        "luster": {"higher_is_better": True, "is_percent": True, "label": "LUSTER", "unit": "% of the sun"},
        "deep_glow": {"label": "GLOW"},
    },
)
class Drawn(SequenceTask):
    '''Text, drawn.'''
"""
FIGURES = """
def draw_lines(folder, form):
    picture = folder / f"lines.{form}"
    picture.write_bytes(b"drawn")
    return [picture]
"""


@pytest.fixture
def drawn_run(runs):
    """A run whose task is a plug-in with figures of its own."""
    write_plug_in("drawn", TASK)
    write_plug_in("drawn_figures", FIGURES)
    config = runs / "one" / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("name: g2p", "name: drawn"), encoding="utf-8")
    return runs / "one"


def test_a_task_draws_its_predictions(drawn_run, succeed):
    shutil.rmtree(drawn_run / "alignments")
    assert draw_predictions(drawn_run, "svg") == [drawn_run / "lines.svg"]
    output = succeed("plot", str(drawn_run))
    assert f"{drawn_run / 'lines.png'}" in output.split()
    assert "| `lines.png` | some lines |" in write_run_readme(drawn_run).read_text(encoding="utf-8")
    assert baseline_names(read_run(drawn_run)) == {"luck": "a guess"}


def test_what_a_task_does_not_draw_is_drawn_as_always(drawn_run):
    for alignment in sorted((drawn_run / "alignments").glob("*.npz"))[1:]:
        alignment.unlink()
    assert draw_attention(drawn_run)[-1] == drawn_run / "alignments.png"


def test_a_run_without_its_plug_in_is_drawn_as_always(drawn_run):
    Path("plugins/drawn.py").unlink()
    assert draw_predictions(drawn_run) == []
    assert "lines.png" not in write_run_readme(drawn_run).read_text(encoding="utf-8")
    assert baseline_names(read_run(drawn_run)) == {}


def test_a_task_says_what_reports_cannot_know_of_its_metrics(drawn_run):
    assert is_higher_better("test_luster_macro")
    assert is_percent("test_luster_7")
    assert is_error("valid_luster")
    assert (metric_label("test_luster"), metric_unit("test_luster")) == ("LUSTER", "% of the sun")
    assert metric_label("valid_deep_glow_macro") == "GLOW macro in validation, best"
    Path("plugins/drawn.py").unlink()
    registry.forget_changed()  # as the next composition does
    assert is_higher_better("test_luster") is None
    assert not is_percent("test_luster")


def test_figures_that_cannot_be_imported_are_one_line(drawn_run):
    Path("plugins/drawn_figures.py").write_text("import no_such_module", encoding="utf-8")
    with pytest.raises(UserError, match=r"the task 'drawn', .*drawn_figures.py:1.*no_such_module"):
        draw_predictions(drawn_run)


def test_a_declaration_of_another_type_is_refused(drawn_run):
    text = TASK.replace('{"lines.png": "some lines"}', '"lines.png"')
    Path("plugins/drawn.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"drawn.py:9: pictures is 'lines.png'; write pictures = a dictionary by name"):
        registry.declarations("task", "drawn")
    assert draw_predictions(drawn_run) == []
    assert is_higher_better("test_luster") is None


def test_figures_of_a_problem_need_no_torch():
    code = """
import sys
from attnx import registry

for task, what in {"forecasting": "predictions", "pointing": "predictions", "qa": "alignments"}.items():
    part = registry.describe("task", task)
    registry.import_declared(part, part.declarations["figures"][what])
    assert "torch" not in sys.modules, task
"""
    subprocess.run([sys.executable, "-c", code], check=True)
