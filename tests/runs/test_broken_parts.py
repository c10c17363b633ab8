"""A plug-in part that breaks its contract is reported with name, file and line, also by ``attnx check``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attnx import registry
from attnx.errors import UserError
from attnx.laws.check import check_plug_ins, used_parts

ROOT = Path(__file__).parents[2]
HEAD = """\
from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention import ScopeMask
from attnx.nn.contracts import EncoderOutput
from attnx.registry import NonNegativeInt, PositiveInt, Size, register


"""
SCORER = """\
@register("scorer", "mine")
class Mine(nn.Module):
    requires_equal_dims = True

    def project_keys(self, memory: Tensor) -> Tensor:
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT
"""
SCOPE = """\
@register("scope", "mine")
class Mine(nn.Module):
    sources = ("encoder",)

    def forward(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        return ScopeMask(memory_mask.expand(-1, queries.shape[1], -1))
"""
NORMALIZER = """\
@register("normalizer", "mine")
class Mine(nn.Module):
    is_distribution = False

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        return torch.sigmoid(scores.masked_fill(~allowed_mask, 0.0)) * allowed_mask
"""
QUERY = """\
@register("query", "mine")
class Mine(nn.Module):
    needs = "state"

    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def forward(self, step: object) -> Tensor:
        return step.state
"""
ENCODER = """\
@register("encoder", "mine")
class Mine(nn.Module):
    def __init__(self, input_size: Size, width: PositiveInt = 7) -> None:
        super().__init__()
        self.size = width
        self.map = nn.Linear(input_size, width)

    def forward(self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None) -> EncoderOutput:
        states = torch.tanh(self.map(inputs)) * source_mask[..., None]
        return EncoderOutput([states], ((states.sum(1),),))
"""
READOUT = """\
@register("readout", "mine")
class Mine(nn.Module):
    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def forward(self, state: Tensor, context: Tensor, token: Tensor) -> Tensor:
        return state
"""
OUTPUT = """\
@register("output", "mine")
class Mine(nn.Linear):
    needs_weights = False

    def __init__(self, size: Size, width: Size) -> None:
        super().__init__(size, width)

    def forward(self, vectors: Tensor, seen: object = None) -> Tensor:
        return super().forward(vectors)

    def copy_ids(self, source: Tensor, source_mask: Tensor) -> None:
        return None
"""
SEARCH = """\
@register("decoding", "mine")
class Mine:
    def check(self, model: object) -> None:
        return None

    def __call__(self, model: object, source: Tensor, source_mask: Tensor, *more: object, **others: object) -> object:
        from attnx.decoding.greedy import Greedy

        return Greedy()(model, source, source_mask, *more, **others)
"""
PARTS = {
    "scorer": SCORER,
    "scope": SCOPE,
    "normalizer": NORMALIZER,
    "query": QUERY,
    "encoder": ENCODER,
    "readout": READOUT,
    "output": OUTPUT,
    "decoding": SEARCH,
}


class Broken(NamedTuple):
    """A part of a kind with one line changed to another.

    Attributes:
        kind: of what kind.
        line: what is changed.
        replacement: what replaces it; nothing removes the line.
        line_start: how the line begins that the message names.
        message: what the message says.
    """

    kind: str
    line: str
    replacement: str
    line_start: str
    message: str


SHAPE = "return queries @ keys.mT"
BROKEN = {
    "a missing declaration": Broken(
        "scorer", "    requires_equal_dims = True\n", "", "class Mine", "declares no requires_equal_dims"
    ),
    "a declaration of another type": Broken(
        "scorer", "True", '"yes"', 'requires_equal_dims = "yes"', "requires_equal_dims is 'yes'"
    ),
    "a missing method": Broken(
        "scorer", "def project_keys", "def kays", "class Mine", "Mine has no method project_keys"
    ),
    "a transposed result": Broken(
        "scorer", SHAPE, "return keys @ queries.mT", "def score", "the shape (2, 7, 3) instead of (2, 3, 7)"
    ),
    "keys of another length": Broken(
        "scorer",
        "return memory",
        "return memory[..., 1:, :]",
        "def project_keys",
        "the shape (2, 6, 11) instead of (2, 7, any)",
    ),
    "None": Broken("scorer", SHAPE, "queries @ keys.mT", "def score", "it returned None instead of a tensor"),
    "a list": Broken("scorer", SHAPE, "return [queries @ keys.mT]", "def score", "a list instead of a tensor"),
    "rows that mix": Broken(
        "scorer", SHAPE, "return queries @ (keys - keys.mean(0)).mT", "def score", "row 0 has other scores in a batch"
    ),
    "NaN": Broken("scorer", SHAPE, "return (queries @ keys.mT).log()", "def score", "scores of random numbers contain"),
    "a gradient of NaN": Broken(
        "scorer",
        SHAPE,
        "return (queries @ keys.mT).square().sqrt()",
        "def score",
        "gradients of the queries of zeros",
    ),
    "an exception": Broken(
        "scorer", SHAPE, "return queries @ keys", "return queries @ keys", "RuntimeError: Expected size for first two"
    ),
    "a scope that ignores the mask": Broken(
        "scope",
        "ScopeMask(memory_mask.",
        "ScopeMask(torch.ones_like(memory_mask).",
        "def forward",
        "allows masked positions",
    ),
    "a scope that returns a tensor": Broken(
        "scope",
        "ScopeMask(memory_mask.expand(-1, queries.shape[1], -1))",
        "memory_mask",
        "def forward",
        "a Tensor instead of an attnx",
    ),
    "a scope of another type": Broken(
        "scope", "ScopeMask(memory_mask", "ScopeMask(memory_mask.float()", "def forward", "torch.float32"
    ),
    "a scope that allows nothing": Broken(
        "scope",
        "ScopeMask(memory_mask",
        "ScopeMask(False & memory_mask",
        "def forward",
        "a query has no allowed position",
    ),
    "a scope without sources": Broken(
        "scope", '    sources = ("encoder",)\n', "    pass\n", "class Mine", "sources is None"
    ),
    "a normalizer that does not mask": Broken(
        "normalizer", " * allowed_mask", "", "def forward", "a weight of 0.5 to a masked position"
    ),
    "a normalizer of no distribution": Broken(
        "normalizer", "is_distribution = False", "is_distribution = True", "def forward", "does not sum to 1"
    ),
    "a normalizer with poison": Broken(
        "normalizer",
        "scores.masked_fill(~allowed_mask, 0.0)",
        "scores",
        "def forward",
        "a masked score of nan changed the weights",
    ),
    "a normalizer that mixes rows": Broken(
        "normalizer",
        "* allowed_mask",
        "* allowed_mask / allowed_mask.sum()",
        "def forward",
        "row 0 has other weights in a batch",
    ),
    "a query that needs nothing known": Broken(
        "query", '"state"', '"now"', 'needs = "now"', "needs is 'now'; a step has token"
    ),
    "a query that reads something else": Broken(
        "query", "return step.state", "return step.prev_state", "def forward", "it reads other fields than state"
    ),
    "a query that reads other steps": Broken(
        "query",
        "return step.state",
        "return step.state - step.state.mean(1, keepdim=True)",
        "def forward",
        "step 0 has other queries among other steps than alone",
    ),
    "noise": Broken(
        "scorer",
        SHAPE,
        "return queries @ keys.mT + 1e-6 * torch.rand(())",
        "def score",
        "two equal calls differ (by up to ",
    ),
    "noise in a mask": Broken(
        "scope",
        "ScopeMask(memory_mask.expand(-1, queries.shape[1], -1))",
        "ScopeMask(memory_mask.expand(-1, queries.shape[1], -1) & (torch.rand(memory_mask.shape) < 0.5))",
        "def forward",
        "two equal calls differ",
    ),
    "a query of another width": Broken(
        "query", "return step.state", "return step.state[..., 1:]", "def forward", "(2, 3, 12) instead of (2, 3, 13)"
    ),
    "an encoder that returns a tensor": Broken(
        "encoder",
        "EncoderOutput([states], ((states.sum(1),),))",
        "states",
        "def forward",
        "a Tensor instead of an EncoderOutput",
    ),
    "an encoder that reads padding": Broken(
        "encoder",
        "self.map(inputs))",
        "self.map(inputs - inputs.mean(1, True)))",
        "def forward",
        "row 1 has other states in a batch",
    ),
    "an encoder without a size": Broken(
        "encoder", "self.size", "self.width", "class Mine", "its size, the width of its"
    ),
    "a readout of another width": Broken(
        "readout", "return state\n", "return token\n", "def forward", "instead of (2, 13)"
    ),
    "an output without copy_ids": Broken(
        "output", "def copy_ids", "def signs", "class Mine", "Mine has no method copy_ids"
    ),
    "an output of another width": Broken(
        "output", "forward(vectors)", "forward(vectors)[..., 1:]", "def forward", "(2, 3, 16)"
    ),
    "a search without a check": Broken("decoding", "def check", "def look", "class Mine", "has no method check"),
    "a search that finds nothing": Broken(
        "decoding", "return Greedy", "Greedy", "def __call__", "None instead of a DecodeResult"
    ),
}


@pytest.fixture
def plug(work_folder):
    """Put a part into ``plugins/mine.py``, changed in one place."""

    def put(kind: str, line: str = "", replacement: str = "", name: str = "mine") -> Path:
        text = PARTS[kind].replace('"mine"', f'"{name}"')
        assert line in text
        path = work_folder / "plugins" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text.replace(line, replacement), encoding="utf-8")
        return path

    return put


def plug_in_config(kind: str) -> dict[str, Any]:
    """A configuration in which the plug-in stands, as far as it is looked at."""
    return {kind: {"mine": {}} if kind == "query" else {"name": "mine", **registry.check(kind, "mine", {})}}


@pytest.mark.parametrize("kind", PARTS)
def test_a_sound_part_passes(kind, plug):
    plug(kind)
    check_plug_ins(plug_in_config(kind))


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_part_is_reported(broken, plug):
    path = plug(broken.kind, broken.line, broken.replacement)
    lines = path.read_text(encoding="utf-8").splitlines()
    place = next((n for n, line in enumerate(lines, 1) if line.strip().startswith(broken.line_start)), None)
    with pytest.raises(UserError) as refused:
        check_plug_ins(plug_in_config(broken.kind))
    message = str(refused.value)
    assert "\n" not in message
    assert message.startswith(f"the {broken.kind} 'mine', {path}:{place or ''}")
    assert broken.message in message
    assert message.endswith(f"; all its laws: attnx check {broken.kind}=mine (docs/add-a-part.md)")


def test_a_broken_part_writes_nothing(plug, command, words, small, work_folder):
    path = plug("normalizer", " * allowed_mask", "")
    files_before = sorted(work_folder.iterdir())
    answer = command("normalizer=mine", *small)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert answer.err.startswith(f"attnx: the normalizer 'mine', {path}:15 (forward): it gave a weight of ")
    assert sorted(work_folder.iterdir()) == files_before


def test_a_missing_declaration_is_reported_without_torch(plug, command):
    """Composing reads it from the source."""
    path = plug("query", '    needs = "state"\n', "")
    answer = command("--cfg", "job", "query=mine")
    assert answer.code == 2
    assert answer.err == (
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


TASK = """\
from attnx.tasks.contract import SequenceData, SequenceTask


@register("task", "mine")
class Mine(SequenceTask):
    monitor = "valid_wer"
    maximize = False
    label_smoothing = 0.0

    def load(self):
        from attnx.data.examples import Pair
        from attnx.data.splits import split_by_hash

        words = [format(number, "06b") for number in range(64)]
        pairs = [Pair(tuple(word), (tuple(word),)) for word in words]
        return SequenceData.of(split_by_hash(pairs, lambda pair: pair.source_text, valid=0.2, test=0.2))

    def metrics(self, tags):
        from attnx import registry

        return {"wer": registry.build("metric", "word_error_rate")}

    def tokenize(self, text, tag=""):
        return tuple(text)

    def detokenize(self, symbols):
        return "".join(symbols)
"""


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
            "return SequenceData.of(split",
            "return SequenceData.of((lambda splits: splits._replace(test=splits.valid))(split",
            "examples of the test split are in the valid split, too; the first: '",
        ),
    ],
)
def test_check_tries_a_task(line, second, message, work_folder, command):
    (work_folder / "plugins").mkdir()
    broken = TASK.replace(line, second)
    broken = broken.replace("test=0.2))", "test=0.2)))") if "lambda splits" in second else broken
    (work_folder / "plugins" / "mine.py").write_text(HEAD + broken, encoding="utf-8")
    answer = command("check", "mine")
    assert answer.code == (2 if message else 0)
    if message:
        assert f"the task 'mine', {work_folder}/plugins/mine.py:" in answer.out
        assert message in answer.out


def test_check_takes_options(plug, command):
    assert command("check", "scope=local", "scope.window=2").code == 0
    answer = command("check", "scope=local", "scope.windw=2")
    assert (answer.code, answer.out) == (2, "")
    assert "no option 'windw'; did you mean window" in answer.err


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


def test_check_says_why_a_metric_accepts_no_data(work_folder, command):
    (work_folder / "plugins").mkdir()
    (work_folder / "plugins" / "mine.py").write_text(METRIC, encoding="utf-8")
    answer = command("check", "mine")
    assert answer.code == 0
    assert "it accepts neither symbols (KeyError: 'width'), nor texts (KeyError: 'width'), nor" in " ".join(
        answer.out.split()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "attnx check needs NAME"),
        (
            ("sofmax",),
            "no part 'sofmax'; did you mean softmax?; plug-ins were searched in plugins/, and $ATTNX_PLUGINS",
        ),
        (("zzz",), "no part 'zzz'; attnx list shows all parts; plug-ins were searched in plugins/"),
        (("scorer=softmax",), "no scorer 'softmax'"),
        (("scorr=dot",), "there is no kind 'scorr'; did you mean scorer"),
        (("history",), "write attnx check scope=history or attnx check model=history"),
        (("adam",), "'adam' is of the kind optimizer, which has no laws; attnx check tests scorer, scope, "),
        (("lr_schedule=cosine",), "'cosine' is of the kind lr_schedule, which has no laws"),
        (("dot", "scaled"), "tests one part"),
    ],
)
def test_check_refuses_invalid_arguments(words, message, command):
    answer = command("check", *words)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
