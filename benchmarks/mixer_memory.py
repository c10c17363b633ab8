"""What a layer keeps in training for its gradients, by length: each mixer, and softmax attention beside them.

    python benchmarks/mixer_memory.py --lengths 512 1024 2048 4096 8192

A tensor that is kept twice counts once; weights do not count.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention.factory import build_multi_head
from attnx.attention.options import AttentionOptions

WIDTH, HEADS = 64, 4


class SoftmaxAttention(nn.Module):
    """Causal softmax attention of a layer, without a fast kernel."""

    def __init__(self) -> None:
        super().__init__()
        choices = ("scaled", "global", "softmax")
        self.attention = build_multi_head(choices, WIDTH, WIDTH, WIDTH, HEADS, AttentionOptions())

    def forward(self, states: Tensor) -> tuple[Tensor, None]:
        """(b, t, d) -> (b, t, d), and no state."""
        memory = self.attention.make_memory(states)._replace(is_causal=True)
        return self.attention(states, memory).context, None


def kept_bytes(layer: nn.Module, length: int, width: int = WIDTH) -> int:
    """How many bytes a forward pass of one row keeps for the gradients."""
    weights = {weight.untyped_storage().data_ptr() for weight in layer.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(part: Tensor) -> Tensor:
        if (address := part.untyped_storage().data_ptr()) not in weights:
            kept[address] = part  # held, so that no other tensor takes its place
        return part

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda part: part):
        layer(torch.randn(1, length, width, requires_grad=True))
    return sum(part.untyped_storage().nbytes() for part in kept.values())


def step_seconds(layer: nn.Module, length: int) -> float:
    """The CPU time of a forward and a backward pass of one row."""
    start = time.process_time()
    layer(torch.randn(1, length, WIDTH, requires_grad=True))[0].sum().backward()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
    lengths = parser.parse_args().lengths
    torch.set_num_threads(1)
    layers: dict[str, nn.Module] = {
        name: registry.build("mixer", name, hidden_size=WIDTH) for name in registry.names("mixer")
    }
    layers["softmax attention"] = SoftmaxAttention()
    print(f"| layer of width {WIDTH} | {' | '.join(f'{length:,}' for length in lengths)} | longest, CPU time | state |")
    print("|---" * (len(lengths) + 3) + "|")
    for name, layer in layers.items():
        sizes = [f"{kept_bytes(layer, length) / 2**20:,.1f} MiB" for length in lengths]
        seconds, state = step_seconds(layer, lengths[-1]), 4 * int(getattr(layer, "state_size", 0))
        cells = [name, *sizes, f"{seconds:.2f} s", f"{state:,} bytes" if state else "grows"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
