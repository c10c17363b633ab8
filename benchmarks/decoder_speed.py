"""A decoder-only transformer on a CPU: training beside the same model by hand, and decoding by a KV cache or copies.

The model by hand is nanoGPT's in size and form: learned positions, layer normalization before each sublayer, GELU, and
torch's causal attention; its projections and attnx's have the same weights. A training step is the forward pass, the
loss, the gradients and AdamW. Steps of both alternate, and so do decodings; seconds are CPU time of the process, since
a machine may be shared. ``copied`` decodes as without a cache: at each step every layer's memory is copied to join the
new position. A decoding has a process of its own, as that of ``attnx predict``: one that has trained keeps large
blocks of memory, in which copies cost less. With --compiled the model of trainer.compile=model trains, too. Printed
are tokens per second and the ratios of each round.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

import torch
import torch.nn.functional as F
from peers.contest import Rounds, by_row, table
from peers.environments import ROOT
from peers.record import record
from peers.transformer_by_hand import HandWrittenTransformer
from rich.console import Console
from torch import Tensor, nn

from attnx import accel
from attnx.accel.compiled import CompileOptions, compile_model
from attnx.attention import Memory
from attnx.attention.memory import concat_sources
from attnx.models.transformer import layer
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import AttentionSite, TransformerParts
from attnx.nn.targets.symbols import Symbols

SYMBOLS, WIDTH, HEADS = 65, 256, 8
ATTNX, BY_HAND, CACHED, COPIED = "attnx, training", "by hand, training", "KV cache, decoding", "copied, decoding"
COMPILED = "attnx compiled, training"
RATIOS = {
    "attnx / by hand": (ATTNX, BY_HAND),
    "compiled / attnx": (COMPILED, ATTNX),
    "KV cache / copied": (CACHED, COPIED),
}
Forward = Callable[[Tensor], Tensor]
"""Tokens (b, t) -> logits (b, t, symbols)."""


def build_attnx(layers: int, length: int) -> Transformer:
    """attnx's model as a run has it: by its fast paths."""
    options = TransformerConfig(
        form="decoder_only",
        hidden_size=WIDTH,
        layers=layers,
        activation="gelu",
        position_encoding="learned",
        max_positions=length,
        dropout=0.0,
    )
    parts = TransformerParts(AttentionSite("scaled", "history"), attention={"heads": HEADS})
    return accel.enable(Transformer(None, Symbols(SYMBOLS), options, parts))


def training_step(model: nn.Module, forward: Forward, tokens: Tensor) -> Callable[[], float]:
    """A step on tokens (b, t + 1): it returns the CPU seconds that it took."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4)

    def step() -> float:
        start = time.process_time()
        loss = F.cross_entropy(forward(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return time.process_time() - start

    return step


def training_steps(layers: int, tokens: Tensor, has_compiled: bool) -> dict[str, Callable[[], float]]:
    """A step of each model."""
    length = tokens.shape[1] - 1
    hand = HandWrittenTransformer(SYMBOLS, WIDTH, layers, HEADS, length, has_learned_positions=True)
    steps = {ATTNX: attnx_step(build_attnx(layers, length), tokens), BY_HAND: training_step(hand, hand, tokens)}
    if has_compiled:
        compiled = build_attnx(layers, length)
        compile_model(compiled, CompileOptions(is_strict=True))
        steps[COMPILED] = attnx_step(compiled, tokens)
    return steps


def attnx_step(model: Transformer, tokens: Tensor) -> Callable[[], float]:
    """A step of attnx's model, which has no source."""

    def forward(tokens: Tensor) -> Tensor:
        nothing = tokens[:, :0]
        logits: Tensor = model(nothing, nothing > 0, tokens).logits
        return logits

    return training_step(model, forward, tokens)


def decode_alone(layers: int, rows: int, length: int, is_copying: bool) -> float:
    """In a process of its own, after one short decoding that is not timed: the CPU seconds of :func:`decode`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build_attnx(layers, length).eval()
    decode(model, rows, length // 16)
    with copied_memories() if is_copying else contextlib.nullcontext():
        return decode(model, rows, length)


@torch.inference_mode()
def decode(model: Transformer, rows: int, length: int) -> float:
    """Decode so many symbols greedily, in so many rows: the CPU seconds that it took."""
    start = time.process_time()
    nothing = torch.zeros(rows, 0, dtype=torch.int64)
    symbols, state = torch.full((rows,), 5), model.init_state(nothing, nothing > 0)
    for _ in range(length):
        predictions, state, _ = model.decode_step(symbols, state)
        symbols = model.target.greedy(predictions).output
    return time.process_time() - start


@contextlib.contextmanager
def copied_memories() -> Iterator[None]:
    """In this block every layer's memory is copied to join a position."""

    def append(memory: Memory, new: Memory) -> Memory:
        both = concat_sources(memory, new)
        return both._replace(source_sizes=(sum(both.source_sizes),))

    with mock.patch.object(layer, "append_positions", append):
        yield


def measure_round(options: argparse.Namespace, steps: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Tokens per second of each row."""
    seconds = dict.fromkeys(steps, 0.0)
    for _ in range(options.steps):
        for name, step in steps.items():
            seconds[name] += step()
    trained, decoded = options.steps * options.rows * options.length, options.rows * options.length
    speeds = {name: trained / taken for name, taken in seconds.items()}
    for name in (CACHED, COPIED):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            submitted = pool.submit(decode_alone, options.layers, options.rows, options.length, name == COPIED)
            speeds[name] = decoded / submitted.result()
    return speeds


def ratios(speeds: Rounds) -> Rounds:
    """For each round, how many times as fast the first row of each pair was."""
    return [{name: speed[a] / speed[b] for name, (a, b) in RATIOS.items() if a in speed} for speed in speeds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="all are measured once per round")
    add("--steps", type=int, default=4, help="training steps of each model in a round")
    add("--rows", type=int, default=8, help="sequences of a batch")
    add("--length", type=int, default=512, help="symbols of a sequence")
    add("--layers", type=int, default=4)
    add("--compiled", action="store_true", help="also train a model that torch compiles")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "decoder_speed.json", help="JSON file to write")
    options, console = parser.parse_args(), Console()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokens = torch.randint(4, SYMBOLS, (options.rows, options.length + 1))
    steps = training_steps(options.layers, tokens, options.compiled)
    for step in steps.values():  # the first one pays for allocation
        step()
    speeds = [measure_round(options, steps) for _ in range(options.rounds)]
    console.print(table("tokens per second of CPU time, one thread", speeds, 0))
    console.print(table("how many times as fast, in the same round", ratios(speeds), 2))
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    record(options.out, settings, {"tokens_per_second": by_row(speeds), "ratios": by_row(ratios(speeds))})


if __name__ == "__main__":
    main()
