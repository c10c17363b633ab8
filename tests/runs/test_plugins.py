"""A plug-in is one file: it trains, sweeps, loads in other processes, and breaks nothing else."""

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnx import registry
from attnx.attention import build
from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.inference.load import open_run
from attnx.registry import source_scan
from attnx.sweeps.overrides import expand_sweep
from tests.runs.conftest import TASK, fit_run, table, write_plug_in

SCORER = '''\
"""The scorer ``{name}``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention.scorers.dot import Dot
from attnx.registry import PositiveFloat, Size, register


@register("scorer", "{name}")
class Mine(Dot):
    """The negative distance of the projected query from the memory, made steeper.

    Formula: ``score(q, m) = -steep |W q - m|_1``
    """

    requires_equal_dims = False

    def __init__(self, query_size: Size, memory_size: Size, steep: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.project = nn.Linear(query_size, memory_size, bias=False)
        self.steep = steep

    def project_queries(self, queries: Tensor) -> Tensor:
        return self.project(queries)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return -self.steep * (queries[..., :, None, :] - keys[..., None, :, :]).abs().sum(-1)
'''
NORMALIZER = '''\
from attnx.registry import register
from torch import nn


@register("normalizer", "squares")
class Squares(nn.Module):
    """Shares of the squared scores."""

    is_distribution = True

    def forward(self, scores, allowed_mask):
        squares = scores.square().masked_fill(~allowed_mask, 0.0)
        return squares / squares.sum(-1, keepdim=True).clamp(min=1e-9)
'''
# It needs no torch, which a new process imports for seconds.
TOKENIZER = '''\
from attnx.registry import PositiveInt, register


@register("tokenizer", "long")
class Long:
    """Pieces of a length."""

    def __init__(self, length: PositiveInt = 6):
        self.length = length
'''


def test_a_new_scorer_trains_and_is_reopened(run):
    write_plug_in("mine", SCORER.format(name="mine"))
    trained = run("+scorer=mine", "scorer.steep=3", folder="one")
    assert trained.config["scorer"] == {"name": "mine", "steep": 3}
    assert trained.model.attention.scorer.steep == 3
    assert type(trained.model.attention.scorer).__module__ == "attnx.plugins.mine"
    weights = trained.predict(["dab"], need_weights=True)[0].weights
    assert weights.sum(-1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+scorer.step=3", "no option 'step'; did you mean steep"),
        ("scorer.steep=-1", r"scorer\.steep=-1: expected a number above 0"),
    ],
)
def test_options_of_a_plug_in_are_checked(override, message):
    write_plug_in("mine", SCORER.format(name="mine"))
    with pytest.raises(UserError, match=message):
        compose(["scorer=mine", override])


INHERITING = """\
from attnx.decoding.beam import Beam
from attnx.problems.listops import listops
from attnx.registry import register
from attnx.tasks import g2p

@register("task", "mine")
class Mine(g2p.G2p): ...

@register("decoding", "mine")
class MyBeam(Beam): ...

@register("task", "lists")
class Lists(listops.ListOps): ...

@register("task", "short_lists")
class ShortLists(listops.ListOps):
    def __init__(self, examples: int = 20) -> None:
        super().__init__(examples=examples)
"""


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["task=mine", "task.test=w.tsv"], "task.test=w.tsv has no effect beside task.train=null"),
        (["decoding=mine", "decoding.length_penalty_alpha=0.3"], "no effect beside decoding.length_penalty=none"),
        (["task=lists", "model=classifier", "task.max_args=1"], "task.max_args=1: a list has two arguments or more"),
    ],
)
def test_a_part_that_inherits_is_checked_as_its_base_is_by_the_options_it_has(overrides, message):
    write_plug_in("mine", INHERITING)
    with pytest.raises(UserError, match=message):
        compose(overrides)
    # An option of the base that the part does not have is not checked.
    assert compose(["task=short_lists", "model=classifier"])["task"] == {"name": "short_lists", "examples": 20}


