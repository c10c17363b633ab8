"""The default model of attnx and its training, written by hand in plain torch: the speed that a library can lose.

The three schedules are those of attnx. Batches are padded once, before training. It needs torch alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD, BOS, EOS, UNK = range(4)
HIDDEN = 128
"""Units of the additive scorer."""
POOL_BATCHES = 50
"""Batches whose rows are sorted by length together."""
MAX_GRADIENT_NORM = 1.0

Pairs = Sequence[tuple[str, Sequence[str]]]


class Batch(NamedTuple):
    """Pairs of similar length, padded."""

    source: Tensor  # (b, s) ids
    lengths: Tensor  # (b,) of the sources, on the CPU
    target: Tensor  # (b, t) ids, EOS included


class Encoded(NamedTuple):
    """What a decoder reads."""

    states: Tensor  # (b, s, m)
    keys: Tensor  # (b, s, HIDDEN)
    mask: Tensor  # (b, 1, s) bool, False at padding
    start: tuple[Tensor, Tensor]  # (b, d) h and c of the decoder before its first step


class HandWrittenModel(nn.Module):
    """A bidirectional LSTM, additive attention and an LSTM decoder, in one of three schedules."""

    def __init__(self, schedule: str, symbols: tuple[int, int], sizes: Mapping[str, int]) -> None:
        super().__init__()
        embedding, encoder, decoder = (sizes[name] for name in ("embedding", "encoder", "decoder"))
        self.schedule, memory = SCHEDULES[schedule], 2 * encoder
        self.source = nn.Embedding(symbols[0], embedding, padding_idx=PAD)
        self.encoder = nn.LSTM(embedding, encoder, batch_first=True, bidirectional=True)
        self.start_h, self.start_c = nn.Linear(memory, decoder), nn.Linear(memory, decoder)
        self.target = nn.Embedding(symbols[1], embedding, padding_idx=PAD)
        self.query = nn.Linear(embedding if self.schedule.has_token_query else decoder, HIDDEN, bias=False)
        self.key = nn.Linear(memory, HIDDEN, bias=False)
        self.v = nn.Parameter(torch.empty(HIDDEN).uniform_(-1, 1) / HIDDEN**0.5)
        self.decoder = nn.LSTM(embedding + memory * self.schedule.is_fed, decoder, batch_first=True)
        self.readout = nn.Linear(decoder + memory, decoder, bias=False)
        self.output = nn.Linear(decoder, symbols[1])

    def forward(self, batch: Batch) -> Tensor:
        """The cross-entropy per target symbol."""
        memory, h, c = self.encode(self.source(batch.source), batch.lengths)
        start = torch.tanh(self.start_h(h)), self.start_c(c)
        inputs = F.pad(batch.target[:, :-1], (1, 0), value=BOS)
        encoded = Encoded(memory, self.key(memory), (batch.source != PAD)[:, None], start)
        states, contexts = self.schedule.run(self, self.target(inputs), encoded)
        logits = self.output(torch.tanh(self.readout(torch.cat([states, contexts], -1))))
        return F.cross_entropy(logits.flatten(0, 1), batch.target.flatten(), ignore_index=PAD)

    def encode(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b, s, e) -> states (b, s, m), and the last h and c (b, m); rows are packed only where lengths differ."""
        if bool((lengths == lengths[0]).all()):
            memory, final = self.encoder(inputs)
        else:
            packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
            outputs, final = self.encoder(packed)
            memory, _ = pad_packed_sequence(outputs, batch_first=True)
        h, c = (torch.cat([*state], -1) for state in final)
        return memory, h, c

    def attend(self, queries: Tensor, memory: Encoded) -> Tensor:
        """(b, q, d) -> contexts (b, q, m)."""
        scores = torch.tanh(self.query(queries)[:, :, None] + memory.keys[:, None]) @ self.v
        return torch.softmax(scores.masked_fill(~memory.mask, -torch.inf), -1) @ memory.states

    def run(self, inputs: Tensor, memory: Encoded) -> Tensor:
        """The decoder's states (b, t, d) over inputs (b, t, e)."""
        h, c = (state[None].contiguous() for state in memory.start)
        states: Tensor = self.decoder(inputs, (h, c))[0]
        return states


