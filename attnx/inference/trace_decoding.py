"""Decodes the saved examples of a run again, from its checkpoint, and traces every step for the run's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnx import accel
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import BOS, EOS, PAD, Vocabulary
from attnx.errors import UserError
from attnx.inference.load import open_run
from attnx.inference.step_recorder import Beginning, StepRecorder, follow
from attnx.inference.trained_run import TrainedRun
from attnx.models.resolve import part_declarations
from attnx.reports.pages.decoding_trace import BeamNode, Candidate, ExampleTrace, HypothesisTrace, ReadTrace, Tracer
from attnx.runs.alignments import END, Alignment

NUM_CANDIDATES = 5
# How far weights of another batch, by other kernels, may be from the saved ones; pages show thousandths.
WEIGHT_TOLERANCE = 2e-3
Tree = tuple[tuple[BeamNode, ...], tuple[tuple[int, ...], ...]]


def open_tracer(folder: str | Path) -> Tracer:
    """What traces the examples of a run, by the definitions of its parts, without fast paths.

    Raises:
        UserError: as :func:`attnx.open_run`, and of a task that decodes nothing.
    """
    run = open_run(folder)
    if run.task.has_step_labels:
        raise UserError(f"{folder}: its task labels the steps of what it reads; there is no decoding to play")
    accel.disable(run.model)
    return lambda hypotheses: trace_example(run, hypotheses)


def trace_example(run: TrainedRun, hypotheses: Sequence[Alignment]) -> ExampleTrace | None:
    """Decode the source of saved hypotheses, best first, once more, and trace them; None if it was not saved."""
    best = hypotheses[0]
    source = best.source_symbols or best.unaligned_source
    has_source = best.features is not None if isinstance(run.source, FeatureScaler) else bool(source)
    if not has_source or best.tag not in (run.tags or ("",)):  # as older alignments, which were saved without
        return None
    pair = Pair(source, ((),), best.tag, features=best.features, target=run.empty_target)
    recorder = StepRecorder(run.model)
    replace(run, model=recorder).decode([pair], need_weights=True)
    outputs = [[0] * len(hypothesis.output) for hypothesis in hypotheses]  # of rows of numbers
    if isinstance(run.target, Vocabulary):
        encode = run.target.encode
        outputs = [[EOS if s == END else encode([s])[0] for s in hypothesis.output] for hypothesis in hypotheses]
    paths = [recorder.path(output) for output in outputs]
    traces = [
        None if path is None else _trace(run, hypothesis, path, output)
        for hypothesis, path, output in zip(hypotheses, paths, outputs, strict=True)
    ]
    if traces[0] is None or not isinstance(run.target, Vocabulary):
        return ExampleTrace(tuple(traces))
    traced = [output if trace else [] for output, trace in zip(outputs, traces, strict=True)]
    nodes, ends = trace_beams(recorder.beginnings, traced, _symbols(run.target))
    return ExampleTrace(tuple(traces), nodes, ends)


def _symbols(target: Vocabulary) -> list[str]:
    """The symbol of each id, as alignments name them."""
    return [END if index == EOS else symbol for index, symbol in enumerate(target.symbols)]


def _trace(
    run: TrainedRun, hypothesis: Alignment, path: Sequence[Beginning], output: Sequence[int]
) -> HypothesisTrace | None:
    """The trace of a path; None if its weights are not the saved ones: the checkpoint is another one."""
    read, saved = _stack_reads(path, hypothesis.weights.shape[-1]), hypothesis.views
    heads = list(saved.values())[1 if len(saved) > 1 else 0 :]
    if part_declarations(run.config, "encoder").get("is_downsampling"):  # its positions are several columns each
        read = None
    if read is not None:
        # A pointer has one position more than columns: the end.
        is_same = len(heads) == len(read.weights) and read.weights.shape[-1] - heads[0].shape[-1] in (0, 1)
        if not is_same or not np.allclose(read.weights[..., : heads[0].shape[-1]], heads, atol=WEIGHT_TOLERANCE):
            return None
    if not isinstance(run.target, Vocabulary):
        return HypothesisTrace(read, ())
    symbols, candidates = _symbols(run.target), []
    for beginning, token in zip(path, output, strict=True):
        log_probs = beginning.prediction
        likeliest = log_probs.topk(min(NUM_CANDIDATES, len(log_probs))).indices.tolist()
        ids = [index for index in likeliest if index not in (PAD, BOS) and log_probs[index] > -torch.inf]
        ids += [] if token in ids else [token]  # the chosen one is the last if it is less likely
        candidates.append(tuple(Candidate(symbols[index], float(log_probs[index].exp())) for index in ids))
    return HypothesisTrace(read, tuple(candidates))


def _stack_reads(path: Sequence[Beginning], columns: int) -> ReadTrace | None:
    """The reads of a path over at least so many positions; those that a step's memory lacks are forbidden to it."""
    reads = [beginning.read for beginning in path if beginning.read is not None]
    if len(reads) < len(path):
        return None
    positions = max(columns, *(read.weights.shape[-1] for read in reads))

    def stack(steps: Sequence[Tensor | None], fill: float) -> Tensor:
        padded = [F.pad(step, (0, positions - step.shape[-1]), value=fill) for step in steps if step is not None]
        return torch.stack(padded, 1)

    queries, scores, masks, weights, gains, contexts = zip(*reads, strict=True)
    return ReadTrace(
        queries=torch.stack(queries, 1).numpy(),
        scores=stack(scores, torch.nan).numpy(),
        allowed_mask=stack(masks, False).numpy(),
        weights=stack(weights, 0.0).numpy(),
        gain=None if None in gains else stack(gains, 0.0).numpy(),
        contexts=torch.stack(contexts, 1).numpy(),
    )


def trace_beams(beginnings: Sequence[Beginning], outputs: Sequence[Sequence[int]], symbols: Sequence[str]) -> Tree:
    """The nodes of all beginnings and of outputs, and the nodes of each output; none if the search never branched.

    The empty beginning is first, those of the outputs' ids were recorded, and ``symbols`` has the symbol of each id.
    """
    if all(len(beginning.next) <= 1 for beginning in beginnings):
        return (), ()
    nodes: list[BeamNode] = []
    node_of: dict[tuple[int, int], int] = {}  # by the index of a beginning and the id after it

    def node(index: int, token: int) -> int:
        if (index, token) not in node_of:
            beginning = beginnings[index]
            parent = node_of.get((beginning.parent, beginning.token), -1)
            node_of[index, token] = len(nodes)
            nodes.append(BeamNode(parent, symbols[token], float(beginning.prediction[token])))
        return node_of[index, token]

    wanted = {0}  # a search fills its beam with impossible beginnings, and those that ended
    for index, beginning in enumerate(beginnings[1:], start=1):
        parent = beginnings[beginning.parent]
        is_impossible = beginning.token in (PAD, BOS) or float(parent.prediction[beginning.token]) == -torch.inf
        if beginning.parent in wanted and parent.token != EOS and not is_impossible:
            wanted.add(index)
            node(beginning.parent, beginning.token)
    paths = [tuple(map(node, follow(beginnings, output) or (), output)) for output in outputs]
    return tuple(nodes), tuple(paths)
