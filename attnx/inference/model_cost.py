"""What a model costs: parameters, and the floating-point operations of a token, as torch's own counter counts them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, flop_registry, shape_wrapper

from attnx.data.batches import Batch, collate
from attnx.data.dataset import PairDataset, Row
from attnx.decoding.contracts import StepModel
from attnx.decoding.state_bytes import count_bytes, state_bytes
from attnx.errors import type_and_text
from attnx.inference.load import new_model
from attnx.models.resolve import ResolvedConfig
from attnx.models.sequence_model import SequenceModel
from attnx.runs.results import CONTEXTS
from attnx.tasks.contract import SequenceData
from attnx.tasks.loss import token_loss

# The part to which operations of a module belong, by the first of these attributes on the way to it.
PARTS = {
    **dict.fromkeys(("source_encoder", "encoder", "stories"), "encoder"),
    **dict.fromkeys(("attention", "self_attention", "cross_attention", "query", "state_projection"), "attention"),
    "mixer": "mixer",
    "memory": "memory",  # of an entity network; a scorer's lies below attention
    "feed_forward": "feed-forward",
    **dict.fromkeys(("readout", "output"), "output"),
    **dict.fromkeys(("bridge", "decoder"), "decoder"),
}
DECODER, REST = "decoder", "rest"
# A longer side of a row is counted at three lengths, which differ from it by multiples of what mixers compute at once.
MAX_COUNTED_LENGTH, STRIDE = 512, 64
LATTICE = (0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2)  # of both sides, how many strides more than the shortest
# Contexts at which a step is counted; the line through them gives those of longer ones.
SOURCE_CONTEXTS, DECODED_CONTEXTS = (32, 64, 128), (8, 16, 24)
# From so many operations on, a pass is counted on tensors without numbers. It computes nothing, but each of its
# operations takes longer, and a part that looks at its numbers cannot run.
MIN_META_FLOPS = 2e9
Counts = dict[int, int]  # by context


class ModelCost(NamedTuple):
    """What a model costs; None and empty if it could not be counted."""

    #: operations of a target step in training, forward and backward, its share of the source included
    train_flops: float | None = None
    train_parts: Mapping[str, float] = {}  #: the same by part of the model
    #: operations of a decoded step by the number of positions before it: those of the source, or of the target in a
    #: model that attends to no source. Empty if the output is one label.
    decode_flops: Mapping[int, int] = {}
    #: what decoding keeps of so many positions: a KV cache, or states of fixed size
    state_bytes: Mapping[int, int] = {}
    note: str = ""  #: why something could not be counted; "" if all was

    def results(self) -> dict[str, float]:
        """The numbers by their names in results.json."""
        flops = {} if self.train_flops is None else {"train_flops": self.train_flops}
        by_context = {"decode_flops": self.decode_flops, "state_bytes": self.state_bytes}
        decoding = {
            f"{name}_{context}": float(n) for name, counts in by_context.items() for context, n in counts.items()
        }
        return {**flops, **decoding}


class FlopCounter(FlopCounterMode):
    """Torch's counter, with the products of a matrix and a vector, which it leaves out, and sums by part of a model.

    A multiplication and an addition are two operations. What is done element by element is not counted.
    """

    def __init__(self) -> None:
        self.by_part: Counter[str] = Counter()
        formulas = {**flop_registry, **VECTOR_FORMULAS}
        super().__init__(display=False, custom_mapping={op: self._sum_by_part(call) for op, call in formulas.items()})

    def _sum_by_part(self, formula: Callable[..., int]) -> Callable[..., int]:
        def count(*args: Any, **kwargs: Any) -> int:
            flops = formula(*args, **kwargs)
            module = max(self.mod_tracker.parents, key=len)  # its path in the model
            parts = [PARTS[name] for name in module.split(".") if name in PARTS]
            inner = (part for part in parts if part != DECODER)  # a decoder has layers
            self.by_part[next(inner, parts[0] if parts else REST)] += flops
            return flops

        count._get_raw = True  # type: ignore[attr-defined]  # the formula takes tensors, not shapes
        return count


VECTOR_FORMULAS = {
    op: shape_wrapper(lambda matrix, *_, **__: 2 * int(np.prod(matrix)))  # type: ignore[no-untyped-call]
    for op in (torch.ops.aten.mv, torch.ops.aten.dot)
}


def count_cost(resolved: ResolvedConfig, data: SequenceData, rows: PairDataset, parameters: int) -> ModelCost:
    """Count the operations of a configured model's definition (``accel=off``), in training on a row of mean length.

    The model is built anew, the random state comes back, and nothing is kept. Torch's counter sees what runs, so it
    counts parts of plug-ins, too.
    """
    lengths, cost = rows.lengths(np.arange(len(rows))), ModelCost()
    row = rows[int(np.abs(lengths - lengths.mean(0)).sum(1).argmin())]  # the first one nearest to the mean lengths
    device = "meta" if 6 * parameters * max(len(row.source), len(row.target)) > MIN_META_FLOPS else "cpu"
    for attempt in dict.fromkeys((device, "cpu")):
        try:
            with _counted_model(resolved, data, torch.device(attempt)) as model:
                parts = _count_training(model, row)
                flops = sum(parts.values())
                cost = cost._replace(train_flops=flops, train_parts=parts)
                decode_flops, kept_bytes = _count_decoding(model, collate([row]))
                return cost._replace(decode_flops=decode_flops, state_bytes=kept_bytes, note="")
        except Exception as error:  # of a plug-in, anything: a run goes on without the number
            cost = cost._replace(note=f"operations could not be counted: {type_and_text(error)}")
    return cost


def count_parameters(resolved: ResolvedConfig, data: SequenceData) -> int:
    """The number of a configured model's parameters; the model is built without numbers, where that works."""
    with contextlib.suppress(Exception), _counted_model(resolved, data, torch.device("meta")) as model:
        return sum(weight.numel() for weight in model.parameters())
    with _counted_model(resolved, data, torch.device("cpu")) as model:
        return sum(weight.numel() for weight in model.parameters())


