"""Two hops learn to follow a chain of two facts, which one read cannot."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import build

SYMBOLS, CHAINS, SIZE, ROWS, STEPS = 12, 3, 16, 64, 300


def draw(chance: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Chains a, b, c as facts (a, b) and (b, c), (r, 6, 2) in random order; the first and last symbol (r,) of one."""
    symbols = torch.rand(ROWS, SYMBOLS, generator=chance).argsort(1)[:, : 3 * CHAINS].view(ROWS, CHAINS, 3)
    facts = torch.cat([symbols[..., :2], symbols[..., 1:]], 1)
    order = torch.rand(ROWS, 2 * CHAINS, generator=chance).argsort(1)
    return facts.gather(1, order[..., None].expand(-1, -1, 2)), symbols[:, 0, 0], symbols[:, 0, 2]


class Reader(nn.Module):
    """Answers with the context of a memory of facts: keys are their first symbols, values their second."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(SYMBOLS, SIZE), nn.Linear(SIZE, SYMBOLS)
        self.attention = build(scorer="scaled", query_size=SIZE, memory_size=SIZE, **options)

    def forward(self, facts: Tensor, first: Tensor) -> Tensor:
        keys, values = self.embedding(facts).unbind(2)
        memory = self.attention.make_memory(keys, values=values)
        answer: Tensor = self.output(self.attention(self.embedding(first)[:, None], memory).context[:, 0])
        return answer


def share_right(**options: Any) -> float:
    torch.manual_seed(1)
    chance, model = torch.Generator().manual_seed(2), Reader(**options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, fused=True)
    for _ in range(STEPS):
        facts, first, last = draw(chance)
        optimizer.zero_grad()
        F.cross_entropy(model(facts, first), last).backward()
        optimizer.step()
    facts, first, last = draw(chance)
    return float((model(facts, first).argmax(-1) == last).float().mean())


def test_two_hops_follow_a_chain():
    assert share_right(hops=2) > 0.95


def test_one_read_guesses_among_the_chains():
    """The last symbol lies in a position that only the second one points to."""
    assert share_right(hops=1) < 0.5
