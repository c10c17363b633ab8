"""Laws of the model ``history``: company changes nothing, it looks at nothing ahead, a loop is all steps at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import registry
from attnx.decoding.greedy import Greedy

pytestmark = pytest.mark.usefixtures("float64")
ROWS, PAST, AHEAD, TARGETS, KNOWN = 3, 5, 4, 2, 1
PARTS = {"scorer": "additive", "scope": "history", "normalizer": "softmax"}
FACTORS = {
    "scorer": [("additive", {"hidden_size": 19}), ("dot", {}), ("coverage", {"hidden_size": 19})],
    "scope": ["history", "global", "local"],
    "asks": [("previous_state", "now"), ("current_state", "none"), ("last_context", "next"), ("token", "now")],
    "include_self": [False, True],
    "known": [0, KNOWN],
    "forecast": ["direct", "recursive"],
    "quantiles": [None, [0.1, 0.5]],
}


def possible(chosen: dict[str, Any]) -> bool:
    return not (chosen.get("include_self") and chosen.get("asks", "p")[0] in ("last_context", "token"))


def node(kind: str, name: str, knobs: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, **registry.check(kind, name, knobs)}


def built(**chosen: Any) -> Any:
    small = {"local": {"window": 1}}
    asks, feed = chosen.get("asks", ("previous_state", "now"))
    scope = chosen.get("scope", "history")
    inside = {"include_self": True} if chosen.get("include_self") else {}
    config: dict[str, Any] = {
        "scorer": node("scorer", *chosen.get("scorer", ("additive", {"hidden_size": 19}))),
        "scope": node("scope", scope, {**small.get(scope, {}), **inside, "sources": ["decoder"]}),
        "query": {asks: {}},
        "normalizer": node("normalizer", "softmax", {}),
        "attention": node("attention", "standard", {"heads": chosen.get("heads", 2)}),
        "model": node("model", "history", {"embedding_dim": 7, "feed": feed}),
        "decoder": node("decoder", "recurrent", {"hidden_size": 6, "cell": chosen.get("cell", "lstm")}),
        "readout": node("readout", "joint", {}),
        "task": {
            "name": "forecasting",
            "horizon": AHEAD,
            "quantiles": chosen.get("quantiles"),
            "forecast": chosen.get("forecast", "direct"),
        },
    }
    sizes = {"source_features": TARGETS + chosen.get("known", 0), "target_symbols": 0, "target_features": TARGETS}
    return registry.build("model", config["model"], config=config, source_symbols=0, tags=0, **sizes).eval()


def drawn(known: int) -> tuple[Tensor, Tensor, Tensor]:
    """A source, which of it is there, and what is right."""
    source = torch.randn(ROWS, PAST + (AHEAD if known else 0), TARGETS + known)
    source[:, PAST:, :TARGETS] = 0
    return source, torch.ones(source.shape[:2], dtype=torch.bool), torch.randn(ROWS, AHEAD, TARGETS)


def moved(target: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], 1)


def test_steps_are_all_steps_at_once_and_company_changes_nothing(combination: dict[str, Any]) -> None:
    model = built(**combination)
    source, present, target = drawn(combination["known"])
    for schedule in model.plan.admitted:
        whole = model(source, present, moved(target), need_weights=True, schedule=schedule)
        state, columns = model.init_state(source, present), 0
        for step in range(AHEAD):
            told, state, read = model.decode_step(moved(target)[:, step], state, need_weights=True)
            torch.testing.assert_close(told, whole.logits[:, step])
            columns = read.weights.shape[-1]
            torch.testing.assert_close(read.weights, whole.weights[..., step : step + 1, :columns])
            assert not whole.weights[..., step, columns:].any()
        assert columns >= PAST + AHEAD - 1
        alone = model(source[1:2], present[:1], moved(target)[1:2], schedule=schedule)
        torch.testing.assert_close(alone.logits, whole.logits[1:2])


def test_nothing_ahead_is_looked_at(combination: dict[str, Any]) -> None:
    """What is right later leaves a forecast as it was; of a direct one, all of it; the past and the known matter."""
    known = combination["known"]
    model = built(**combination)
    source, present, target = drawn(known)
    before = model(source, present, moved(target)).logits
    other = target.clone()
    other[:, 1] += 1.0  # read at the third step
    after = model(source, present, moved(other)).logits
    assert torch.equal(after[:, :2], before[:, :2])
    assert torch.equal(after[:, 2], before[:, 2]) == (combination["forecast"] == "direct")
    past = source.clone()
    past[:, PAST - 1] += 1.0
    assert not torch.equal(model(past, present, moved(target)).logits[:, 0], before[:, 0])
    if known:
        later = source.clone()
        later[:, PAST + 2, TARGETS:] += 1.0
        told = model(later, present, moved(target)).logits
        assert torch.equal(told[:, :2], before[:, :2])
        assert not torch.equal(told[:, 2], before[:, 2])


def test_a_search_writes_the_forecast() -> None:
    """As many rows as there are to be; a recursive one reads what was written, of quantiles the first."""
    model = built(forecast="recursive", quantiles=[0.1, 0.5], known=KNOWN)
    source, present, _ = drawn(KNOWN)
    found = Greedy()(model, source, present, need_weights=True)
    assert found.lengths.tolist() == [[AHEAD]] * ROWS
    assert found.written.shape == (ROWS, 1, AHEAD, 2 * TARGETS)
    whole = model(source, present, moved(found.written[:, 0]))
    torch.testing.assert_close(whole.logits, found.written[:, 0])
    assert found.weights.shape == (ROWS, 1, 2, AHEAD, PAST + AHEAD)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(ROWS, 1, 2, AHEAD))


def test_padding_is_refused() -> None:
    model = built()
    source, present, target = drawn(0)
    present[1, -1] = False
    with pytest.raises(ValueError, match="windows of one length"):
        model(source, present, moved(target))


@pytest.mark.parametrize("quantiles", [None, [0.1, 0.5, 0.9]])
def test_gradients(quantiles: list[float] | None) -> None:
    model = built(quantiles=quantiles, known=KNOWN, cell="gru")
    source, present, target = drawn(KNOWN)
    names = [name for name, _ in model.named_parameters()]
    weights = [weight.detach().clone().requires_grad_() for weight in model.parameters()]
    there = torch.ones(target.shape[:2], dtype=torch.bool)

    def loss(*given: Tensor) -> Tensor:
        found = torch.func.functional_call(
            model, dict(zip(names, given, strict=True)), (source[:1], present[:1], moved(target)[:1])
        )
        return model.target.loss(found.logits, target[:1], there[:1])

    assert torch.autograd.gradcheck(loss, tuple(weights), fast_mode=True)
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(loss(*weights), weights))
