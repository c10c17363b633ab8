"""A plug-in part that breaks its contract is reported with name, file and line, also by ``attnx check``."""

import re
from pathlib import Path
from typing import Any

import pytest

from attnx import registry
from attnx.laws.check import check_plug_ins, used_parts
from tests.refusal import refusal_message
from tests.runs.conftest import TASK, write_plug_in

HEAD = """\
from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention import ScopeMask
from attnx.nn.contracts import EncoderOutput
from attnx.registry import NonNegativeInt, PositiveInt, Size, register


"""
PARTS = {
    "scorer": """\
@register("scorer", "mine")
class Mine(nn.Module):
    requires_equal_dims = True

    def project_keys(self, memory: Tensor) -> Tensor:
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT
""",
    "scope": """\
@register("scope", "mine")
class Mine(nn.Module):
    sources = ("encoder",)

    def forward(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        return ScopeMask(memory_mask.expand(-1, queries.shape[1], -1))
""",
    "normalizer": """\
@register("normalizer", "mine")
class Mine(nn.Module):
    is_distribution = False

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        return torch.sigmoid(scores.masked_fill(~allowed_mask, 0.0)) * allowed_mask
""",
    "query": """\
@register("query", "mine")
class Mine(nn.Module):
    needs = "state"

    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def forward(self, step: object) -> Tensor:
        return step.state
""",
    "encoder": """\
@register("encoder", "mine")
class Mine(nn.Module):
    def __init__(self, input_size: Size, width: PositiveInt = 7) -> None:
        super().__init__()
        self.size = width
        self.map = nn.Linear(input_size, width)

    def forward(self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None) -> EncoderOutput:
        states = torch.tanh(self.map(inputs)) * source_mask[..., None]
        return EncoderOutput([states], ((states.sum(1),),))
""",
    "readout": """\
@register("readout", "mine")
class Mine(nn.Module):
    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def forward(self, state: Tensor, context: Tensor, token: Tensor) -> Tensor:
        return state
""",
    "output": """\
@register("output", "mine")
class Mine(nn.Linear):
    needs_weights = False

    def __init__(self, size: Size, width: Size) -> None:
        super().__init__(size, width)

    def forward(self, vectors: Tensor, seen: object = None) -> Tensor:
        return super().forward(vectors)

    def copy_ids(self, source: Tensor, source_mask: Tensor) -> None:
        return None
""",
    "decoding": """\
@register("decoding", "mine")
class Mine:
    def check(self, model: object) -> None:
        return None

    def __call__(self, model: object, source: Tensor, source_mask: Tensor, *more: object, **others: object) -> object:
        from attnx.decoding.greedy import Greedy

        return Greedy()(model, source, source_mask, *more, **others)
""",
}


