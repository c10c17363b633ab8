"""What whole-run tests share: a tiny language of invented words, small sizes, the command, and a clean registry."""

from __future__ import annotations

import importlib
import io
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from rich.console import Console

from attnx import registry
from attnx.cli import main
from attnx.config.compose import compose
from attnx.inference.load import TrainedRun
from attnx.registry import source_scan

# Each letter has one sound, so a pronunciation is a rule of its letters.
SOUNDS = {"a": "AA", "b": "B", "d": "D", "e": "EH", "k": "K", "s": "S"}
SMALL = [
    "task.train=words.tsv",
    "task.holdout=0.15",
    "model.embedding_dim=5",
    "encoder.hidden_size=7",
    "decoder.hidden_size=11",
    "trainer.batch_size=8",
    "trainer.max_steps=5",
    "trainer.num_validations=2",
]

# Lets no run of a process draw: for runs this small it takes longer than all the rest.
UNDRAWN = """\
import importlib.abc, importlib.util, sys

class Undrawn(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "attnx.reports.run.build_all":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.draw_alignments = module.draw_curves = module.draw_numeric_predictions = lambda folder: []

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Undrawn())
"""


def invented(count: int = 60) -> list[str]:
    """Words of two to five letters, all different: each the one before times 37, modulo a prime, to the base of 6."""
    letters, number, words = list(SOUNDS), 1, []
    while len(words) < count:
        number = number * 37 % 7919
        digits, remaining = "", number
        while remaining:
            remaining, digit = divmod(remaining, len(letters))
            digits += letters[digit]
        if 2 <= len(digits) <= 5 and digits not in words:
            words.append(digits)
    return words


class Answer(NamedTuple):
    """What the command said."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test runs in a folder of its own, and the parts it adds are gone after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTNX_PLUGINS", raising=False)
    known_values = set(registry._registered)
    yield tmp_path
    for part, item in list(registry._registered.items()):
        if part not in known_values and (
            not item.__module__.startswith("attnx.") or "attnx.plugins." in item.__module__
        ):
            del registry._registered[part]
            sys.modules.pop(item.__module__, None)
    source_scan.by_hand.clear()
    source_scan._scan.cache_clear()


@pytest.fixture(scope="session")
def write_words() -> Callable[[Path], Path]:
    """Write sixty invented words to ``words.tsv`` in a folder."""

    def write(folder: Path) -> Path:
        lines = [f"{word}\t{' '.join(SOUNDS[letter] for letter in word)}\n" for word in invented()]
        path = folder / "words.tsv"
        path.write_text("".join(lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def words(work_folder: Path, write_words: Callable[[Path], Path]) -> Path:
    """The invented words, in the test's own folder."""
    return write_words(work_folder)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures: they take longer than such small runs."""
    drawn = importlib.import_module("attnx.reports.run.build_all")
    monkeypatch.setattr(drawn, "draw_alignments", lambda folder: [])
    for drawing in ("draw_curves", "draw_forecasts", "draw_points", "draw_slots", "draw_numeric_predictions"):
        monkeypatch.setattr(drawn, drawing, lambda folder: None)


@pytest.fixture(scope="session")
def undrawing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for PYTHONPATH with which no process draws."""
    folder = tmp_path_factory.mktemp("undrawn")
    (folder / "sitecustomize.py").write_text(UNDRAWN, encoding="utf-8")
    return str(folder)


@pytest.fixture
def forked_ranks(undrawing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that train together are forks of this one, in spite of pytest-xdist's threads; new ones import for
    seconds, and draw nothing."""
    monkeypatch.setattr(
        importlib.import_module("attnx.training.distributed.launcher"), "can_fork", lambda backend: True
    )
    monkeypatch.setenv("PYTHONPATH", undrawing)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Give the command line some words, in this process."""

    def give(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["attnx", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, out, err)

    return give


composed = cache(compose)  # of the many small runs most are of a few compositions


@pytest.fixture
def run(words: Path, undrawn: None) -> Callable[..., TrainedRun]:
    """Make a small run from Python: ``run("scorer=dot", folder="a")``; later words win over the small sizes."""
    from attnx.training.fit import fit

    def make(*overrides: str, folder: str) -> TrainedRun:
        given_keys = {override.partition("=")[0] for override in overrides}
        arguments = [*[size for size in SMALL if size.partition("=")[0] not in given_keys], *overrides]
        return fit({**composed(tuple(arguments)), "folder": folder}, arguments, console=Console(file=io.StringIO()))

    return make


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, write_words: Callable[[Path], Path]) -> Path:
    """A folder with the words, two runs over them that differ in their seeds, ``one`` and ``two``, and no pictures."""
    from attnx.training.fit import fit

    drawn, home = importlib.import_module("attnx.reports.run.build_all"), tmp_path_factory.mktemp("trained")
    write_words(home)
    overrides = [*(size for size in SMALL if "max_steps" not in size), "trainer.max_steps=150", "optimizer.lr=0.03"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for drawing in ("draw_alignments", "draw_curves", "draw_numeric_predictions"):
            patch.setattr(drawn, drawing, lambda folder: None)
        for seed, name in enumerate(("one", "two"), 1):
            fit(
                {**composed(tuple(overrides)), "seed": seed, "folder": name},
                overrides,
                console=Console(file=io.StringIO()),
            )
    return home


@pytest.fixture
def runs(trained: Path, work_folder: Path) -> Path:
    """A copy of those in the test's own folder."""
    shutil.copytree(trained, work_folder, dirs_exist_ok=True)
    return work_folder


@pytest.fixture(scope="session")
def small() -> list[str]:
    """The small sizes, for the command line."""
    return list(SMALL)


@pytest.fixture
def weights() -> Callable[..., dict[str, torch.Tensor]]:
    """The weights in a run's checkpoint."""

    def load(folder: str | Path, which: str = "last") -> dict[str, torch.Tensor]:
        state = torch.load(Path(folder) / "checkpoints" / f"{which}.ckpt", weights_only=True)["state_dict"]
        assert state
        return dict(state)

    return load


@pytest.fixture
def same_weights(weights: Callable[..., dict[str, torch.Tensor]]) -> Callable[..., bool]:
    """Whether several runs ended with the same weights, bit by bit."""

    def compare(folders: Sequence[str]) -> bool:
        first, *remaining = [weights(folder) for folder in folders]
        return all(
            first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
            for second in remaining
        )

    return compare
