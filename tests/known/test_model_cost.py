"""What is counted of a model: the operations of small models by hand, longer rows, failures."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

import attnx
from attnx import registry
from attnx.config.compose import compose
from attnx.data.examples import Pair
from attnx.data.splits import Splits
from attnx.inference import model_cost
from attnx.inference.model_cost import FlopCounter, ModelCost, count_cost, count_parameters
from attnx.laws.small import small_config
from attnx.models.resolve import resolve_model
from attnx.nn.recurrent import Recurrent
from attnx.runs.results import CONTEXTS
from attnx.tasks.contract import SequenceData

SOURCE, TARGET = tuple("abcdefg"), tuple("vwxy")  # a target has five steps, EOS included
STEPS, SYMBOLS = 5, 4 + 4  # four special symbols and those of a target


def data_of(source: tuple[str, ...] = SOURCE, target: tuple[str, ...] = TARGET) -> SequenceData:
    pair = Pair(source, (target,))
    return SequenceData.of(Splits([pair], [pair], [pair]))


def cost_of(data: SequenceData | None = None, **choices: Any) -> ModelCost:
    data, resolved = data or data_of(), resolve_model(small_config(**choices))
    return count_cost(resolved, data, data.train_dataset(), count_parameters(resolved, data))


def decoder_only(**options: Any) -> dict[str, Any]:
    sizes = {"layers": 1, "hidden_size": 24, "feedforward_size": 29, "dropout": 0.0}
    return {"name": "transformer", "form": "decoder_only", "prefix": "causal", **sizes, **options}


def test_the_row_nearest_to_the_mean_lengths_is_counted():
    """Of 7, 1 and 12 symbols, and of 5, 2 and 10 steps: the means are below 7 and 6."""
    pairs = [
        Pair(source, (target,))
        for source, target in ((SOURCE, TARGET), (("a",), ("v",)), ((*"abcdef",) * 2, (*"vwx",) * 3))
    ]
    cost = cost_of(SequenceData.of(Splits(pairs, pairs, pairs)))
    assert cost == cost_of()
    assert set(cost.train_parts) == {"encoder", "attention", "decoder", "output"}


def test_operations_of_additive_attention_by_hand():
    rows, queries, positions, hidden = 2, 3, 5, 7
    attention = attnx.attention.build(
        scorer=("additive", {"hidden_size": hidden}), query_size=13, memory_size=26
    ).requires_grad_(False)
    with FlopCounter() as counter:
        attention(torch.randn(rows, queries, 13), attention.make_memory(torch.randn(rows, positions, 26)))
    keys, projected = 2 * rows * positions * 26 * hidden, 2 * rows * queries * 13 * hidden
    scores, contexts = 2 * rows * queries * positions * hidden, 2 * rows * queries * positions * 26
    assert counter.by_part.total() == keys + projected + scores + contexts


def test_operations_of_an_lstm_by_hand():
    rows, steps, inputs, hidden = 2, 3, 5, 7
    recurrent = Recurrent("lstm", inputs, hidden)
    states = torch.randn(rows, steps, inputs, requires_grad=True)
    torch.backends.mkldnn.enabled = False
    try:
        with FlopCounter() as counter:
            recurrent.run([states]).outputs[-1].sum().backward()
    finally:
        torch.backends.mkldnn.enabled = True
    forward = 2 * rows * steps * 4 * hidden * (inputs + hidden)
    first_state = 2 * rows * 4 * hidden * hidden  # zeros, whose gradient nobody needs
    assert counter.by_part.total() == 3 * forward - first_state


def test_operations_of_a_transformer_layer_with_shared_keys_by_hand():
    size, units, heads, width = 24, 29, 4, 6
    attention = {"name": "standard", "heads": heads, "kv_heads": 2}
    cost = cost_of(model=decoder_only(position_encoding="none"), attention=attention, scorer="dot")
    positions = len(SOURCE) + STEPS  # the source is a prefix
    # The last layer's memory of the prefix needs keys and values alone.
    projections = 2 * size * (STEPS * 2 * size + positions * 2 * 2 * width)
    reads = 2 * 2 * STEPS * positions * heads * width
    assert cost.note == ""
    parts = {"attention": projections + reads, "feed-forward": 2 * STEPS * 2 * size * units}
    parts["output"] = 2 * STEPS * size * SYMBOLS
    assert cost.train_parts == {part: pytest.approx(3 * flops / STEPS) for part, flops in parts.items()}
    assert cost.train_flops == pytest.approx(sum(cost.train_parts.values()))


def test_operations_of_a_decoded_step_of_a_mixer_by_hand():
    size, units, heads, width = 24, 29, 4, 6
    cost = cost_of(model=decoder_only(mixer={"name": "linear", "heads": heads}))
    projections, state = 4 * 2 * size * size, 2 * 2 * heads * width * width
    itself, total = 2 * 2 * heads * width, 2 * heads * width
    step = projections + state + itself + total + 2 * 2 * size * units + 2 * size * SYMBOLS
    assert cost.decode_flops == dict.fromkeys(CONTEXTS, step)
    assert cost.state_bytes == dict.fromkeys(CONTEXTS, 4 * heads * width * (width + 1))
    assert {"mixer", "feed-forward", "output"} <= set(cost.train_parts)


def test_a_decoded_step_of_attention_reads_each_position_once():
    cost = cost_of(model=decoder_only(), scorer="dot", attention={"name": "standard", "heads": 1})
    short, long = cost.decode_flops[128], cost.decode_flops[8192]
    assert long - short == (8192 - 128) * 2 * 2 * 24
    assert cost.state_bytes[8192] - cost.state_bytes[128] == (8192 - 128) * 2 * 24 * 4  # a key and a value
    assert cost.results()["decode_flops_8192"] == long


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"model": {"name": "transformer"}, "scorer": "scaled"},
        {"model": decoder_only(mixer="delta")},
        {"normalizer": "mocha"},
        {"encoder": {"name": "pyramid"}},
        {"model": {"name": "classifier"}},
    ],
)
def test_operations_are_the_same_without_numbers(choices, monkeypatch):
    counted = cost_of(**choices)
    monkeypatch.setattr(model_cost, "MIN_META_FLOPS", 0)
    assert counted.train_flops
    assert counted == cost_of(**choices)


def test_what_looks_at_its_numbers_is_counted_with_them(monkeypatch):
    monkeypatch.setattr(model_cost, "MIN_META_FLOPS", 0)
    cost = cost_of(model={"name": "classifier"}, encoder={"name": "hierarchical"})
    assert cost.train_flops
    assert cost.note == ""
    assert cost.decode_flops == {}  # the output is one label


@pytest.mark.parametrize("lengths", [(20, 5), (5, 20), (18, 23)], ids=str)
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"encoder": {"name": "pyramid", "layers": 2}},
        {"model": {"name": "transformer", "layers": 1}, "scorer": "scaled"},
        {"model": decoder_only(mixer={"name": "delta", "chunk": 4})},
    ],
)
def test_long_rows_are_counted_from_shorter_ones(choices, lengths, monkeypatch):
    """A polynomial in both lengths; only a side that is long is shortened, by whole strides."""
    source, target = lengths
    data = data_of(tuple("abcd" * 11)[:source], tuple("vwxy" * 11)[: target - 1])
    expected = cost_of(data, **choices)
    counted = count_short_rows(monkeypatch)
    assert cost_of(data, **choices).train_parts == pytest.approx(expected.train_parts)
    batches = [call.args[1] for call in counted.call_args_list]
    assert max(max(batch.source.shape[1], batch.target.shape[1]) for batch in batches) <= 16
    assert len(batches) == (6 if min(lengths) > 16 else 3)


def count_short_rows(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A row of over 16 steps is a long one, and is shortened by fours; -> the loss of each row that is counted."""
    counted = Mock(wraps=model_cost.token_loss)
    for name, value in {"STRIDE": 4, "MAX_COUNTED_LENGTH": 16, "token_loss": counted}.items():
        monkeypatch.setattr(model_cost, name, value)
    return counted


