"""What mixers learn, and what they cannot: to recall more pairs than a state holds, parity beyond trained lengths."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import TransformerParts
from attnx.nn.targets.symbols import Symbols
from attnx.problems.probes.drawn import NOWHERE, Difficulty
from attnx.problems.probes.recall import Mqar

ROWS, SPECIALS = 64, 4
RECALL = Mqar(vocabulary=34)
PAIRS, RECALL_LENGTH = (1, 2, 4, 6), 24
ALMOST_ALL, GUESSED = 0.9, 0.65


def mixer(name: str, **options: Any) -> LayerChoice:
    return LayerChoice("mixer", name, options)


def build_model(choice: LayerChoice, layers: int, symbols: int) -> Transformer:
    """A model of width 32, at which seeds agree; mixers know the order without positions."""
    options = TransformerConfig("decoder_only", 32, layers, feedforward_size=32, dropout=0.0, position_encoding="none")
    parts = TransformerParts(layer_choices=(choice,), attention={"heads": 1})
    return Transformer(None, Symbols(SPECIALS + symbols), options, parts)


def compute_logits(model: Transformer, inputs: Tensor) -> Tensor:
    """The logits of each step of symbols (b, t) that count from 0."""
    source = torch.zeros(len(inputs), 0, dtype=torch.int64)
    return model(source, source > 0, SPECIALS + inputs).logits[..., SPECIALS:]


def train(model: Transformer, draw: Any, steps: int, lr: float) -> None:
    """Train on batches of inputs and labels (b, t)."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 50, 1 - step / steps))
    for step in range(steps):
        inputs, labels = draw(step)
        loss = F.cross_entropy(compute_logits(model, inputs).flatten(0, 1), labels.flatten(), ignore_index=NOWHERE)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


@torch.no_grad()
def accuracy(model: Transformer, inputs: Tensor, labels: Tensor, first: int = 0) -> float:
    """The share of right labels from a step on."""
    is_right = compute_logits(model, inputs).argmax(-1) == labels
    return is_right[:, first:][labels[:, first:] != NOWHERE].float().mean().item()


def draw_recall(rng: np.random.Generator, rows: int, pairs: int) -> tuple[Tensor, Tensor]:
    drawn = RECALL.draw(rng, rows, Difficulty(RECALL_LENGTH, pairs))
    return torch.from_numpy(drawn.inputs), torch.from_numpy(drawn.labels)


def recall_by_pairs(choice: LayerChoice) -> dict[int, float]:
    """The recall of two layers that were trained on sequences of one to six pairs, by their number."""
    torch.manual_seed(0)
    model, rng = build_model(choice, 2, RECALL.vocabulary), np.random.default_rng(1)
    train(model, lambda step: draw_recall(rng, ROWS, PAIRS[step % len(PAIRS)]), steps=250, lr=5e-3)
    return {pairs: accuracy(model, *draw_recall(np.random.default_rng(2), 300, pairs)) for pairs in PAIRS}


def test_linear_recalls_less_as_pairs_outgrow_its_state():
    """Arora et al. 2023, figure 2: a sum over the past keeps few apart; attention recalls all (test_probes.py)."""
    linear = recall_by_pairs(mixer("linear", heads=1))
    assert linear[1] > ALMOST_ALL
    assert linear[1] > linear[2] > linear[4] > linear[6]
    assert linear[6] < 0.5


def draw_parity(chance: torch.Generator, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Bits, and the parity of those so far."""
    bits = torch.randint(2, (rows, length), generator=chance)
    return bits, bits.cumsum(1) % 2


def parity_beyond_trained_lengths(choice: LayerChoice) -> float:
    """The share of right parities at steps 17 to 32 of a layer that was trained on 16."""
    torch.manual_seed(1)
    model, chance = build_model(choice, 1, 2), torch.Generator().manual_seed(1)
    train(model, lambda step: draw_parity(chance, ROWS // 2, 16), steps=250, lr=5e-3)
    return accuracy(model, *draw_parity(chance, 300, 32), first=16)


def test_delta_counts_modulo_two_with_negative_eigenvalues_alone():
    """Grazzi et al. 2025, table 2: only an eigenvalue of -1 turns a state around at each 1."""
    assert parity_beyond_trained_lengths(mixer("delta", heads=4, negative_eigenvalues=True)) > ALMOST_ALL
    assert parity_beyond_trained_lengths(mixer("delta", heads=4)) < GUESSED


def test_memory_cells_count_modulo_two():
    assert parity_beyond_trained_lengths(mixer("lstm")) > ALMOST_ALL
