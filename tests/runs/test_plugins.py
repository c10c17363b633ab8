"""A plug-in is one file: it trains, sweeps, loads in other processes, and breaks nothing else."""

from __future__ import annotations

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
from attnx.sweeps.session import SweepSession
from attnx.training.fit import fit

SCORER = '''\
"""The scorer ``{name}``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import PositiveFloat, Size, register


@register("scorer", "{name}")
class Mine(nn.Module):
    """The negative distance of the projected query from the memory, made steeper.

    Formula: ``score(q, m) = -steep |W q - m|_1``
    Source: invented for a test
    """

    requires_equal_dims = False

    def __init__(self, query_size: Size, memory_size: Size, steep: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.project = nn.Linear(query_size, memory_size, bias=False)
        self.steep = steep

    def project_keys(self, memory: Tensor) -> Tensor:
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        return self.project(queries)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return -self.steep * (queries[..., :, None, :] - keys[..., None, :, :]).abs().sum(-1)
'''
NORMALIZER = '''\
"""The normalizer ``squares``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import register


@register("normalizer", "squares")
class Squares(nn.Module):
    """Shares of the squared scores.

    Formula: ``w(m) = s(m)^2 / sum_k s(k)^2``
    Source: invented for a test
    """

    is_distribution = True

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        squares = scores.square().masked_fill(~allowed_mask, 0.0)
        return squares / squares.sum(-1, keepdim=True).clamp(min=1e-9)
'''
TASK = '''\
"""The task ``backwards``: say the letters from the last to the first."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.splits import split_by_hash
from attnx.registry import PositiveInt, register
from attnx.tasks.contract import SequenceData, SequenceTask


@register("task", "backwards")
class Backwards(SequenceTask):
    """Reverse all strings of a length over two letters.

    Formula: ``y_t = x_(S-1-t)``
    Source: invented for a test
    """

    monitor = "valid_wer"
    maximize = False
    label_smoothing = 0.0

    def __init__(self, length: PositiveInt = 6) -> None:
        self.length = length

    def load(self) -> SequenceData:
        words = [format(number, f"0{self.length}b") for number in range(2**self.length)]
        pairs = [Pair(tuple(word), (tuple(reversed(word)),)) for word in words]
        return SequenceData.of(split_by_hash(pairs, lambda pair: pair.source_text, valid=0.2, test=0.2))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        return {"wer": registry.build("metric", "word_error_rate")}

    def tokenize(self, text: str, tag: str = "") -> tuple[str, ...]:
        return tuple(text)

    def detokenize(self, symbols: Sequence[str]) -> str:
        return "".join(symbols)
'''
# It needs no torch, which a new process imports for seconds.
TOKENIZER = '''\
"""The tokenizer ``long``."""

from __future__ import annotations

from attnx.registry import PositiveInt, register


@register("tokenizer", "long")
class Long:
    """Pieces of a length.

    Formula: ``p_i = x_(i L : (i + 1) L)``
    Source: invented for a test
    """

    def __init__(self, length: PositiveInt = 6) -> None:
        self.length = length
'''
FORKS = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@pytest.fixture
def plug(work_folder):
    """Put a file into a plug-in folder; ``plugins/`` unless another is named."""

    def put(name: str, text: str, folder: str = "plugins") -> Path:
        path = work_folder / folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return put


def test_a_new_scorer_trains_and_is_reopened(plug, run):
    plug("mine", SCORER.format(name="mine"))
    trained = run("+scorer=mine", "scorer.steep=3", folder="one")
    assert trained.config["scorer"] == {"name": "mine", "steep": 3}
    assert trained.model.attention.scorer.steep == 3
    assert type(trained.model.attention.scorer).__module__ == "attnx.plugins.mine"
    weights = trained.predict(["dab"], need_weights=True)[0].weights
    assert weights.sum(-1) == pytest.approx(1, abs=1e-5)


def test_options_of_a_plug_in_are_checked(plug):
    plug("mine", SCORER.format(name="mine"))
    with pytest.raises(UserError, match="no option 'step'; did you mean steep"):
        compose(["scorer=mine", "+scorer.step=3"])
    with pytest.raises(UserError, match=r"scorer\.steep=-1: expected a number above 0"):
        compose(["scorer=mine", "scorer.steep=-1"])


def test_another_process_finds_a_plug_in_by_the_variable(plug, words, small, work_folder, fork_command):
    plug("mine", SCORER.format(name="mine"), folder="elsewhere/parts")
    folder = str(work_folder / "elsewhere" / "parts")
    process = fork_command("scorer=mine", *small, "trainer.test_examples=1", "folder=one", ATTNX_PLUGINS=folder)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert Path("one/alignments.png").is_file()
    with pytest.raises(UserError, match="unknown scorer 'mine'"):  # which this process does not know
        compose(["scorer=mine"])