def test_another_process_finds_a_plug_in_by_the_variable(words, small, fork_command):
    folder = write_plug_in("mine", SCORER.format(name="mine"), folder="elsewhere/parts").parent
    process = fork_command("scorer=mine", *small, "trainer.test_examples=1", "folder=one", ATTNX_PLUGINS=str(folder))
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert Path("one/alignments.png").is_file()
    with pytest.raises(UserError, match="unknown scorer 'mine'"):  # which this process does not know
        compose(["scorer=mine"])


def test_a_plug_in_is_swept_by_name(command, succeed, refuse, words, small, shared_server):
    write_plug_in("mine", SCORER.format(name="mine"))
    succeed("-m", "scorer=mine,dot", *small, "name=grid")
    folders = [Path("multirun/grid") / str(number) for number in range(2)]
    assert [open_run(folder).config["scorer"]["name"] for folder in folders] == ["mine", "dot"]
    write_plug_in("mine", SCORER.format(name="mine").replace("-self", "self"))
    line = refuse("-m", "scorer=mine,dot", *small, "name=grid")
    assert "multirun/grid/0: the code of mine.py has changed since this run was trained" in line
    assert "put that back, or add fresh=true to the sweep's command" in line


def test_a_glob_includes_plug_ins(command, swept_configs):
    write_plug_in("mine", SCORER.format(name="mine"))
    command("-m", "+scorer=glob(mi*)")
    assert [config["scorer"]["name"] for config in swept_configs] == ["mine"]
    assert "mine" in {job[0].partition("=")[2] for job in expand_sweep(["scorer=glob(*)"]).jobs}


def test_a_plug_in_is_listed_and_suggested(command):
    write_plug_in("mine", SCORER.format(name="mine"))
    out = command("list", "scorer=mine").out
    assert "score(q, m) = -steep |W q - m|_1" in out
    assert "plug-in mine.py" in out
    assert "mine" in command("--help", "all").out.split("scope")[0].split()


def test_a_plug_in_is_built_from_python():
    write_plug_in("mine", SCORER.format(name="mine"))
    write_plug_in("squares", NORMALIZER)
    attention = build(scorer=("mine", {"steep": 1}), normalizer="squares", query_size=3, memory_size=2)
    torch.nn.init.zeros_(attention.scorer.project.weight)
    # The projected query is 0, so the scores are the negated sums 1 and 2; squared and shared: 1/5 and 4/5.
    read = attention(
        torch.ones(1, 1, 3), attention.make_memory(torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])), need_weights=True
    )
    assert read.weights[0, 0].tolist() == pytest.approx([0.2, 0.8])


def test_a_new_task_trains(no_pictures):
    write_plug_in("mine", TASK)
    write_plug_in("scorer", SCORER.format(name="mine"))
    sizes = ["model.embedding_dim=5", "encoder.hidden_size=7", "decoder.hidden_size=11"]
    sizes += ["trainer.batch_size=8", "trainer.max_steps=6"]
    trained = fit_run(["task=mine", "+task.length=5", "scorer=mine", *sizes], "one")
    assert trained.task.length == 5
    assert len(trained.predict(["01101"])) == 1
    assert len(table("one/predictions.tsv")) > 1


def test_objects_of_a_plug_in_unpickle_in_another_process(monkeypatch):
    monkeypatch.setenv("ATTNX_PLUGINS", str(write_plug_in("long", TOKENIZER, folder="parts").parent))
    tokenizer = registry.build("tokenizer", ("long", {"length": 7}))
    # Like a spawned loader process, on macOS and Windows: it inherits nothing but the environment.
    load = "import pickle, sys; print(pickle.load(sys.stdin.buffer).length)"
    done = subprocess.run([sys.executable, "-c", load], input=pickle.dumps(tokenizer), capture_output=True, check=True)
    assert done.stdout.split() == [b"7"]


