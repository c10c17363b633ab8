"""The bytes of what a model keeps: by hand, and as the tensors of a state after as many steps."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.decoding.state_bytes import state_bytes
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import TransformerParts
from attnx.nn.targets.symbols import Symbols

NO_SOURCE = torch.zeros(1, 0, dtype=torch.int64)
STANDARD = LayerChoice("attention", "standard")


def decoder_only(*choices: LayerChoice, **options: Any) -> Transformer:
    parts = TransformerParts(layer_choices=choices, attention={"heads": 4, **options})
    return Transformer(None, Symbols(17), TransformerConfig("decoder_only", 24, len(choices)), parts).eval()


@pytest.mark.parametrize(("kv_heads", "heads"), [(None, 4), (2, 2), (1, 1)])
def test_a_kv_cache_has_a_key_and_a_value_a_layer_and_position(kv_heads, heads):
    """Heads of 6 units in float32, two layers, 1000 positions."""
    model = decoder_only(STANDARD, STANDARD, kv_heads=kv_heads)
    assert state_bytes(model, NO_SOURCE, 1000) == 2 * 1000 * 2 * heads * 6 * 4


def test_the_state_of_a_mixer_does_not_grow():
    """Beside attention, its 24 * (6 + 1) numbers are added to keys and values of each position."""
    model = decoder_only(LayerChoice("mixer", "linear"))
    assert state_bytes(model, NO_SOURCE, 1) == state_bytes(model, NO_SOURCE, 1000) == 4 * 24 * 7
    joined = decoder_only(LayerChoice("mixer", "linear"), STANDARD)
    assert state_bytes(joined, NO_SOURCE, 1000) == 4 * (24 * 7 + 1000 * 2 * 24)


def test_weights_of_16_bits_make_half_the_cache():
    model = decoder_only(STANDARD).to(torch.bfloat16)
    assert state_bytes(model, NO_SOURCE, 10) == 10 * 2 * 24 * 2


CHOICES: dict[str, dict[str, Any]] = {
    "recurrent": {},
    "keys that are values": {"scorer": "dot", "encoder": {"hidden_size": 13, "bidirectional": False}},
    "decoder states": {"scorer": "dot", "scope": "history", "model": {"bridge": "zeros"}},
    "earlier weights": {"scorer": "coverage", "query": ["mean_state"]},
    "transformer": {"scorer": "scaled", "model": {"name": "transformer"}},
    "a source before": {"scorer": "scaled", "model": {"name": "transformer", "form": "decoder_only"}},
}


@pytest.mark.parametrize("choice", CHOICES)
@torch.inference_mode()
def test_bytes_are_those_of_the_state_after_the_steps(choice, build_model):
    model = build_model(**CHOICES[choice]).float()
    source = torch.tensor([[5, 7, 11, 13, 17]])
    state = model.init_state(source, source > 0)
    for _ in range(7):
        _, state, _ = model.decode_step(model.target.start_input(1, source.device), state)
    different = {(part.data_ptr(), part.shape): part for part in numbers(state)}.values()
    assert state_bytes(model, source, 7) == sum(4 * part.numel() for part in different)


def numbers(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor) and tree.is_floating_point():
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from numbers(part)