SHAPE = "return queries @ keys.mT"
WINDOW = "ScopeMask(memory_mask.expand(-1, queries.shape[1], -1))"
CLASS = "class Mine"
# Of each kind a text of the part, what replaces it, what the message says, and how the line begins that it names, if
# that is not the method of the kind.
BROKEN: dict[str, dict[str, tuple[str, ...]]] = {
    "scorer": {
        "no declaration": ("    requires_equal_dims = True\n", "", "declares no requires_equal_dims", CLASS),
        "another type": ("True", '"yes"', "requires_equal_dims is 'yes'", 'requires_equal_dims = "yes"'),
        "no method": ("def project_keys", "def kays", "Mine has no method project_keys", CLASS),
        "transposed": (SHAPE, "return keys @ queries.mT", "the shape (2, 7, 3) instead of (2, 3, 7)"),
        "short": (
            "return memory",
            "return memory[..., 1:, :]",
            "(2, 6, 11) instead of (2, 7, any)",
            "def project_keys",
        ),
        "None": (SHAPE, "queries @ keys.mT", "it returned None instead of a tensor"),
        "a list": (SHAPE, "return [queries @ keys.mT]", "a list instead of a tensor"),
        "rows that mix": (SHAPE, "return queries @ (keys - keys.mean(0)).mT", "row 0 has other scores in a batch"),
        "NaN": (SHAPE, "return (queries @ keys.mT).log()", "scores of random numbers contain"),
        "a gradient of NaN": (SHAPE, "return (queries @ keys.mT).square().sqrt()", "gradients of the queries of zeros"),
        "an exception": (SHAPE, SHAPE[:-3], "RuntimeError: Expected size for first two", SHAPE[:-3]),
        "noise": (SHAPE, "return queries @ keys.mT + 1e-6 * torch.rand(())", "two equal calls differ (by up to "),
    },
    "scope": {
        "masked": ("ScopeMask(memory_mask", "ScopeMask(torch.ones_like(memory_mask)", "allows masked positions"),
        "a tensor": (WINDOW, "memory_mask", "a Tensor instead of an attnx"),
        "another type": ("ScopeMask(memory_mask", "ScopeMask(memory_mask.float()", "torch.float32"),
        "no position": ("ScopeMask(mem", "ScopeMask(False & mem", "a query has no allowed position"),
        "no sources": ('    sources = ("encoder",)\n', "    pass\n", "sources is None", CLASS),
        "noise": (WINDOW, f"{WINDOW[:-1]} & (torch.rand(memory_mask.shape) < 0.5))", "two equal calls differ"),
    },
    "normalizer": {
        "no mask": (" * allowed_mask", "", "a weight of 0.5 to a masked position"),
        "no distribution": ("is_distribution = False", "is_distribution = True", "does not sum to 1"),
        "poison": ("scores.masked_fill(~allowed_mask, 0.0)", "scores", "a masked score of nan changed the weights"),
        "rows that mix": (
            "* allowed_mask",
            "* allowed_mask / allowed_mask.sum()",
            "row 0 has other weights in a batch",
        ),
    },
    "query": {
        "unknown needs": ('"state"', '"now"', "needs is 'now'; a step has token", 'needs = "now"'),
        "another field": ("return step.state", "return step.prev_state", "it reads other fields than state"),
        "other steps": (
            "return step.state",
            "return step.state - step.state.mean(1, keepdim=True)",
            "step 0 has other queries among other steps than alone",
        ),
        "another width": ("return step.state", "return step.state[..., 1:]", "(2, 3, 12) instead of (2, 3, 13)"),
    },
    "encoder": {
        "a tensor": ("EncoderOutput([states], ((states.sum(1),),))", "states", "a Tensor instead of an EncoderOutput"),
        "padding": (
            "self.map(inputs))",
            "self.map(inputs - inputs.mean(1, True)))",
            "row 1 has other states in a batch",
        ),
        "no size": ("self.size", "self.width", "its size, the width of its", CLASS),
    },
    "readout": {"another width": ("return state\n", "return token\n", "instead of (2, 13)")},
    "output": {
        "no copy_ids": ("def copy_ids", "def signs", "Mine has no method copy_ids", CLASS),
        "another width": ("forward(vectors)", "forward(vectors)[..., 1:]", "(2, 3, 16)"),
    },
    "decoding": {
        "no check": ("def check", "def look", "has no method check", CLASS),
        "no result": ("return Greedy", "Greedy", "None instead of a DecodeResult"),
    },
}
METHODS = {"scorer": "def score", "decoding": "def __call__"}


@pytest.fixture
def plug(work_folder):
    """Put a part into ``plugins/mine.py``, changed in one place."""

    def put(kind: str, line: str = "", replacement: str = "", name: str = "mine") -> Path:
        text = PARTS[kind].replace('"mine"', f'"{name}"')
        assert line in text
        return write_plug_in(name, HEAD + text.replace(line, replacement))

    return put


def plug_in_config(kind: str) -> dict[str, Any]:
    """A configuration in which the plug-in stands, as far as it is looked at."""
    return {kind: {"mine": {}} if kind == "query" else {"name": "mine", **registry.check(kind, "mine", {})}}


@pytest.mark.parametrize("kind", PARTS)
def test_a_sound_part_passes(kind, plug):
    plug(kind)
    check_plug_ins(plug_in_config(kind))


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, cases in BROKEN.items() for case in cases])
def test_a_broken_part_is_reported(kind, case, plug):
    line, replacement, message, *line_start = BROKEN[kind][case]
    path = plug(kind, line, replacement)
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    named = line_start[0] if line_start else METHODS.get(kind, "def forward")
    place = next(number for number, text in lines if text.strip().startswith(named))
    refusal = refusal_message(lambda: check_plug_ins(plug_in_config(kind)))
    assert refusal.startswith(f"the {kind} 'mine', {path}:{place}")
    assert message in refusal
    assert refusal.endswith(f"; all its laws: attnx check {kind}=mine (docs/add-a-part.md)")