@pytest.fixture
def installed_package(work_folder, monkeypatch):
    """A package that offers parts by an entry point, as pip would leave it."""
    site = work_folder / "site"
    files = {
        "far_parts/__init__.py": "",
        "far_parts/scorers.py": SCORER.format(name="far"),
        "far_parts-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: far-parts\nVersion: 1.0\n",
        "far_parts-1.0.dist-info/entry_points.txt": "[attnx.plugins]\nfar = far_parts.scorers\n",
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    source_scan.entry_points.cache_clear()
    yield site
    source_scan.entry_points.cache_clear()


def test_an_installed_package_offers_parts_by_an_entry_point(installed_package, run, command, monkeypatch):
    assert "far_parts" not in sys.modules
    assert "package far_parts" in command("list", "scorer=far").out
    assert "far_parts" not in sys.modules  # reading what a package offers runs none of it
    trained = run("+scorer=far", folder="one")
    assert type(trained.model.attention.scorer).__module__ == "far_parts.scorers"
    sys.modules.pop("far_parts")


def test_a_run_copies_the_used_files_of_a_package(installed_package, run, capsys):
    """Its file, and the package's __init__; after an edit the message says how to use the copies."""
    run("+scorer=far", folder="one")
    files = [str(path.relative_to("one/plugins")) for path in sorted(Path("one/plugins").rglob("*.py"))]
    assert files == ["far_parts/__init__.py", "far_parts/scorers.py"]
    for module in ("far_parts", "far_parts.scorers"):
        sys.modules.pop(module)
    registry._registered.pop(("scorer", "far"))
    (installed_package / "far_parts" / "scorers.py").write_text(SCORER.format(name="far").replace("-self", "self"))
    capsys.readouterr()
    open_run("one")
    assert capsys.readouterr().err == (
        "attnx: one: the code of far_parts/scorers.py has changed since this run was trained; "
        "to use the run's copy, set PYTHONPATH=one/plugins\n"
    )
    sys.modules.pop("far_parts")


def test_a_broken_entry_point_is_reported_and_others_work(installed_package, command):
    points = installed_package / "far_parts-1.0.dist-info" / "entry_points.txt"
    points.write_text("[attnx.plugins]\nlost = far_parts.nothing\nfar = far_parts.scorers\n", encoding="utf-8")
    source_scan.scan_files.cache_clear()
    source_scan.entry_points.cache_clear()
    answer = command("list", "scorer")
    assert answer.code == 0
    assert "far_parts.nothing" in answer.err
    assert "far" in answer.out.split()


def test_a_broken_plug_in_is_reported_and_others_work(command):
    """In one line that names file and line."""
    text = SCORER.format(name="mine").replace("class Mine(Dot):", "class Mine(Dot)")
    path = write_plug_in("broken", text)
    write_plug_in("fine", NORMALIZER)
    answer = command("list", "normalizer")
    assert answer.code == 0
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("attnx: plug-in left out: ")
    assert f"{path}:12: expected ':'" in answer.err
    assert "squares" in answer.out.split()
    assert type(build(scorer="dot", query_size=3, memory_size=3).scorer).__module__ == "attnx.attention.scorers.dot"


def test_a_plug_in_written_later_is_found():
    for name in ("first", "second"):
        write_plug_in(name, SCORER.format(name=name))
        assert compose([f"scorer={name}"])["scorer"]["steep"] == 2.0
    write_plug_in("second", SCORER.format(name="second").replace("PositiveFloat = 2.0", "PositiveFloat = 4.0")).touch()
    assert compose(["scorer=second"])["scorer"]["steep"] == 4.0


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "plugins"


@pytest.mark.parametrize(
    "part", ["encoder=averaging", "decoder=leaky", "output=two_layers", "task=counting", "mixer=moving_average"]
)
def test_an_example_obeys_the_laws(part, succeed, monkeypatch):
    monkeypatch.setenv("ATTNX_PLUGINS", str(EXAMPLES))
    succeed("check", part)


def test_the_example_of_a_callback_clips_the_norms(run, monkeypatch):
    monkeypatch.setenv("ATTNX_PLUGINS", str(EXAMPLES))
    overrides = ["callback=[max_norm]", "callback.max_norm.max_norm=0.25"]
    model = run(*overrides, "trainer.max_steps=2", folder="limited").model
    norms = [weight.norm(dim=1).max() for weight in model.parameters() if weight.dim() == 2]
    assert max(norms) <= 0.25 * (1 + 1e-5)
    assert compose(overrides)["callback"] == {"max_norm": {"max_norm": 0.25}}
    assert compose(["callback=[]"])["callback"] == {}
