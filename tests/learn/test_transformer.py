"""A small transformer with an encoder learns to reverse; one that is a decoder alone recalls (test_probes)."""

from typing import Any

import torch

from attnx.laws.small import small_config
from attnx.models.resolve import resolve_model

STEPS = 200


def test_the_model_learns_to_reverse(train, strings):
    torch.manual_seed(7)
    chance, drawn = torch.Generator().manual_seed(11), strings(2, 5)
    options = {"hidden_size": 32, "layers": 2, "feedforward_size": 64, "dropout": 0.0}
    options |= {"position_encoding": "learned", "norm": "post", "activation": "gelu"}
    attention = ("standard", {"heads": 4})
    config = small_config(scorer="scaled", attention=attention, model={"name": "transformer", **options})
    model: Any = resolve_model(config).build(drawn.sizes)
    batch = drawn.draw(200, torch.Generator().manual_seed(13), reverse=True)  # other strings than those of the training
    assert drawn.share_right(model, batch)[0] < 0.1

    def factor(step: int) -> float:
        return min(1, (step + 1) / 30, 2 * (STEPS - step) / STEPS)

    train(model, lambda: drawn.draw(48, chance, reverse=True), STEPS, lr=0.004, betas=(0.9, 0.98), factor=factor)
    assert drawn.share_right(model, batch)[0] > 0.9