def test_a_broken_part_writes_nothing(plug, refuse, words, small):
    path = plug("normalizer", " * allowed_mask", "")
    line = refuse("normalizer=mine", *small)
    assert line.startswith(f"attnx: the normalizer 'mine', {path}:15 (forward): it gave a weight of ")


def test_a_missing_declaration_is_reported_without_torch(plug, refuse):
    """Composing reads it from the source."""
    path = plug("query", '    needs = "state"\n', "")
    assert refuse("--cfg", "job", "query=mine") == (
        f"attnx: the query 'mine', {path}:12: it declares no needs; every query declares it: write needs = a word in "
        "its class; all its laws: attnx check query=mine (docs/add-a-part.md)\n"
    )


def test_nested_parts_are_found():
    config = {
        "model": {"name": "transformer", "cross_scorer": {"name": "dot"}, "self_scope": "local", "norm": "pre"},
        "task": {"name": "translation", "tokenizer": "bpe"},
        "query": {"token": {}},
    }
    parts = {(kind, name) for kind, name, _ in used_parts(config)}
    inside = {("scorer", "dot"), ("scope", "local"), ("tokenizer", "bpe")}
    assert parts == inside | {("model", "transformer"), ("task", "translation"), ("query", "token")}


def test_an_error_of_a_plug_in_in_training_is_reported(plug, command, words, small):
    """Eight rows are more than the laws try before training."""
    path = plug("scorer", SHAPE, "return queries @ (keys if len(keys) < 8 else keys[:5]).mT")
    answer = command("scorer=mine", *small, "folder=one")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert answer.err.startswith(f"attnx: the scorer 'mine', {path}:22 (score): RuntimeError: ")
    assert "attnx check scorer=mine" in answer.err
    assert answer.err.endswith("; the traceback is in one/error.txt\n")


def test_the_first_non_finite_number_is_reported(plug, command, words, small):
    """Of the part that gave it, not of what it led to."""
    path = plug("scorer", SHAPE, "return queries @ keys.mT / (len(keys) != 8)")
    answer = command("scorer=mine", *small, "folder=one")
    assert answer.code == 1
    assert answer.err.startswith("attnx: the loss became nan at step 0, in a batch of 8 rows (")
    of = "the first output that is not finite is of attention.scorer.score: the scorer 'mine'"
    assert f"; {of}, {path}:21; the batch is in one/bad_batch.pt" in answer.err


def test_noise_that_training_refuses_breaks_one_law_of_check(plug, command, words, small):
    """Less than rounding would excuse; nothing that compares numbers is tried after it."""
    path = plug("scorer", SHAPE, "return queries @ keys.mT + 1e-6 * torch.randn(keys.shape[-2])")
    noise = f"the scorer 'mine', {path}:21 (score): two equal calls differ (by up to "
    assert command("scorer=mine", *small).err.startswith(f"attnx: {noise}")
    answer = command("check", "mine")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "breaks 1 of " in answer.err
    assert f"equal calls agree: {noise}" in answer.out
    rows = [" ".join(line.split()) for line in answer.out.splitlines()]
    law = rows.index("equal calls agree FAILED")
    assert rows[1:law] == ["declarations passed", "shapes passed"]
    assert rows[law + 1] == "numbers are finite not tried: calls differ"


def test_random_numbers_in_training_break_no_law(plug, command):
    plug("scorer", SHAPE, "return queries @ keys.mT + self.training * torch.rand(())")
    answer = command("check", "mine")
    assert "equal calls agree passed" in " ".join(answer.out.split())


def test_an_error_that_breaks_many_laws_is_printed_once(plug, command):
    path = plug("encoder", "states = ", "raise RuntimeError('seven'); states = ")
    answer = command("check", "mine")
    assert answer.code == 2
    (line,) = (line for line in answer.out.splitlines() if "seven" in line)
    failed = answer.out.count(" FAILED\n")
    assert failed > 9
    assert line.startswith(f"shapes and {failed - 1} other laws: the encoder 'mine', {path}:19: RuntimeError: seven; ")
    assert answer.err.endswith(f"breaks {failed} of {answer.out.count(' passed') + failed} laws of an encoder\n")