def run_then_attend(model: HandWrittenModel, tokens: Tensor, memory: Encoded) -> tuple[Tensor, Tensor]:
    """All states, then all contexts: no context enters the recurrence."""
    states = model.run(tokens, memory)
    return states, model.attend(states, memory)


def attend_then_run(model: HandWrittenModel, tokens: Tensor, memory: Encoded) -> tuple[Tensor, Tensor]:
    """All contexts, then all states: the tokens are the queries."""
    contexts = model.attend(tokens, memory)
    return model.run(torch.cat([tokens, contexts], -1), memory), contexts


def step_by_step(model: HandWrittenModel, tokens: Tensor, memory: Encoded) -> tuple[Tensor, Tensor]:
    """The previous state is the query, and the context enters the recurrence."""
    (h, c), states, contexts = memory.start, [], []
    for token in tokens.unbind(1):
        contexts.append(model.attend(h[:, None], memory)[:, 0])
        h, c = torch.lstm_cell(torch.cat([token, contexts[-1]], -1), (h, c), *model.decoder.all_weights[0])
        states.append(h)
    return torch.stack(states, 1), torch.stack(contexts, 1)


class Schedule(NamedTuple):
    """The order of recurrence and attention."""

    run: Callable[[HandWrittenModel, Tensor, Encoded], tuple[Tensor, Tensor]]
    is_fed: bool
    """Whether the context enters the recurrence."""
    has_token_query: bool


SCHEDULES = {
    "run then attend": Schedule(run_then_attend, is_fed=False, has_token_query=False),
    "attend then run": Schedule(attend_then_run, is_fed=True, has_token_query=True),
    "step by step": Schedule(step_by_step, is_fed=True, has_token_query=False),
}


ATTNX_MODULES = {
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
"""The modules of the model, and of attnx's."""


def weights_of_attnx(model: HandWrittenModel, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of attnx's model under the names of this one."""
    parts = {name: name.partition(".") for name in model.state_dict()}
    return {name: state[ATTNX_MODULES[part] + dot + inner] for name, (part, dot, inner) in parts.items()}


def read_pairs(file: Path) -> Pairs:
    """The pairs in lines ``word<TAB>phone phone``."""
    lines = (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines())
    return [(word, phones.split()) for word, phones in lines]


def make_batches(pairs: Pairs, size: int) -> tuple[list[Batch], tuple[int, int]]:
    """Shuffled batches of pairs whose sources are of similar length, and the numbers of symbols of both sides."""
    sources, targets = zip(*pairs, strict=True)
    ids = [
        {symbol: index for index, symbol in enumerate(sorted({s for row in side for s in row}), UNK + 1)}
        for side in (sources, targets)
    ]
    batches = []
    for start in range(0, len(pairs), POOL_BATCHES * size):
        pool = sorted(pairs[start : start + POOL_BATCHES * size], key=lambda pair: [*map(len, pair)])
        for first in range(0, len(pool), size):
            rows = pool[first : first + size]
            source = [torch.tensor([ids[0][symbol] for symbol in row]) for row, _ in rows]
            target = [torch.tensor([*(ids[1][symbol] for symbol in row), EOS]) for _, row in rows]
            lengths = torch.tensor([len(row) for row in source])
            batches.append(Batch(pad_sequence(source, True), lengths, pad_sequence(target, True)))
    random.Random(0).shuffle(batches)
    return batches, (len(ids[0]) + UNK + 1, len(ids[1]) + UNK + 1)


def train(model: HandWrittenModel, batches: Iterable[Batch], device: torch.device, autocast: bool = False) -> None:
    """One optimizer step a batch; ``autocast`` computes in bfloat16 what may be."""
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for batch in batches:
        source, target = (side.to(device, non_blocking=True) for side in (batch.source, batch.target))
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            loss = model(Batch(source, batch.lengths, target))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
