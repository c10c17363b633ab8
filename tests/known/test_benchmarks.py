"""Benchmarks, as far as a CPU can prove them: models by hand, rows of a GPU, ratios of speeds, and verdicts."""

import doctest
import importlib
import importlib.util
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from attnx.data.batches import Batch
from attnx.tasks.loss import token_loss

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CHOICES: dict[str, dict[str, Any]] = {
    "run then attend": {},
    "attend then run": {"query": ["token"], "model": {"feed": "now"}},
    "step by step": {"query": ["previous_state"], "model": {"feed": "now"}},
}


@pytest.fixture
def benchmark(monkeypatch):
    """Import a module of the folder of benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("lengths", [[5, 2, 4], [5, 5, 5]], ids=["ragged", "equal"])
@pytest.mark.parametrize("schedule", CHOICES)
def test_the_model_by_hand_is_that_of_attnx(schedule, lengths, benchmark, build_model):
    """With the same weights the loss and its gradients are the same."""
    by_hand: Any = benchmark("peers.by_hand")
    model = build_model(**{"scorer": ("additive", {"hidden_size": by_hand.HIDDEN}), **CHOICES[schedule]})
    sizes = {"embedding": 7, "encoder": 11, "decoder": 13}
    copied = by_hand.HandWrittenModel(schedule, (23, 17), sizes)
    copied.load_state_dict(by_hand.weights_of_attnx(copied, model.state_dict()))
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
    expected_gradients = by_hand.weights_of_attnx(copied, gradients)
    for name, weight in copied.named_parameters():
        torch.testing.assert_close(weight.grad, expected_gradients[name], rtol=1e-4, atol=1e-6)


def test_batches_by_hand_have_rows_of_similar_length(benchmark):
    by_hand: Any = benchmark("peers.by_hand")
    pairs = [("ab" * (row % 7 + 1), ["A", "B"] * (row % 7 + 1)) for row in range(70)]
    batches, symbols = by_hand.make_batches(pairs, 10)
    assert symbols == (6, 6)
    assert sorted(batch.source.shape[1] for batch in batches) == [2 * length for length in range(1, 8)]
    assert all((batch.source != 0).sum(1).equal(batch.lengths) for batch in batches)
    assert all((batch.target[:, -1] == by_hand.EOS).all() for batch in batches)


@pytest.mark.parametrize("size", [1, 17])
def test_searches_by_hand_find_the_best_outputs(size, benchmark):
    """A beam as wide as there are symbols finds the best of all outputs of two steps; one of 1 the likeliest start."""
    by_hand, decoding = benchmark("peers.by_hand"), benchmark("peers.decoding_by_hand")
    torch.manual_seed(0)
    model = by_hand.HandWrittenModel("run then attend", (23, 17), {"embedding": 7, "encoder": 11, "decoder": 13})
    model.output.weight.data *= 9
    model.output.bias.data[:2] = -1e4  # padding and the start are no outputs
    source, lengths = torch.randint(4, 23, (2, 3)), torch.full((2,), 3)
    results = decoding.search(model, source, lengths, size, 2)
    symbols = range(3, 17)
    starts = {(): [()], **{(first,): [(first,), *((first, second) for second in symbols)] for first in symbols}}
    for row, output in zip(source, results, strict=True):
        scores = {
            start: torch.stack([_log_prob(model, by_hand, row, output) for output in outputs])
            for start, outputs in starts.items()
        }
        if size == 1:
            assert tuple(output[:1]) == max(scores, key=lambda start: scores[start].logsumexp(0))
        else:
            start = max(scores, key=lambda start: scores[start].max())
            assert tuple(output) == starts[start][scores[start].argmax()]


def _log_prob(model: Any, by_hand: Any, source: torch.Tensor, output: tuple[int, ...]) -> torch.Tensor:
    """Of an output and, if it is shorter than two symbols, its end."""
    target = torch.tensor([[*output, 2][:2]])
    loss = model(by_hand.Batch(source[None], torch.tensor([3]), target))
    return -loss.detach() * target.shape[1]


def test_the_transformer_by_hand_is_that_of_attnx(benchmark):
    """With the same weights the logits are the same."""
    by_hand, section = benchmark("peers.transformer_by_hand"), benchmark("gpu_sections.transformer")
    sizes = section.Sizes(symbols=23, size=14, layers=3, heads=7, tokens=0)
    torch.manual_seed(0)
    (model, forward), (copied, forward_copied) = section.by_attnx(sizes, 11), section.by_hand(sizes, 11)
    copied.load_state_dict(by_hand.weights_of_attnx(copied, model.state_dict()))
    tokens = torch.randint(4, 23, (5, 11))
    torch.testing.assert_close(forward_copied(tokens), forward(tokens), rtol=1e-4, atol=1e-5)
    assert sum(weight.numel() for weight in copied.parameters()) == sum(map(torch.numel, model.parameters()))


def test_the_decoder_by_hand_is_that_of_attnx(benchmark):
    """With the same weights the logits are the same; and decoded by copied memories the same is written."""
    by_hand, speed = benchmark("peers.transformer_by_hand"), benchmark("decoder_speed")
    torch.manual_seed(0)
    model, tokens = speed.build_attnx(2, 11), torch.randint(4, speed.SYMBOLS, (5, 11))
    copied = by_hand.HandWrittenTransformer(speed.SYMBOLS, speed.WIDTH, 2, speed.HEADS, 11, has_learned_positions=True)
    copied.load_state_dict(by_hand.weights_of_attnx(copied, model.state_dict()))
    nothing = tokens[:, :0]
    logits = model(nothing, nothing > 0, tokens).logits
    torch.testing.assert_close(copied(tokens), logits, rtol=1e-4, atol=1e-4)
    with torch.no_grad(), speed.copied_memories():
        state = model.init_state(nothing, nothing > 0)
        for step in range(11):
            predictions, state, _ = model.decode_step(tokens[:, step], state)
    assert state.self_memories[0].cache is None
    torch.testing.assert_close(predictions, logits[:, -1].log_softmax(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_ends_in_one_line(benchmark, capsys):
    assert benchmark("gpu").main([]) == 2
    printed = capsys.readouterr()
    assert printed.err == "no GPU is available; --check proves the program on a CPU\n"
    assert not printed.out


def test_a_check_measures_and_writes_rows(benchmark, tmp_path, capfd):
    """In a process of the section; and a file that is there already is not written over."""
    gpu, results = benchmark("gpu"), benchmark("gpu_sections.results")
    file = tmp_path / "a" / "gpu.json"
    words = ["transformer", "--check", "--only", "attnx, causal", "--commit", "abc", "--out", str(file)]
    assert gpu.main(words) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("transformer: attnx, causal, length 13: tokens/s ")
    read = results.read_results(file)
    assert read.is_check
    assert read.machine["commit"] == "abc"
    assert [row.name for row in read.rows] == ["attnx, causal, length 13"]
    assert gpu.main(words) == 2
    assert "is there already" in capfd.readouterr().err
    assert gpu.main(["--ledger", str(file)]) == 2
    assert "toy sizes" in capfd.readouterr().err


def test_the_file_is_complete_after_every_case(benchmark, tmp_path, monkeypatch):
    """A case that fails, one that cannot run and one that comes too late are rows; the others are still measured."""
    gpu, cases, results = map(benchmark, ("gpu", "gpu_sections.cases", "gpu_sections.results"))
    file, counts = tmp_path / "gpu.json", []

    def see() -> dict[str, float]:
        counts.append(len(results.read_results(file).rows))
        return {"ms": 1.5}

    def fail() -> Any:
        raise torch.OutOfMemoryError("too much\nof it")

    def decline() -> Any:
        raise cases.NotRunError("no GPU")

    listed = [
        cases.Case("a", see, 1.0),
        cases.Case("b", fail, 1.0),
        cases.Case("c", decline, 1.0),
        cases.Case("d", see, 999.0),
        cases.Case("e", see, 1.0),
    ]
    monkeypatch.setattr(gpu, "find_section", lambda name: SimpleNamespace(cases=lambda setting: iter(listed)))
    results.Results({"card": "CPU", "torch": "1", "commit": "abc", "date": "2026-01-02"}, True, []).write(file)
    setting = cases.Setting(torch.device("cpu"), True, tmp_path)
    gpu.measure("idle", setting, 99.0, gpu.read_options(["--out", str(file)]))
    assert counts == [0, 4]
    rows = [row[:4] for row in results.read_results(file).rows]
    assert rows[:3] == [
        ("idle", "a", {"ms": 1.5}, ""),
        ("idle", "b", {}, "failed: OutOfMemoryError: too much"),
        ("idle", "c", {}, "not run: no GPU"),
    ]
    assert rows[3][3].startswith("too late: it needs 999 s")
    assert rows[4] == ("idle", "e", {"ms": 1.5}, "")


def test_a_section_that_takes_too_long_is_a_row(benchmark, tmp_path):
    """Its process and what that has started end, and the rows so far stay."""
    gpu, cases, results = map(benchmark, ("gpu", "gpu_sections.cases", "gpu_sections.results"))
    file, row = tmp_path / "gpu.json", cases.Row("main_run", "a", {"ms": 1.5})
    results.Results({"card": "CPU", "torch": "1", "commit": "abc", "date": "2026-01-02"}, True, [row]).write(file)
    gpu.run_section("main_run", tmp_path, gpu.read_options(["--check", "--out", str(file)]), 0.2)
    first, second = results.read_results(file).rows
    assert first == row
    assert second[:4] == ("main_run", "main_run", {}, "failed: stopped after its 0 s")


def test_a_complete_measurement_fits_into_its_time(benchmark):
    """Each section into four minutes and each command into ten, the first two of them with the start into fifteen."""
    gpu = benchmark("gpu")
    assert sum(gpu.CALLS, ()) == gpu.SECTIONS
    assert max(map(gpu.plan_seconds, gpu.SECTIONS)) <= 240
    assert all(sum(map(gpu.plan_seconds, sections)) <= 500 for sections in gpu.CALLS)
    assert sum(map(gpu.plan_seconds, gpu.CALLS[0] + gpu.CALLS[1])) <= 780
    assert max(map(len, gpu.plan().splitlines())) < 2000


def test_the_ledger_compares_figures_of_one_file(benchmark):
    """The latest file that has all rows of a line; the bound itself passes, and what no file has is not run."""
    cases, ledger, results = map(benchmark, ("gpu_sections.cases", "gpu_sections.ledger", "gpu_sections.results"))

    def measure(date: str, card: str, **speeds: float) -> Any:
        rows = [
            cases.Row("decoding", f"{name.replace('_', ' ')}, greedy", {"words/s": x}) for name, x in speeds.items()
        ]
        return results.Results({"card": card, "torch": "2.11", "commit": "abc", "date": date}, False, rows)

    both, slower = (
        measure("2026-01-02", "X", attnx=300.0, by_hand=100.0),
        measure("2026-01-01", "Y", attnx=1.0, by_hand=1.0),
    )
    half = measure("2026-01-03", "Z", attnx=900.0)
    name = "decoding, greedy: times the loop by hand"

    def find(*measured: Any) -> Any:
        return next(entry for entry in ledger.entries(measured) if entry.line.name == name)

    assert (find(both, slower, half).figure, find(both, slower, half).verdict) == (3.0, "PASS")
    assert find(both, slower, half).machine["card"] == "X"
    assert (find(slower, half).figure, find(slower, half).verdict) == (1.0, "MISS")
    assert (find(half).figure, find(half).verdict) == (None, "not run")


def test_the_main_command_is_compared_with_a_cpu_of_any_file(benchmark):
    cases, ledger, results = map(benchmark, ("gpu_sections.cases", "gpu_sections.ledger", "gpu_sections.results"))
    machine = {"card": "NVIDIA H200", "torch": "2.11", "commit": "abc", "date": "2026-01-02"}
    files = [
        results.Results(
            {**machine, **card}, False, [cases.Row(section, "attnx +scorer=additive +scope=local", {"PER %": per})]
        )
        for section, card, per in (("main_run", {}, 8.5), ("main_cpu", {"card": "CPU", "date": "2026-01-03"}, 8.75))
    ]
    (entry,) = [entry for entry in ledger.entries(files) if entry.line.name.startswith("main command")]
    assert (entry.figure, entry.verdict, entry.machine["card"]) == (0.25, "PASS", "NVIDIA H200")


def test_predictions_are_of_the_card(benchmark):
    """Two reciprocals a pair and unit of 132 multiprocessors; bytes of eleven passes over the bandwidth."""
    ledger, cards = benchmark("gpu_sections.ledger"), benchmark("gpu_sections.cards")
    attnx, broadcast, speed, _ = ledger.operator_lines((16, 400, 400, 256))
    for name, milliseconds in (("H100", 8.605), ("H200", 6.007)):
        card = cards.find_card(f"NVIDIA {name}")
        assert attnx.prediction(card) == pytest.approx(0.3134, rel=1e-3)
        assert broadcast.prediction(card) == pytest.approx(milliseconds, rel=1e-3)
        assert speed.prediction(card) == pytest.approx(milliseconds / 0.3134, rel=1e-3)


def test_flop_of_a_transformer(benchmark):
    """A layer of width 3 has 108 weights, the output 5 x 3; a query and key cost 12 x 3 with their gradients."""
    section = benchmark("gpu_sections.transformer")
    sizes = section.Sizes(symbols=5, size=3, layers=2, heads=1, tokens=0)
    assert section.flop_of_a_token(sizes, 7) == 6 * (2 * 108 + 15) + 2 * 7 * 36


def test_the_ledger_on_the_page_is_that_of_the_kept_files(benchmark):
    gpu, tables = benchmark("gpu"), benchmark("gpu_sections.tables")
    page = gpu.PAGE.read_text(encoding="utf-8")
    assert tables.START + gpu.kept_ledger(gpu.RESULTS) + tables.END in page
    assert all(not benchmark("gpu_sections.results").read_results(file).is_check for file in gpu.RESULTS.glob("*.json"))


def test_a_kept_file_fills_the_ledger(benchmark, tmp_path, monkeypatch):
    gpu, cases, results, tables = map(
        benchmark, ("gpu", "gpu_sections.cases", "gpu_sections.results", "gpu_sections.tables")
    )
    page, file = tmp_path / "page.md", tmp_path / "gpu.json"
    page.write_text(f"before\n{tables.START}old\n{tables.END}after\n", encoding="utf-8")
    monkeypatch.setattr(gpu, "PAGE", page)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "kept")
    rows = [cases.Row("idle", "attnx, trainer.compile=graphs, step by step, float32", {"idle %": 12.5})]
    machine = {"card": "NVIDIA H100 80GB HBM3", "torch": "2.11.0", "commit": "abc", "date": "2026-01-02T03:04:05+00:00"}
    results.Results(machine, False, rows).write(file)
    assert gpu.main(["--ledger", str(file)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{tables.START}| | aim |")
    assert text.endswith(f"{tables.END}after\n")
    line = "| attnx, trainer.compile=graphs, step by step, float32: idle % | at most 10 | | 12.5 | MISS "
    assert f"{line}| NVIDIA H100 80GB HBM3 | 2.11.0 | abc |\n" in text
    assert (tmp_path / "kept" / "20260102T030405.json").read_bytes() == file.read_bytes()
    file.write_text("{}", encoding="utf-8")
    assert gpu.main(["--ledger", str(file)]) == 2
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["busy_time", "cards", "tables"])
def test_examples_in_docstrings(name, benchmark):
    result = doctest.testmod(benchmark(f"gpu_sections.{name}"))
    assert result.attempted
    assert not result.failed


def test_attnx_is_compared_with_the_same_schedule_by_hand(benchmark):
    speeds = [
        {"attnx, step by step": 6.0, "by hand, step by step": 4.0, "by hand, run then attend": 1.0},
        {"attnx, step by step": 6.0},
    ]
    expected = [{"attnx, step by step / by hand, step by step": 1.5}, {}]
    assert benchmark("training_speed").ratios(speeds) == expected


def test_rows_by_hand_are_those_of_the_rows_of_attnx(benchmark, tmp_path):
    contenders = benchmark("training_speed").contenders
    rows = "attend then run"
    ready, problems = contenders(tmp_path, ["attnx", "by_hand"], rows, Console())
    assert list(ready) == [f"attnx, {rows}", f"attnx, {rows}, unsorted", f"by hand, {rows}"]
    assert not problems


def test_two_processes_and_two_jobs_are_compared_with_one_process(benchmark):
    scaling = benchmark("scaling_ddp")
    alone, ddp, jobs = scaling.WAYS
    speeds = [{f"run then attend: {way}": speed for way, speed in ((alone, 10.0), (ddp, 9.0), (jobs, 15.0))}]
    compared = scaling.ratios([*speeds, {}], ["run then attend", "step by step"])
    expected = {f"run then attend: {way} / {alone}": ratio for way, ratio in ((ddp, 0.9), (jobs, 1.5))}
    assert compared == [expected, {}]


def test_a_step_learns_from_as_many_words_in_one_process_as_in_two(benchmark):
    scaling = benchmark("scaling_ddp")
    alone, ddp, _ = scaling.WAYS.values()
    assert "trainer.devices=2" in ddp.words
    assert alone.rows == 2 * ddp.rows
    assert alone.threads == 2 * ddp.threads


@pytest.mark.parametrize(
    ("spread", "most"),
    [("equal", 0.06), ("half", 0.1), ("quarter", 0.1), ("wide", 0.1), ("narrow", 0.06), ("bad", 0.06)],
)
def test_equal_settings_seldom_differ(benchmark, spread, most):
    """The aims of docs/reports.md, with two standard errors of the simulation."""
    simulation, grids = benchmark("verdict_simulation"), 150
    shares = simulation.simulate(simulation.Cell(6, 3, spread=spread), grids)
    assert shares.false_difference <= most + 2 * math.sqrt(most * (1 - most) / grids)
    assert shares.false_winner <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / grids)


@pytest.mark.parametrize(("seeds", "least"), [(3, 0.45), (5, 0.8)])
def test_a_setting_that_leads_by_three_deviations_is_named(benchmark, seeds, least):
    simulation, grids = benchmark("verdict_simulation"), 150
    shares = simulation.simulate(simulation.Cell(6, seeds, lead=3.0), grids)
    assert shares.winner >= least - 2 * math.sqrt(least * (1 - least) / grids)
    assert shares.false_winner <= 0.02