def test_a_plug_in_is_swept_by_name(plug, command, words, small, shared_server):
    plug("mine", SCORER.format(name="mine"))
    answer = command("-m", "scorer=mine,dot", *small, "name=grid")
    assert (answer.code, answer.err) == (0, "")
    folders = [Path("multirun/grid") / str(number) for number in range(2)]
    assert [open_run(folder).config["scorer"]["name"] for folder in folders] == ["mine", "dot"]
    plug("mine", SCORER.format(name="mine").replace("-self", "self"))
    answer = command("-m", "scorer=mine,dot", *small, "name=grid")
    assert (answer.code, answer.out) == (2, "")
    assert "multirun/grid/0: the code of mine.py has changed since this run was trained" in answer.err
    assert "put that back, or add fresh=true to the sweep's command" in answer.err


def test_a_glob_includes_plug_ins(plug, command, monkeypatch, shared_server):
    recorded: list[str] = []
    monkeypatch.setattr(
        SweepSession,
        "run",
        lambda running, overrides: recorded.extend(task.config["scorer"]["name"] for _, task in overrides),
    )
    plug("mine", SCORER.format(name="mine"))
    command("-m", "+scorer=glob(mi*)")
    assert recorded == ["mine"]
    assert "mine" in {job[0].partition("=")[2] for job in expand_sweep(["scorer=glob(*)"]).jobs}


def test_a_plug_in_is_listed_and_suggested(plug, command):
    plug("mine", SCORER.format(name="mine"))
    out = command("list", "scorer=mine").out
    assert "score(q, m) = -steep |W q - m|_1" in out
    assert "plug-in mine.py" in out
    assert "mine" in command("--help", "all").out.split("scope")[0].split()


def test_a_plug_in_is_built_from_python(plug):
    plug("mine", SCORER.format(name="mine"))
    plug("squares", NORMALIZER)
    attention = build(scorer=("mine", {"steep": 1}), normalizer="squares", query_size=3, memory_size=2)
    torch.nn.init.zeros_(attention.scorer.project.weight)
    # The projected query is 0, so the scores are the negated sums 1 and 2; squared and shared: 1/5 and 4/5.
    read = attention(
        torch.ones(1, 1, 3), attention.make_memory(torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])), need_weights=True
    )
    assert read.weights[0, 0].tolist() == pytest.approx([0.2, 0.8])


def test_a_new_task_trains(plug, no_pictures):
    plug("backwards", TASK)
    plug("mine", SCORER.format(name="mine"))
    overrides = ["task=backwards", "+task.length=5", "scorer=mine"]
    sizes = [
        "model.embedding_dim=5",
        "encoder.hidden_size=7",
        "decoder.hidden_size=11",
        "trainer.batch_size=8",
        "trainer.max_steps=6",
    ]
    trained = fit(compose([*overrides, *sizes, "folder=one"]))
    assert trained.task.length == 5
    assert len(trained.predict(["01101"])) == 1
    assert len(Path("one/predictions.tsv").read_text(encoding="utf-8").splitlines()) > 2


def test_objects_of_a_plug_in_unpickle_in_another_process(plug, monkeypatch, work_folder):
    plug("long", TOKENIZER, folder="parts")
    monkeypatch.setenv("ATTNX_PLUGINS", str(work_folder / "parts"))
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


def test_a_broken_plug_in_is_reported_and_others_work(plug, command):
    """In one line that names file and line."""
    text = SCORER.format(name="mine").replace("class Mine(nn.Module):", "class Mine(nn.Module)")
    path = plug("broken", text)
    plug("fine", NORMALIZER)
    answer = command("list", "normalizer")
    assert answer.code == 0
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("attnx: plug-in left out: ")
    assert f"{path}:11: expected ':'" in answer.err
    assert "squares" in answer.out.split()
    assert type(build(scorer="dot", query_size=3, memory_size=3).scorer).__module__ == "attnx.attention.scorers.dot"


def test_a_plug_in_written_later_is_found(plug):
    plug("first", SCORER.format(name="first"))
    assert compose(["scorer=first"])["scorer"]["steep"] == 2.0
    plug("second", SCORER.format(name="second"))
    assert compose(["scorer=second"])["scorer"]["steep"] == 2.0
    plug("second", SCORER.format(name="second").replace("PositiveFloat = 2.0", "PositiveFloat = 4.0")).touch()
    assert compose(["scorer=second"])["scorer"]["steep"] == 4.0
