"""benchmarks/gpu.py, as far as a CPU can prove it, and the model by hand that it compares attnx with."""

from __future__ import annotations

import doctest
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from attnx.data.batches import Batch
from attnx.tasks.contract import token_loss

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
Import = Callable[[str], ModuleType]
PARTS = {
    "source": "source_encoder.embedding",
    "encoder": "source_encoder.encoder.recurrent.layers.0",
    "start_h": "bridge.maps.0.0",
    "start_c": "bridge.maps.0.1",
    "target": "embedding",
    "query": "attention.scorer.query",
    "key": "attention.scorer.memory",
    "v": "attention.scorer.v",
    "decoder": "decoder.layers.0",
    "readout": "readout.join.0",
    "output": "output",
}
CHOICES: dict[str, dict[str, Any]] = {
    "run then attend": {},
    "attend then run": {"query": ["token"], "model": {"feed": "now"}},
    "step by step": {"query": ["previous_state"], "model": {"feed": "now"}},
}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Import:
    """Import a module of the folder of benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("lengths", [[5, 2, 4], [5, 5, 5]], ids=["ragged", "equal"])
@pytest.mark.parametrize("schedule", CHOICES)
def test_the_model_by_hand_is_that_of_attnx(
    schedule: str, lengths: list[int], benchmark: Import, build_model: Any
) -> None:
    """With the same weights the loss and its gradients are the same."""
    by_hand: Any = benchmark("peers.by_hand")
    model = build_model(**{"scorer": ("additive", {"hidden_size": by_hand.HIDDEN}), **CHOICES[schedule]})
    sizes = {"embedding": 7, "encoder": 11, "decoder": 13}
    copied = by_hand.HandWrittenModel(schedule, (23, 17), sizes)
    weights = {
        name: PARTS[name.partition(".")[0]] + name.removeprefix(name.partition(".")[0])
        for name, _ in copied.named_parameters()
    }
    copied.load_state_dict({name: model.state_dict()[source] for name, source in weights.items()})
    assert model.plan.schedule == schedule.replace(" ", "_")
    torch.manual_seed(0)
    source_lengths = torch.tensor(lengths)
    source, target = torch.randint(4, 23, (3, 5)), torch.randint(4, 17, (3, 6))
    source[torch.arange(5) >= source_lengths[:, None]] = target[1, 3:] = 0
    batch = Batch(source, source != 0, target, target != 0, torch.arange(3), torch.zeros(3, dtype=torch.int64))
    expected = token_loss(model, batch).mean
    loss = copied(by_hand.Batch(source, source_lengths, target))
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0.0)
    loss.backward()
    expected.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    for name, weight in copied.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[weights[name]], rtol=1e-4, atol=1e-6)


def test_batches_by_hand_have_rows_of_similar_length(benchmark: Import) -> None:
    by_hand: Any = benchmark("peers.by_hand")
    pairs = [("ab" * (row % 7 + 1), ["A", "B"] * (row % 7 + 1)) for row in range(70)]
    batches, symbols = by_hand.make_batches(pairs, 10)
    assert symbols == (6, 6)
    assert sorted(batch.source.shape[1] for batch in batches) == [2 * length for length in range(1, 8)]
    assert all((batch.source != 0).sum(1).equal(batch.lengths) for batch in batches)
    assert all((batch.target[:, -1] == by_hand.EOS).all() for batch in batches)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_ends_in_one_line(benchmark: Import, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark("gpu").main([]) == 2
    printed = capsys.readouterr()
    assert printed.err == "no GPU is available; --check proves the program on a CPU\n"
    assert not printed.out


def test_a_section_gives_rows_that_aims_judge(benchmark: Import, tmp_path: Path) -> None:
    """The losses and gradients of the three schedules, fast and plain."""
    gpu, cases, aims = map(benchmark, ("gpu", "gpu_sections.cases", "gpu_sections.aims"))
    gpu.measure("agreement", cases.Setting(torch.device("cpu"), True, tmp_path), 300.0)
    rows = cases.read_rows(gpu.rows_file(tmp_path, "agreement"))
    assert len(rows) == 3
    assert not any(row.note for row in rows)
    judged = {item.verdict for item in aims.verdicts({"agreement": rows}) if item.figure is not None}
    assert judged == {"met"}
    wrong = [rows[0], rows[1]._replace(figures=dict.fromkeys(rows[1].figures, 1e-3) | {"largest relative error": 1.0})]
    assert [item.verdict for item in aims.verdicts({"agreement": wrong})].count("missed") == 1


def test_a_case_that_fails_or_is_late_is_a_row(benchmark: Import, tmp_path: Path) -> None:
    cases: Any = benchmark("gpu_sections.cases")

    def fail() -> Any:
        raise torch.OutOfMemoryError("too much\nof it")

    def decline() -> Any:
        raise cases.NotRunError("no GPU")

    listed = [cases.Case("a", lambda: {"ms": 1.5}), cases.Case("b", fail), cases.Case("c", decline)]
    now = time.monotonic()
    cases.write_rows(listed, tmp_path / "rows", now + 60)
    assert cases.read_rows(tmp_path / "rows") == [
        ("a", {"ms": 1.5}, ""),
        ("b", {}, "failed: OutOfMemoryError: too much"),
        ("c", {}, "not run: no GPU"),
    ]
    assert cases.measure_case(listed[0], now - 1) == ("a", {}, "too late: the time of the section is over")
    assert cases.read_rows(tmp_path / "none") == []


def test_figures_are_judged_by_their_bounds(benchmark: Import) -> None:
    """At every bound, above it and below it; and what no row has is not run."""
    aims, cases = benchmark("gpu_sections.aims"), benchmark("gpu_sections.cases")
    fast, slow = (
        {
            "training": [
                cases.Row(f"{row}, run then attend, float32", {"words/s": speed})
                for row, speed in (("attnx", attnx), ("by hand", 100.0))
            ]
        }
        for attnx in (90.0, 89.0)
    )
    name = "attnx, run then attend: times the loop by hand"
    assert [next(item for item in aims.verdicts(rows) if item.aim == name).verdict for rows in (fast, slow, {})] == [
        "met",
        "missed",
        "not run",
    ]
    assert {item.verdict for item in aims.verdicts({})} == {"not run"}


@pytest.mark.parametrize(("note", "verdict"), [("failed: x", "not run"), ("not run: x", "met")])
def test_an_aim_for_all_cases_is_not_met_if_one_fails(note: str, verdict: str, benchmark: Import) -> None:
    """One that the device does not support changes nothing."""
    aims, cases = benchmark("gpu_sections.aims"), benchmark("gpu_sections.cases")
    right = dict.fromkeys(("largest relative error", "the definition's in this type"), 0.0)
    rows = {"kernels": [cases.Row("a, float32", right), cases.Row("b, float32", {}, note)]}
    assert aims.verdicts(rows)[0].verdict == verdict


@pytest.mark.parametrize("name", ["busy_time", "tables"])
def test_examples_in_docstrings(name: str, benchmark: Import) -> None:
    result = doctest.testmod(benchmark(f"gpu_sections.{name}"))
    assert result.attempted
    assert not result.failed


def test_tables_are_a_markdown_page(benchmark: Import) -> None:
    cases, tables = benchmark("gpu_sections.cases"), benchmark("gpu_sections.tables")
    rows = [cases.Row("a|b", {"ms": 1.25}), cases.Row("c", {}, "not run: no GPU")]
    page = tables.markdown("# a GPU", tables.all_tables({"operators": rows}, []))
    assert "| a/b | 1.25 |  |\n| c | - | not run: no GPU |\n" in page


def test_a_section_that_takes_too_long_is_a_row(benchmark: Import, tmp_path: Path) -> None:
    """Its process and what that has started end, and the rows so far stay."""
    gpu, cases = benchmark("gpu"), benchmark("gpu_sections.cases")
    cases.write_rows([cases.Case("a", lambda: {"ms": 1.5})], gpu.rows_file(tmp_path, "main_run"), time.monotonic() + 60)
    rows = gpu.run_section("main_run", tmp_path, True, 0.2)
    assert rows == [("a", {"ms": 1.5}, ""), ("main_run", {}, "failed: stopped after its 0 s")]
