"""The LSTM whose cell is in C has the numbers and gradients of ``torch.nn.LSTM``."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import accel
from attnx.accel.lstm import autograd, bindings
from attnx.accel.lstm.autograd import Lookup
from attnx.nn.encoders.recurrent import RecurrentEncoder
from attnx.nn.recurrent import Recurrent

Start = tuple[Tensor, ...] | None
NEEDS_C = pytest.mark.skipif(bindings.library() is None, reason="no C compiler")
# Of one unit, of whole vectors of every processor, and of some that are left over; of one thread and, by far, of more.
UNITS = (1, 16, 37)
LENGTHS = {
    "full": None,
    "padded": torch.tensor([6, 3, 1, 8, 6]),
    "shorter than the batch": torch.tensor([6, 3, 1, 5, 6]),
    "alike": torch.tensor([8] * 5),
}
WAYS = ("from the start", "from a state", "both directions")
FACTORS = {  # for rows of a table; the kernel itself meets all of them in every combination
    "units": UNITS,
    "other_widths": [(), (2,), (2, 3)],
    "way": WAYS,
    "lengths": list(LENGTHS),
    "min_rows_to_pack": [1, 10**9],
}


@pytest.fixture(params=[1, 10**9], ids=["products in C", "products by torch"])
def products(request, monkeypatch):
    """Of however few rows."""
    monkeypatch.setattr(bindings, "MIN_ROWS_TO_PACK", request.param)


def fast(*sizes: Any) -> Recurrent:
    """A recurrence with its fast path."""
    recurrent = Recurrent(*sizes)
    accel.enable(recurrent)
    return recurrent


def run_and_differentiate(
    recurrent: Recurrent, inputs: Sequence[Tensor], lengths: Tensor | None, start: Start, leaves: Sequence[Tensor]
) -> list[Tensor]:
    """Outputs and last states, and gradients of a weighted sum of them: of leaves, the start and the weights."""
    ran = recurrent.run(inputs, lengths, (start,) if start else None)
    result = [ran.outputs[-1], *ran.state[-1]]
    factors = [torch.linspace(-1, 1, item.numel(), dtype=item.dtype).view_as(item) for item in result]
    return [*result, *torch.autograd.grad(result, [*leaves, *(start or ()), *recurrent.parameters()], factors)]


def outcome(recurrent: Recurrent, inputs: Tensor, lengths: Tensor | None, start: Start) -> list[Tensor]:
    return run_and_differentiate(recurrent, [inputs], lengths, start, [inputs])


def draw_inputs(
    recurrent: Recurrent, rows: int = 5, steps: int = 8, scale: float = 1.0
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Inputs, and states to start from."""
    layer: Any = recurrent.layers[0]
    inputs = scale * torch.randn(rows, steps, layer.input_size)
    start = tuple(torch.randn(rows, recurrent.size) for _ in range(2))
    return inputs.requires_grad_(), tuple(tensor.requires_grad_() for tensor in start)


def as_double(recurrent: Recurrent, *args: Any) -> list[Tensor]:
    """The outcome in float64, which is torch's."""
    inputs, lengths, start = args
    wide = Recurrent("lstm", inputs.shape[2], recurrent.layers[0].hidden_size, 1, recurrent.layers[0].bidirectional)
    wide.load_state_dict(recurrent.state_dict())
    doubled = [tensor.detach().double().requires_grad_() for tensor in (inputs, *(start or ()))]
    result = outcome(wide.double(), doubled[0], lengths, tuple(doubled[1:]) or None)
    return [tensor.float() for tensor in result]


@NEEDS_C
@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_the_kernel_matches_torch(units, way, lengths):
    recurrent = fast("lstm", 7, units, 1, way == "both directions")
    inputs, start = draw_inputs(recurrent)
    arguments = inputs, LENGTHS[lengths], start if way == "from a state" else None
    assert bindings.can_run_lstm(inputs)
    torch.testing.assert_close(outcome(recurrent, *arguments), as_double(recurrent, *arguments), rtol=1e-4, atol=1e-5)


@NEEDS_C
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_the_kernel_is_as_exact_as_torch(scale, monkeypatch):
    """The largest error against float64 is at most three of torch's in float32, but for the last bits of a sum."""
    recurrent = fast("lstm", 11, 37, 1, True)
    arguments = draw_inputs(recurrent, rows=13, steps=17, scale=scale)[0], torch.randint(1, 18, (13,)), None
    exact, result = as_double(recurrent, *arguments), outcome(recurrent, *arguments)
    monkeypatch.setattr(bindings, "library", lambda: None)
    torchs = outcome(recurrent, *arguments)
    for truth, actual, torch_value in zip(exact, result, torchs, strict=True):
        least = 4 * torch.finfo(torch.float32).eps * truth.abs().max()
        assert (actual - truth).abs().max() <= 3 * (torch_value - truth).abs().max() + least