@contextlib.contextmanager
def _counted_model(resolved: ResolvedConfig, data: SequenceData, device: torch.device) -> Iterator[nn.Module]:
    """Build the model on a device as its definition has it; the random state comes back."""
    resolved = replace(resolved, config={**resolved.config, "accel": "off"})
    with torch.random.fork_rng(devices=[]):
        with device:
            model = new_model(resolved, data)
        yield model


@contextlib.contextmanager
def _counting() -> Iterator[FlopCounter]:
    """A counter, without the CPU's fast paths, whose LSTM is one operation that torch does not count."""
    fast_paths: Any = torch.backends.mkldnn
    had_fast_paths = fast_paths.enabled
    fast_paths.enabled = False
    try:
        with FlopCounter() as counter:
            yield counter
    finally:
        fast_paths.enabled = had_fast_paths


def _count_training(model: nn.Module, row: Row) -> dict[str, float]:
    """The operations of a target step in a row, forward and backward, by part.

    Those of a long row follow from shorter ones: they are a polynomial of degree 2 in the lengths of source and target,
    or where steps are labeled in how many there are and how many of them count.
    """
    num_forecast = cast("StepModel", model).target.steps or 0  # a source may end with a row for each step of a forecast
    first, second = _shorter_lengths(len(row.source), num_forecast), _shorter_lengths(len(row.target))
    if row.loss_mask is not None:
        num_counted = int(row.loss_mask.sum())
        second = Lengths(1, 1, num_counted - 1) if first.strides and num_counted else Lengths(num_counted)
    flops, device = Counter[str](), next(model.train().parameters()).device
    for i, j in LATTICE:  # Lagrange's polynomial; the weight of a longer side is 0 where the side is not long
        others = _choose(2 - first.strides - second.strides, 2 - i - j)
        if weight := _choose(first.strides, i) * _choose(second.strides, j) * others:
            length, count = first.at(i), second.at(j)  # where steps are labeled, so many of them count
            mask = None if row.loss_mask is None else np.arange(length) >= length - count
            target = row.target[: count if mask is None else length]
            batch = collate([row._replace(source=row.source[:length], target=target, loss_mask=mask)]).to(device)
            with _counting() as counter, torch.enable_grad():
                token_loss(model, batch).mean.backward()  # type: ignore[no-untyped-call]
            for part, operations in counter.by_part.items():
                flops[part] += weight * operations
    return {part: count / len(row.target) for part, count in flops.items()}


