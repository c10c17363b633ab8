"""Every combination is trained in a folder of its own; what fails is named, and nothing else suffers."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from attnx.callbacks.progress import ShowProgress

FALLING = '''\
"""A scorer that falls over."""

from torch import Tensor

from attnx.attention.scorers.dot import Dot
from attnx.registry import register


@register("scorer", "falling")
class Falling(Dot):
    """Fall over.

    Formula: none
    Source: none
    """

    equal_widths = True

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        raise RuntimeError("I have fallen over")
'''


@pytest.fixture
def sweep(command: Callable[..., Any], words: Path, small: list[str], undrawn: None) -> Callable[..., Any]:
    """Sweep over small runs of two steps."""

    def ask(*asked: str) -> Any:
        words = [*asked, "trainer.max_steps=2"]
        named = {word.partition("=")[0] for word in words}
        return command("-m", *words, *[size for size in small if size.partition("=")[0] not in named])

    return ask


def status(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text(encoding="utf-8"))["status"])


def parts(folder: Path) -> tuple[str, str]:
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    return config["scorer"]["name"], config["scope"]["name"]


def test_a_sweep_trains_every_combination(sweep: Callable[..., Any]) -> None:
    answer = sweep("+scorer=additive,dot", "+scope=global,local", "name=grid")
    assert (answer.code, answer.err) == (0, "")
    grid = Path("multirun/grid")
    jobs = [grid / str(number) for number in range(4)]
    assert [parts(job) for job in jobs] == [
        ("additive", "global"),
        ("additive", "local"),
        ("dot", "global"),
        ("dot", "local"),
    ]
    assert {status(job) for job in jobs} == {"finished"}
    assert all((job / "results.json").is_file() for job in jobs)
    # Hydra leaves the list of what was asked and nothing else.
    assert {path.name for path in grid.iterdir()} == {"0", "1", "2", "3", "multirun.yaml"}
    assert {path.name for path in Path().iterdir()} == {"multirun", "words.tsv"}


def test_a_sweep_without_a_name_has_one_folder_whatever_the_order_of_its_words(sweep: Callable[..., Any]) -> None:
    assert sweep("+scope=local", "scorer=dot").code == 0
    (saved,) = Path("multirun").rglob("last.ckpt")
    before = saved.stat().st_mtime_ns
    assert sweep("scorer=dot", "+scope=local").code == 0
    # What was finished is not trained again.
    assert list(Path("multirun").rglob("last.ckpt")) == [saved]
    assert saved.stat().st_mtime_ns == before


def test_a_failing_job_is_named_and_the_others_are_trained(sweep: Callable[..., Any], here: Path) -> None:
    (here / "plugins").mkdir()
    (here / "plugins" / "falling.py").write_text(FALLING, encoding="utf-8")
    answer = sweep("+scorer=falling,dot", "name=two")
    assert answer.code == 1
    assert [status(Path("multirun/two") / str(number)) for number in range(2)] == ["failed", "finished"]
    *_, heading, named = answer.err.splitlines()
    assert heading == "attnx: 1 job(s) failed:"
    assert "scorer=falling" in named
    assert "I have fallen over" in named


def test_a_job_that_is_told_no_is_named_too(sweep: Callable[..., Any], here: Path) -> None:
    answer = sweep("task.train=words.tsv,nowhere.tsv", "name=two")
    assert answer.code == 1
    assert answer.err.splitlines()[0] == "attnx: 1 job(s) failed:"
    assert "nowhere.tsv: no such file" in answer.err
    assert "Traceback" not in answer.err
    assert status(here / "multirun/two/0") == "finished"
    assert not (here / "multirun/two/1").exists()


def test_an_interrupted_sweep_stops_and_the_same_command_goes_on(
    sweep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    show = ShowProgress.on_train_batch_end
    trained = []

    def pressed(self: ShowProgress, trainer: Any, *others: Any) -> None:
        show(self, trainer, *others)
        trained.append(trainer.global_step)
        if len(trained) == 1:  # the first step of the first job
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ShowProgress, "on_train_batch_end", pressed)
    answer = sweep("scorer=dot,scaled", "name=two")
    assert answer.code == 130
    assert answer.err.count("\n") == 1
    assert "attnx resume multirun/two/0" in answer.err
    two = Path("multirun/two")
    assert status(two / "0") == "interrupted"
    assert not (two / "1").exists()
    assert sweep("scorer=dot,scaled", "name=two").code == 0
    assert (status(two / "0"), status(two / "1")) == ("finished", "finished")
    assert trained == [1, 2, 1, 2]