@NEEDS_C
def test_table_rows_match_explicit_inputs(combination, monkeypatch):
    """Outputs and gradients, those of the table and of what stands beside its rows included, are those of the rows."""
    units, other_widths, way, lengths, min_rows_to_pack = combination.values()
    monkeypatch.setattr(bindings, "MIN_ROWS_TO_PACK", min_rows_to_pack)
    recurrent = fast("lstm", 7 + sum(other_widths), units, 1, way == "both directions")
    _, start = draw_inputs(recurrent)
    ids = torch.randint(0, 4, (5, 8))  # the last row is unused
    table = torch.randn(5, 7, requires_grad=True)
    other_inputs = tuple(torch.randn(5, 8, width, requires_grad=True) for width in other_widths)
    rows = table[ids]
    rows.lookup = Lookup(table, ids)
    looked_up, expected = (
        run_and_differentiate(
            recurrent, inputs, LENGTHS[lengths], start if way == "from a state" else None, [table, *other_inputs]
        )
        for inputs in ([rows, *other_inputs], [torch.cat([table[ids], *other_inputs], -1)])
    )
    torch.testing.assert_close(looked_up, expected, atol=2e-5, rtol=1e-4)
    assert not looked_up[3][4].any()


@NEEDS_C
def test_padding_has_no_gradient_wherever_it_is():
    """Also within a row, where a model of attnx has none; every row is looked up often enough for C."""
    embedding, layer = nn.Embedding(5, 7, padding_idx=0), Recurrent("lstm", 7, 11)
    ids = torch.randint(0, 5, (64, 9))
    gradients = []
    for model in (nn.ModuleList([embedding, layer]), accel.enable(copy.deepcopy(nn.ModuleList([embedding, layer])))):
        model[1].run([model[0](ids)], None, None).outputs[-1].sum().backward()
        gradients.append(model[0].weight.grad)
    assert not gradients[1][0].any()
    torch.testing.assert_close(*gradients, atol=2e-5, rtol=1e-4)


@NEEDS_C
def test_row_gradients_are_the_same_with_any_number_of_threads(set_num_threads):
    rows, ids = torch.randn(300, 517), torch.randint(0, 11, (300,))
    expected = torch.zeros(11, 517, dtype=torch.float64).index_add_(0, ids, rows.double())
    sums = []
    for number in (1, 3):
        set_num_threads(number)
        sums.append(bindings.segment_sum(rows, ids, 11))
    assert torch.equal(*sums)
    torch.testing.assert_close(sums[0], expected.float(), atol=1e-5, rtol=1e-5)


@NEEDS_C
def test_ids_may_be_of_32_bits():
    """As torch's embedding takes them; the C code reads 64 bits."""
    plain = nn.ModuleDict({"embedding": nn.Embedding(20, 8), "lstm": Recurrent("lstm", 8, 16)})
    model, ids = copy.deepcopy(plain), torch.randint(20, (4, 12), dtype=torch.int32)
    accel.enable(model)
    torch.testing.assert_close(
        model["lstm"].run([model["embedding"](ids)])[0], plain["lstm"].run([plain["embedding"](ids)])[0]
    )


@NEEDS_C
@pytest.mark.parametrize("number", [-1, 5])
def test_rows_outside_the_table_are_refused(number):
    with pytest.raises(IndexError, match="in a table of 5 rows"):
        autograd.lstm(Lookup(torch.randn(5, 7), torch.tensor([[0, number]])), None, None, None, [])


CHANGES: dict[str, Callable[[Tensor], object]] = {
    "scaled": lambda rows: rows.mul_(2),
    "written": lambda rows: rows[:, 1].fill_(0.5),
    "dropped": lambda rows: torch.nn.functional.dropout(rows, 0.5, inplace=True),
    "watched": lambda rows: rows.register_hook(lambda gradient: 3 * gradient),
    "kept": lambda rows: rows.retain_grad(),
}


