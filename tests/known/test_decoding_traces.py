"""Traces of decodings by hand: scores, masks, weights and contexts of a read, and the tree of a beam."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput, build
from attnx.data.vocabulary import EOS
from attnx.decoding.beam import Beam
from attnx.inference.step_recorder import StepRecorder, join_heads, record_reads
from attnx.inference.trace_decoding import trace_beams
from attnx.nn.targets.symbols import Symbols
from attnx.reports.pages.decoding_trace import (
    BeamNode,
    Candidate,
    ExampleTrace,
    HypothesisTrace,
    row_spans,
    trace_examples,
)
from attnx.runs.alignments import Alignment

KEYS = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]]])
VALUES = torch.tensor([[[1.0], [10.0], [100.0]]])
A, B = 3, 4


class Nearness(nn.Module):
    """A plug-in scorer: less the squared distance."""

    requires_equal_dims = True

    def project_keys(self, memory: Tensor) -> Tensor:
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return -(queries[..., :, None, :] - keys[..., None, :, :]).square().sum(-1)


@pytest.mark.parametrize(("scorer", "scores"), [("dot", (1.0, 2.0, 4.0)), (Nearness(), (-1.0, -2.0, -4.0))])
def test_a_read_is_recorded_as_the_parts_define_it(scorer, scores):
    """The query (1, 1), to which the last position is forbidden."""
    attention = build(scorer=scorer, query_size=2, memory_size=2)
    memory, query = attention.make_memory(KEYS, values=VALUES), torch.ones(1, 1, 2)
    allowed_mask = torch.tensor([[[True, True, False]]])
    with record_reads(attention) as reads:
        attention(query, memory, allowed_mask=allowed_mask)  # without weights it is no read to show
        attention(query, memory, allowed_mask, need_weights=True)
    attention(query, memory, need_weights=True)  # after the recording
    assert len(reads) == 1
    read = join_heads(reads, rows=1)
    first, second, _ = map(math.exp, scores)
    weights = [first / (first + second), second / (first + second), 0.0]
    assert read.queries.tolist() == [[[1.0, 1.0]]]
    assert read.scores[0, 0].tolist() == list(scores)
    assert read.allowed_mask[0, 0].tolist() == [True, True, False]
    assert read.weights[0, 0].tolist() == pytest.approx(weights)
    assert read.context[0, 0].tolist() == pytest.approx([weights[0] + 10 * weights[1]])


@pytest.mark.parametrize("scorer", ["scaled", "additive"])
def test_heads_are_recorded_in_the_order_of_the_weights(scorer):
    """Two rows and two heads: those of ``scaled`` are rows of one call, those of ``additive`` learn and are two."""
    attention = build(scorer=scorer, query_size=6, memory_size=4, heads=2)
    queries = torch.linspace(-2, 3, 12).view(2, 1, 6)
    memory = attention.make_memory(torch.linspace(-1, 4, 40).sin().view(2, 5, 4))
    with torch.no_grad(), record_reads(attention) as reads:
        output = attention(queries, memory, need_weights=True)
    read = join_heads(reads, rows=2)
    torch.testing.assert_close(read.weights, output.weights[:, :, 0])
    torch.testing.assert_close(read.scores.softmax(-1), output.weights[:, :, 0])
    torch.testing.assert_close(attention.out(read.context.flatten(1)), output.context[:, 0])


CHANCES = {
    (): (0.1, 0.6, 0.3),
    (A,): (0.3, 0.6, 0.1),
    (B,): (0.1, 0.1, 0.8),
    (A, A): (0.9, 0.05, 0.05),
    (B, B): (0.5, 0.4, 0.1),
}


class Chances(nn.Module):
    """The chances of EOS, A and B after each output of one or two symbols."""

    sources, is_distribution, target = ("encoder",), True, Symbols(5)

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> Tensor:
        return torch.zeros(len(source), 0, dtype=torch.int64)

    def decode_step(
        self, inputs: Tensor, state: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor, AttentionOutput]:
        state = torch.cat([state, inputs[:, None]], 1)
        chances = [(0.0, 0.0, *CHANCES[tuple(written)]) for _, *written in state.tolist()]
        return torch.tensor(chances).log(), state, AttentionOutput(torch.zeros(len(state), 1, 1))

    def select_rows(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]

    reorder_beams = select_rows


def test_the_tree_holds_what_the_beam_continued():
    """A beam of 2: A (0.6) and B (0.3), then AA (0.36) and BB (0.24); AA ends with 0.324, which BB cannot outdo."""
    recorder = StepRecorder(Chances())
    source = torch.full((1, 2), 7)
    result = Beam(beam_size=2)(recorder, source, source > 0)
    output = [A, A, EOS]
    assert result.sequences.tolist() == [[output]]
    path = recorder.path(output)
    assert [step.prediction.exp()[token].item() for step, token in zip(path, output, strict=True)] == pytest.approx(
        [0.6, 0.6, 0.9]
    )
    assert recorder.path([B, A, EOS]) is None  # never continued
    nodes, paths = trace_beams(recorder.beginnings, [output, []], ["", "", "</s>", "A", "B"])
    assert [(node.parent, node.symbol) for node in nodes] == [(-1, "A"), (-1, "B"), (0, "A"), (1, "B"), (2, "</s>")]
    assert [math.exp(node.log_probability) for node in nodes] == pytest.approx([0.6, 0.3, 0.6, 0.8, 0.9])
    assert paths == ((0, 2, 4), ())


def test_a_search_that_never_branches_has_no_tree():
    recorder = StepRecorder(Chances())
    source = torch.full((1, 2), 7)
    Beam(beam_size=1)(recorder, source, source > 0)
    assert trace_beams(recorder.beginnings, [[A, A, EOS]], ["", "", "</s>", "A", "B"]) == ((), ())


def alignment(steps: int) -> Alignment:
    return Alignment(np.ones((steps, 1), np.float32), ("a",), ("A",) * steps, ("A",) * steps)


def test_traces_go_to_the_shortest_examples_until_the_page_is_large(monkeypatch):
    """A trace takes between 50 and 100 characters, so that the second fills the page."""
    monkeypatch.setattr("attnx.reports.pages.decoding_trace.MAX_CHARACTERS", 100)
    trace = ExampleTrace((HypothesisTrace(None, ((Candidate("A", 0.5),),)),), (BeamNode(-1, "A", -0.5),), ((0,),))
    fields = trace_examples(lambda _: trace, {steps: [alignment(steps)] for steps in (3, 1, 2)})
    assert fields[1] == [
        {"trace": {"heads": [], "candidates": [[("A", 500)]]}, "beams": [(-1, "A", -500)], "paths": ((0,),)}
    ]
    assert [set(fields[steps][0]) for steps in (2, 3)] == [{"trace", "beams", "paths"}, {"reason"}]
    reasons = trace_examples(lambda _: ExampleTrace((None,)), {1: [alignment(1)]})
    assert reasons == {1: [{"reason": "the checkpoint does not decode to them"}]}


def test_spans_start_at_allowed_positions():
    assert row_spans(np.array([[True, True, False], [False, True, True], [False, False, False]])) == [
        [0, 2],
        [1, 3],
        [],
    ]