def test_schedules_are_compared_where_the_default_admits_one(plug, command):
    plug("query", "step.state", "step.prev_state - step.prev_state.mean(1, keepdim=True)")
    path = plug("query", '"state"', '"prev_state"', name="sound")
    path.write_text(path.read_text(encoding="utf-8").replace("step.state", "step.prev_state + 0"), encoding="utf-8")
    mixing = path.with_name("mine.py")
    mixing.write_text(mixing.read_text(encoding="utf-8").replace('"state"', '"prev_state"'), encoding="utf-8")
    assert command("check", "sound").code == 0
    rows = [" ".join(line.split()) for line in command("check", "mine").out.splitlines()]
    assert "rows are independent passed" in rows
    assert "steps are independent FAILED" in rows
    assert "schedules agree in a model FAILED" in rows


def test_check_prints_each_law(plug, command):
    plug("normalizer")
    answer = command("check", "mine")
    assert (answer.code, answer.err) == (0, "")
    assert re.search(
        r"\nthe normalizer 'mine' obeys \d+ laws of a normalizer; \d+ others could not be tried\n$", answer.out
    )
    plug("normalizer", " * allowed_mask", "", name="other")
    answer = command("check", "normalizer/other")
    assert answer.code == 2
    assert "breaks" in answer.err
    assert answer.err.count("\n") == 1
    rows = {line.strip().rpartition("  ")[0].strip(): line.split()[-1] for line in answer.out.splitlines()}
    assert rows["shapes"] == "passed"
    assert rows["masked weights are zero"] == "FAILED"
    failed = [
        line for line in answer.out.splitlines() if line.startswith("masked weights are zero: the normalizer 'other'")
    ]
    assert len(failed) == 1
    assert failed[0].endswith("the law: Masked positions have a weight of 0")


@pytest.mark.parametrize(
    ("line", "second", "message"),
    [
        ("valid_wer", "valid_wer", ""),
        ("valid_wer", "valid_per", "monitor is 'valid_per'; logged are valid_loss, valid_perplexity, valid_wer"),
        ("return SequenceData", "SequenceData", "it returned None instead of a SequenceData"),
        ('return {"wer"', '{"wer"', "it returned no dictionary of torchmetrics Metrics"),
        ("Mine(SequenceTask)", "Mine", "the class Mine must inherit attnx.tasks.contract.SequenceTask"),
        (
            "        pairs = [",
            "        import random\n        random.shuffle(words)\n        pairs = [",
            "a second load gives other data in another order: the train split differs",
        ),
        (
            "return SequenceData.of(split_by_hash(",
            "return SequenceData.of((lambda *how, **shares: (splits := split_by_hash(*how, **shares))._replace("
            "test=splits.valid))(",
            "examples of the test split are in the valid split, too; the first: '",
        ),
    ],
)
def test_check_tries_a_task(line, second, message, command):
    path = write_plug_in("mine", TASK.replace(line, second))
    answer = command("check", "mine")
    assert answer.code == (2 if message else 0)
    if message:
        assert f"the task 'mine', {path}:" in answer.out
        assert message in answer.out


def test_check_takes_options(command):
    assert command("check", "scope=local", "scope.window=2").code == 0


SEARCHED = "Greedy()(model, source, source_mask, *more, **others)"


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (f"(r := {SEARCHED})._replace(log_probability=r.log_probability + 1)", "the log-probability is not the model"),
        (f"(r := {SEARCHED})._replace(weights=r.weights is not None and r.weights * 2)", "the weights are not the mod"),
        (SEARCHED.replace("**others", '**{**others, "prefix": None}'), "a hypothesis does not begin with its prefix"),
        (SEARCHED.replace("**others", '**{**others, "token_filter": None}'), "holds a symbol that the filter forbids"),
    ],
    ids=["log-probabilities", "weights", "prefix", "filter"],
)
def test_check_tries_a_search(replacement, message, plug, command):
    plug("decoding", SEARCHED, replacement)
    answer = command("check", "mine")
    assert answer.code == 2
    assert message in " ".join(answer.out.split())


METRIC = f"""\
{HEAD}from torchmetrics import Metric


@register("metric", "mine")
class Mine(Metric):
    def update(self, predictions: list, references: list) -> None:
        raise KeyError("width")

    def compute(self) -> Tensor:
        return torch.zeros(())
"""


def test_check_says_why_a_metric_accepts_no_data(command):
    write_plug_in("mine", METRIC)
    answer = command("check", "mine")
    reasons = "it accepts neither symbols (KeyError: 'width'), nor texts (KeyError: 'width'), nor"
    assert (answer.code, reasons in " ".join(answer.out.split())) == (0, True)