@NEEDS_C
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", ["gradients", "inference"])
def test_rows_that_are_changed_or_watched_are_read(change, mode):
    """As by the definition: in place after the lookup, by a hook of gradients, or to keep them for saliency."""
    if mode == "inference" and change in ("watched", "kept"):
        pytest.skip("there are no gradients")
    results = []
    for is_fast in (True, False):
        torch.manual_seed(3)
        embedding, recurrent = torch.nn.Embedding(5, 7), fast("lstm", 7, 11, 1, False)
        accel.enable(embedding)
        if not is_fast:
            accel.disable(recurrent)
        with torch.inference_mode(mode == "inference"):
            rows = embedding(torch.randint(0, 5, (13, 17)))
            CHANGES[change](rows)
            outputs = recurrent.run((rows,), None, None).outputs[-1]
            if mode == "gradients":
                outputs.square().sum().backward()
        gradient = rows.grad if change == "kept" else embedding.weight.grad
        assert (gradient is None) == (mode == "inference")
        results.append((outputs, outputs if gradient is None else gradient))
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-4)


def read_hook(total: Tensor, rows: Tensor) -> Tensor:
    gradients: list[Tensor] = []
    rows.register_hook(gradients.append)
    total.backward()
    return gradients[0]


QUESTIONS: dict[str, Callable[[Tensor, Tensor], Tensor | None]] = {
    "asked": lambda total, rows: torch.autograd.grad(total, rows)[0],
    "watched": read_hook,
    "kept": lambda total, rows: (rows.retain_grad(), total.backward(), rows.grad)[-1],
}


@NEEDS_C
@pytest.mark.parametrize("question", QUESTIONS)
def test_rows_have_a_gradient_for_who_holds_them(question):
    """Asked for only after the LSTM ran, over rows of different lengths; the table's is the same as without."""
    results = []
    for is_fast in (True, False):
        torch.manual_seed(3)
        embedding, recurrent = torch.nn.Embedding(5, 7, padding_idx=2), fast("lstm", 7, 11, 1, True)
        accel.enable(embedding)
        if not is_fast:
            accel.disable(recurrent)
        rows = embedding(torch.randint(0, 5, (13, 17)))
        assert autograd.prefers_lookup(rows.lookup)
        total = recurrent.run((rows,), torch.randint(1, 18, (13,)), None).outputs[-1].square().sum()
        gradient = QUESTIONS[question](total, rows)
        assert gradient is not None
        results.append([gradient] if embedding.weight.grad is None else [gradient, embedding.weight.grad])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-4)


@NEEDS_C
def test_lookup_is_preferred_for_embeddings(monkeypatch):
    """Rows that come again and again and are read as they are, where no row of the batch is empty; without a gradient
    they leave the table without one."""
    ids, embedding = torch.zeros(3, 4, dtype=torch.int64), torch.nn.Embedding(5, 7)
    accel.enable(embedding)
    assert autograd.prefers_lookup(embedding(ids).lookup)
    assert not autograd.prefers_lookup(embedding(ids[:2]).lookup)
    assert not hasattr(embedding(ids) * 2, "lookup")
    assert not hasattr(embedding.double()(ids), "lookup")
    with torch.no_grad():
        rows = embedding.float()(torch.randint(0, 5, (13, 17)))
    fast("lstm", 7, 11, 1, False).run((rows,), None, None).outputs[-1].sum().backward()
    assert embedding.weight.grad is None
    calls: list[bool] = []
    monkeypatch.setattr(autograd, "prefers_lookup", lambda lookup: bool(calls.append(True)))
    encoder, mask = RecurrentEncoder(7, hidden_size=3), torch.ones(3, 4, dtype=torch.bool)
    accel.enable(encoder)
    encoder(embedding(ids), mask)
    assert len(calls) == 1
    mask[1] = False
    encoder(embedding(ids), mask)
    assert len(calls) == 1