class Lengths(NamedTuple):
    """At which lengths something is counted: the shortest one, and one and two strides more."""

    shortest: int
    stride: int = 0
    strides: int = 0  # how many there are from the shortest to the length itself

    def at(self, strides: int) -> int:
        """So many strides more than the shortest."""
        return self.shortest + strides * self.stride


def _shorter_lengths(length: int, kept: int = 0) -> Lengths:
    """Of a side of a row, of which so many steps are kept; a side that is not long is counted as it is."""
    if length - kept <= MAX_COUNTED_LENGTH:
        return Lengths(length)
    strides = (length - kept) // STRIDE - 1
    return Lengths(length - strides * STRIDE, STRIDE, strides)


def _choose(n: int, k: int) -> int:
    """The binomial coefficient of any whole ``n``, for k of 0, 1 or 2."""
    return (1, n, n * (n - 1) // 2)[k]


@torch.no_grad()
def _count_decoding(model: nn.Module, batch: Batch) -> tuple[Counts, Counts]:
    """The operations of a decoded step, and the bytes that are kept, by context, as far as they are known."""
    model.requires_grad_(False)  # torch's counter looks for the gradient of an input that is a view of a parameter
    step_model, device = cast("StepModel", model.eval()), next(model.parameters()).device
    batch = batch.to(device)
    attends_to_source = "encoder" in step_model.sources and batch.source.shape[1] > 0
    count = _count_steps_after_source if attends_to_source else _count_later_steps
    flops, kept_bytes = count(step_model, batch, device)
    return (_extend(flops), _extend(kept_bytes)) if any(flops.values()) else ({}, {})


def _extend(counts: Counts) -> Counts:
    """Counts at the contexts of results: what was counted there, and what lies on the line of three counts."""
    first, second, third = counts
    rise = Fraction(counts[second] - counts[first], second - first)
    is_line = counts[third] == counts[first] + rise * (third - first)
    line = {context: int(counts[first] + rise * (context - first)) for context in CONTEXTS} if is_line else {}
    return {context: count for context, count in {**line, **counts}.items() if context in CONTEXTS}


def _count_steps_after_source(model: StepModel, batch: Batch, device: torch.device) -> tuple[Counts, Counts]:
    """The operations of the first step after a source of each length, and the bytes kept at its end."""
    flops, kept_bytes = Counts(), Counts()
    for context in SOURCE_CONTEXTS:
        rows = cast("SequenceModel[Any]", model).source_rows(context)
        repeats = -(-rows // batch.source.shape[1])
        source, _ = model.target.prepare(torch.cat([batch.source] * repeats, dim=1)[:, :rows])
        state = model.init_state(source, torch.ones(1, rows, dtype=torch.bool, device=device), batch.tag)
        flops[context], later_state = _count_step(model, state, device)
        kept_bytes[context] = count_bytes(later_state)
    return flops, kept_bytes


def _count_later_steps(model: StepModel, batch: Batch, device: torch.device) -> tuple[Counts, Counts]:
    """The operations of steps after some others, and the bytes kept at their end."""
    source, _ = model.target.prepare(batch.source)
    state, flops, kept_bytes = model.init_state(source, batch.source_mask, batch.tag), Counts(), Counts()
    for context in range(DECODED_CONTEXTS[-1] + 1):
        if context in DECODED_CONTEXTS:
            flops[context], state = _count_step(model, state, device)
            kept_bytes[context] = state_bytes(model, source, steps=context)
        else:
            _, state, _ = model.decode_step(model.target.start_input(1, device), state)
    return flops, kept_bytes


def _count_step(model: StepModel, state: object, device: torch.device) -> tuple[int, object]:
    with _counting() as counter:
        _, state, _ = model.decode_step(model.target.start_input(1, device), state)
    return counter.by_part.total(), state