def test_long_rows_of_labels_are_counted_from_shorter_ones_with_fewer_labels(monkeypatch):
    """The labels that count are at the end of the sequence, so that a beginning has none."""
    task = {"length": 48, "pairs": 3, "vocabulary": 50, "examples": 7, "num_held_out": 3, "test": ["48"]}
    data, choices = registry.build("task", ("probe", task)).load(), {"model": decoder_only(), "scope": "history"}
    expected = cost_of(data, **choices, task=("probe", task))
    count_short_rows(monkeypatch)
    assert cost_of(data, **choices, task=("probe", task)).train_parts == pytest.approx(expected.train_parts)


def forecasting_config(folder: Path, model: str, lookback: int, horizon: int) -> Any:
    """A model that forecasts the first of two columns, where the second one is known."""
    table = folder / "table.csv"
    table.write_text("a,b\n" + "".join(f"{row * 37 % 11},{row % 7}\n" for row in range(500)), encoding="utf-8")
    columns = [f"task.file={table}", "task.known_columns=[b]", "task.subtract_last_value=true"]
    sizes = [f"task.lookback={lookback}", f"task.horizon={horizon}", "model.embedding_dim=5", "decoder.hidden_size=7"]
    return compose(["task=forecasting", f"model={model}", *columns, *sizes])


@pytest.mark.parametrize("model", ["history", "seq2seq"])
def test_a_long_source_keeps_the_rows_of_the_steps_to_forecast(model, tmp_path, monkeypatch):
    """Of 43 rows 22 are those of forecast steps, of which one column is known."""
    config = forecasting_config(tmp_path, model, lookback=21, horizon=22)
    data, resolved = registry.build("task", config["task"]).load(), resolve_model(config)
    costs = [count_cost(resolved, data, data.train_dataset(), 1)]
    count_short_rows(monkeypatch)
    costs.append(count_cost(resolved, data, data.train_dataset(), 1))
    assert [cost.note for cost in costs] == ["", ""]
    assert costs[1].train_parts == pytest.approx(costs[0].train_parts)


@pytest.mark.parametrize("model", ["history", "seq2seq"])
def test_a_context_is_what_attention_reads_whatever_the_horizon(model, tmp_path):
    costs = []
    for horizon in (3, 42):
        config = forecasting_config(tmp_path, model, 11, horizon)
        data = registry.build("task", config["task"]).load()
        costs.append(count_cost(resolve_model(config), data, data.train_dataset(), 1))
    assert costs[0].decode_flops == costs[1].decode_flops
    assert list(costs[0].decode_flops) == list(CONTEXTS)


def test_counting_draws_no_random_number_and_keeps_the_fast_paths():
    before, fast_paths = torch.random.get_rng_state(), torch.backends.mkldnn.enabled
    cost_of(model={"name": "seq2seq", "dropout": 0.3})
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.backends.mkldnn.enabled == fast_paths


def test_a_model_that_cannot_be_counted_has_no_number_and_a_reason(monkeypatch):
    def fail(self: nn.Module, queries: Tensor, keys: Tensor) -> Tensor:
        raise RuntimeError("numbers\nof its own")

    monkeypatch.setattr("attnx.attention.scorers.additive.Additive.score", fail)
    cost = cost_of()
    assert cost == ModelCost(note="operations could not be counted: RuntimeError: numbers of its own")
    assert cost.results() == {}