@NEEDS_C
@pytest.mark.parametrize(
    "choices", [{}, {"query": ["token"], "model": {"feed": "now", "tag_inputs": ["encoder", "decoder"]}}]
)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_model_learns_the_same_with_lookup(part, choices, build_model, monkeypatch):
    """In either schedule that runs the decoder at once; the padding's embedding stays as it is."""
    options: dict[str, Any] = {part: {"layers": 2}} if not choices else {}
    model = build_model(**choices, **options)
    accel.enable(model)
    source = torch.tensor([[3, 5, 7, 5, 3, 9, 3], [5, 3, 5, 5, 0, 0, 0], [9, 9, 3, 0, 0, 0, 0]]).repeat(9, 1)
    inputs = torch.tensor([[1, 5, 7, 5], [1, 7, 0, 0], [1, 5, 5, 0]]).repeat(9, 1)
    answers: list[bool] = []
    prefers_lookup = autograd.prefers_lookup

    def record_preference(lookup: Lookup) -> bool:
        answers.append(prefers_lookup(lookup))
        return answers[-1]

    def gradients() -> list[Tensor]:
        model.zero_grad()
        output = model(source, source > 0, inputs, tag=torch.arange(27) % 2).logits[inputs > 0]
        output.logsumexp(-1).sum().backward()
        return [output, *(weight.grad for weight in model.parameters() if weight.grad is not None)]

    monkeypatch.setattr(autograd, "prefers_lookup", record_preference)
    looked_up = gradients()
    assert answers == [True] * (1 if choices else 2)  # beside tags an encoder reads no rows of a table
    monkeypatch.setattr(autograd, "prefers_lookup", lambda *_: False)
    for first, second in zip(looked_up, gradients(), strict=True):
        torch.testing.assert_close(first, second, atol=2e-5, rtol=1e-4)
    for embedding in (model.source_encoder.embedding, model.embedding):
        assert not embedding.weight.grad[0].any()


@NEEDS_C
@pytest.mark.usefixtures("products")
def test_padding_changes_nothing():
    """Not a bit, whatever stands there; and outputs there are 0."""
    recurrent = fast("lstm", 7, 37, 1, True)
    inputs, lengths = draw_inputs(recurrent)[0].detach(), torch.tensor([6, 3, 1, 5, 6])
    changed = inputs.clone()
    for row, length in enumerate(lengths):
        changed[row, length:] = float("nan")
    first, second = recurrent.run([inputs], lengths), recurrent.run([changed], lengths)
    assert torch.equal(first.outputs[-1], second.outputs[-1])
    assert torch.equal(first.state[-1][1], second.state[-1][1])
    assert all(not first.outputs[-1][row, length:].any() for row, length in enumerate(lengths))


@NEEDS_C
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_nothing_is_kept_without_gradients(mode, monkeypatch):
    """Though the weights have some: states of two steps are enough, and the numbers are the same to rounding."""
    recurrent, saved_rows = fast("lstm", 7, 37, 1, True), []
    inputs, run = draw_inputs(recurrent)[0], bindings.Direction.run

    def record(*arguments: Any) -> Any:
        result = run(*arguments)
        saved_rows.append(result[1].shape[0] if arguments[-1] else 0)
        return result

    monkeypatch.setattr(bindings.Direction, "run", record)
    lengths = torch.tensor([6, 3, 1, 5, 6])
    expected = recurrent.run([inputs], lengths).outputs[-1]
    with mode():
        outputs = recurrent.run([inputs], lengths).outputs[-1]
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-7)  # products are rounded by the CPU's own order
    assert saved_rows == [21, 21, 0, 0]


@NEEDS_C
@pytest.mark.usefixtures("products")
def test_extreme_numbers_give_exact_gates():
    """Gates far beyond where sigmoid and tanh end; NaN stays where it is."""
    gates, cells = torch.zeros(4, 4 * 5), torch.full((4, 5), 3.0)
    gates[0], gates[1, :5], gates[1, 5:] = 1e4, -1e4, float("inf")
    gates[2], cells[3, 2] = -float("inf"), float("nan")
    expected = torch.stack([torch.tensor([1.0, 1, 1, 1]), torch.tensor([0.0, 1, 1, 1]), torch.tensor([0.0, 0, -1, 0])])
    input_gate, forget, new, out = expected.unbind(1)
    h, c = bindings.lstm_step(cells, gates)
    expected_cell = forget * 3 + input_gate * new
    torch.testing.assert_close(c[:3], expected_cell[:, None].expand(3, 5))
    torch.testing.assert_close(h[:3], (out * expected_cell.tanh())[:, None].expand(3, 5))
    half = torch.tensor([1.5, 1.5, float("nan"), 1.5, 1.5])  # gates of 0 are half open, and add tanh 0
    torch.testing.assert_close(c[3], half, equal_nan=True)
    torch.testing.assert_close(h[3], half.tanh() / 2, equal_nan=True)


@NEEDS_C
def test_results_are_bit_identical_with_any_number_of_threads(set_num_threads):
    """Of the cell; what products of matrices do is torch's affair."""
    gates, cells = torch.randn(67, 4 * 251), torch.randn(67, 251)
    assert cells.numel() > bindings.MAX_UNITS_FOR_ONE_THREAD
    results = []
    for number in (1, 2):
        set_num_threads(number)
        results.append(bindings.lstm_step(cells, gates))
    assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))


@pytest.mark.parametrize("way", [pytest.param("in C", marks=NEEDS_C), "by torch"])
def test_a_step_equals_torchs_step(way, monkeypatch):
    """Gates and cells that are views of something larger, too."""
    if way == "by torch":
        monkeypatch.setattr(bindings, "library", lambda: None)
    gates, cells = torch.randn(5, 4 * 37 + 3)[:, 3:], torch.randn(37, 5).t()
    nothing, like = torch.zeros(5, 0), torch.zeros(4 * 37, 0)
    open_, none = torch.zeros(4 * 37, 37), torch.zeros(5, 37)
    expected = [
        torch.lstm_cell(
            nothing[row : row + 1], (none[:1], cells[row : row + 1]), like, open_, gates[row], gates[row] * 0
        )
        for row in range(5)
    ]
    h, c = bindings.lstm_step(cells, gates)
    torch.testing.assert_close(h, torch.cat([state for state, _ in expected]))
    torch.testing.assert_close(c, torch.cat([cell for _, cell in expected]))


@pytest.mark.parametrize("way", [pytest.param("in C", marks=NEEDS_C), "by torch"])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("value", ["all", "looked up", "added", "multiplied", "one part"])
@pytest.mark.usefixtures("products")
def test_a_step_sums_inputs_lookup_and_state(value, units, way, monkeypatch):
    """Whatever of it there is, and wherever it lies: rows of a table, what is added, parts times the weights."""
    if way == "by torch":
        monkeypatch.setattr(bindings, "library", lambda: None)
    for rows in range(1, 14):
        table, ids = torch.randn(7, 4 * units), torch.randint(0, 7, (rows, 3))[:, 1]
        added = torch.randn(rows, 4 * units + 3)[:, 3:]
        parts = [torch.randn(rows, 11)[:, 2:], torch.randn(5, rows).t()][: 1 if value == "one part" else 2]
        weights = torch.randn(4 * units, sum(part.shape[1] for part in parts) + 1)[:, 1:]
        cells = torch.randn(rows, units)
        has = {"all": (True, True, True), "one part": (False, False, True)}.get(
            value, (value == "looked up", value == "added", value == "multiplied")
        )
        gates = torch.zeros(rows, 4 * units, dtype=torch.float64)
        gates += table[ids] if has[0] else 0
        gates += added if has[1] else 0
        gates += torch.cat(parts, 1).double() @ weights.double().t() if has[2] else 0
        input_gate, forget, new, out = gates.chunk(4, 1)
        c = forget.sigmoid() * cells + input_gate.sigmoid() * new.tanh()
        actual = bindings.lstm_step(
            cells,
            added if has[1] else None,
            (table, ids) if has[0] else None,
            bindings.pack_weights(weights, rows),
            parts if has[2] else (),
        )
        expected = (out.sigmoid() * c.tanh()).float(), c.float()
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@NEEDS_C
def test_a_product_is_bit_identical_for_any_threads_and_rows(monkeypatch, set_num_threads):
    """How it is summed depends on nothing: a row alone, one among many, on one thread or on several."""
    if not bindings.library().lstm_has_fast_products():
        pytest.skip("products are torch's on this processor")
    monkeypatch.setattr(bindings, "MIN_ROWS_TO_PACK", 1)
    state, cells, weights = torch.randn(103, 200), torch.randn(103, 200), torch.randn(800, 200)
    assert cells.numel() > bindings.MAX_UNITS_FOR_ONE_THREAD

    def step_rows(rows: slice) -> Tensor:
        return torch.stack(
            bindings.lstm_step(cells[rows], None, None, bindings.pack_weights(weights, 103), [state[rows]])
        )

    set_num_threads(1)
    alone = step_rows(slice(0, 103))
    set_num_threads(2)
    assert torch.equal(step_rows(slice(0, 103)), alone)
    for row in (0, 51, 102):
        assert torch.equal(step_rows(slice(row, row + 1))[:, 0], alone[:, row])


@NEEDS_C
def test_a_kept_graph_gives_the_same_gradients_twice():
    """Those of a graph that is kept are the same twice; one number may stand for those of all outputs."""
    recurrent = fast("lstm", 7, 16, 1, True)
    inputs, lengths = draw_inputs(recurrent)[0], torch.tensor([6, 3, 1, 8, 6])
    total = recurrent.run([inputs], lengths).outputs[-1].sum()
    first = torch.autograd.grad(total, [inputs, *recurrent.parameters()], retain_graph=True)
    second = torch.autograd.grad(total, [inputs, *recurrent.parameters()])
    assert all(torch.equal(first_item, second_item) for first_item, second_item in zip(first, second, strict=True))
    ones = torch.ones_like(recurrent.run([inputs], lengths).outputs[-1])
    (dense,) = torch.autograd.grad(recurrent.run([inputs], lengths).outputs[-1], inputs, ones)
    assert torch.equal(first[0], dense)


@NEEDS_C
def test_gradients_of_only_weights_or_only_inputs():
    recurrent = fast("lstm", 7, 16)
    inputs, start = draw_inputs(recurrent)
    every = torch.autograd.grad(recurrent.run([inputs]).outputs[-1].sum(), [inputs, *recurrent.parameters()])
    alone = torch.autograd.grad(recurrent.run([inputs.detach()]).outputs[-1].sum(), list(recurrent.parameters()))
    torch.testing.assert_close(list(every[1:]), list(alone))
    recurrent.requires_grad_(False)
    (grad_inputs,) = torch.autograd.grad(recurrent.run([inputs]).outputs[-1].sum(), inputs)
    torch.testing.assert_close(grad_inputs, every[0])
    assert (
        not recurrent.run([inputs.detach()], state=(tuple(tensor.detach() for tensor in start),))
        .outputs[-1]
        .requires_grad
    )


@NEEDS_C
def test_each_bias_has_its_own_gradient():
    """Equal ones, but a change of one in place is none of the other."""
    recurrent = fast("lstm", 7, 16)
    recurrent.run([draw_inputs(recurrent)[0]]).outputs[-1].sum().backward()
    layer: Any = recurrent.layers[0]
    assert torch.equal(layer.bias_ih_l0.grad, layer.bias_hh_l0.grad)
    layer.bias_ih_l0.grad.mul_(0.5)
    assert not torch.equal(layer.bias_ih_l0.grad, layer.bias_hh_l0.grad)


@NEEDS_C
def test_second_gradients_are_refused():
    """Without the C file, or in float64, torch has them."""
    recurrent = fast("lstm", 7, 16)
    inputs = draw_inputs(recurrent)[0]
    total = recurrent.run([inputs]).outputs[-1].sum()
    with pytest.raises(RuntimeError, match="accel=off"):
        torch.autograd.grad(total, inputs, create_graph=True)
    inputs = inputs.detach().double().requires_grad_()
    (grad_inputs,) = torch.autograd.grad(recurrent.double().run([inputs]).outputs[-1].sum(), inputs, create_graph=True)
    (second,) = torch.autograd.grad(grad_inputs.sum(), inputs)
    assert second.any()


@NEEDS_C
def test_unsupported_calls_are_left_to_torch(monkeypatch):
    inputs = torch.randn(2, 3, 5)
    supported: list[bool] = []

    def record_support(value: Tensor) -> Tensor:
        supported.append(bindings.can_run_lstm(value))
        return value + 1

    record_support(inputs)
    assert supported == [True]
    supported.clear()
    for other in (inputs.double(), inputs.to(torch.bfloat16), inputs.to("meta")):
        record_support(other)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        record_support(inputs)
    torch.func.vmap(record_support)(inputs)
    assert supported == [False] * 5
    exported = nn.Identity()
    monkeypatch.setattr(exported, "forward", record_support)
    torch.export.export(exported, (inputs,))
    assert len(supported) > 5
    assert not any(supported)


def test_hooks_are_called():
    """As those are by which torch prunes weights."""
    recurrent, calls = fast("lstm", 7, 16, 1, True), []
    for layer in recurrent.layers:
        layer.register_forward_pre_hook(lambda *call: calls.append(call))
    recurrent.run([torch.randn(2, 3, 7)])
    assert len(calls) == len(recurrent.layers)


def test_torch_runs_without_a_compiler(monkeypatch):
    monkeypatch.setattr(bindings, "library", lambda: None)
    recurrent = fast("lstm", 7, 16, 1, True)
    inputs = draw_inputs(recurrent)[0], torch.tensor([6, 3, 1, 8, 6]), None
    torch.testing.assert_close(outcome(recurrent, *inputs), as_double(recurrent, *inputs), rtol=1e-4, atol=1e-5)
