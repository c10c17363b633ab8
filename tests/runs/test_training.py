"""Options of training do what they say."""

import copy
import os
import random
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnx.config.compose import compose
from attnx.data.batches import collate
from attnx.files.process_state import default_dtype
from attnx.inference.load import open_run
from attnx.metrics.error_rates import PhoneErrorRate
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig, Seq2seqConfig
from attnx.tasks.g2p import G2p
from attnx.tasks.loss import token_loss
from attnx.training import lightning_module, plan_steps
from attnx.training.callbacks.checkpoint import ResumableEarlyStopping
from attnx.training.lightning_module import TrainingModule
from attnx.training.train import PreparedRun, prepare
from tests.runs.conftest import results, run_info, table


@pytest.fixture
def prepare_run(words, sized):
    """Everything of a small run built and nothing trained."""

    def make(*overrides: str) -> PreparedRun:
        return prepare(compose(sized(*overrides)))

    return make


def loss_of(job: PreparedRun, label_smoothing: float = 0.0) -> float:
    rows = job.loaders.train_rows
    batch = collate([rows[number] for number in range(7)])
    return float(token_loss(job.module.model.eval(), batch, label_smoothing).mean.detach())


def test_a_run_resolves_its_model_once(words, sized, monkeypatch):
    config, resolve, resolved = compose(sized()), Seq2seqConfig.resolve, []

    def note(options: Seq2seqConfig, config: dict[str, Any]) -> ResolvedSeq2seqConfig:
        resolved.append(resolve(options, config))
        return resolved[-1]

    monkeypatch.setattr(Seq2seqConfig, "resolve", note)
    prepared = prepare(config)
    assert [prepared.resolved] == resolved
    assert prepared.module.model.plan is resolved[0].plan


def test_a_run_neither_takes_over_nor_changes_what_the_process_keeps(run, same_weights):
    """Random generators, the default dtype, the mode of gradients."""

    def draws_after(work: Callable[[], object]) -> tuple[float, ...]:
        for set_seed in (random.seed, np.random.seed, torch.manual_seed):
            set_seed(3)
        work()
        return random.random(), np.random.random(), float(torch.rand(1))

    options = ["model.dropout=0.3", "model=transformer"]
    first = run(*options, folder="one").predict(["dab"])
    with default_dtype(torch.float64), torch.inference_mode():
        draws = draws_after(lambda: None)
        assert draws_after(lambda: run(*options, folder="two")) == draws
        assert draws_after(lambda: open_run("two")) == draws
        assert open_run("two").predict(["dab"]) == first
    assert same_weights(["one", "two"])
    assert not [name for name in os.environ if name.startswith("PL_")]


@pytest.mark.usefixtures("words", "no_pictures")
def test_a_warm_up_as_long_as_a_run_is_not_noted(sized, command):
    answer = command(*sized("trainer.test_examples=1", "lr_schedule.warmup_steps=5", "folder=one"))
    assert "5 steps of 8 rows" in answer.out
    assert "the learning rate rises until the end" not in " ".join(answer.out.split())


def test_scheduled_sampling_trains_step_by_step_and_rises_from_zero(run, monkeypatch):
    chances: list[float] = []

    def note_sampling(model: Any, batch: Any, label_smoothing: float = 0.0, scheduled_sampling: float = 0.0) -> Any:
        if model.training:
            chances.append(scheduled_sampling)
        return token_loss(model, batch, label_smoothing, scheduled_sampling)

    monkeypatch.setattr(lightning_module, "token_loss", note_sampling)
    run("model.scheduled_sampling=0.5", folder="one")
    schedule = run_info("one")["schedule"]
    assert schedule.startswith("step by step: ")
    assert "sampling" in schedule
    # A straight line from 0 to 0.5 over five steps.
    assert chances == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_label_smoothing_is_part_of_the_loss(prepare_run):
    job = prepare_run("task.label_smoothing=0.1")
    assert job.module.task.label_smoothing == 0.1
    rows = job.loaders.train_rows
    batch = collate([rows[number] for number in range(7)])
    inputs = torch.cat([torch.full_like(batch.target[:, :1], 1), batch.target[:, :-1]], dim=1)
    logits = job.module.model.eval()(batch.source, batch.source_mask, inputs).logits.detach().double()
    real = batch.target != 0
    log_probs = logits.log_softmax(-1)
    target_log_probs = log_probs.gather(-1, batch.target[..., None])[..., 0][real].sum()
    uniform = log_probs.mean(-1)[real].sum()
    # Szegedy et al. 2016: nine parts of the truth, one part of every symbol alike.
    assert loss_of(job, 0.1) == pytest.approx(float(-(0.9 * target_log_probs + 0.1 * uniform) / real.sum()), rel=1e-4)
    assert loss_of(job) == pytest.approx(float(-target_log_probs / real.sum()), rel=1e-4)


def test_label_smoothing_changes_training_but_not_validation(run):
    run("optimizer.lr=1e-12", folder="plain")
    run("optimizer.lr=1e-12", "task.label_smoothing=0.3", folder="smooth")
    plain, smooth = (table(f"{name}/metrics.csv")[0] for name in ("plain", "smooth"))
    assert plain["train_loss"] != smooth["train_loss"]
    assert plain["valid_loss"] == smooth["valid_loss"]


def test_training_starts_from_pretrained_vectors(prepare_run, work_folder):
    (work_folder / "source.txt").write_text("2 5\na 1 2 3 4 5\nk -1 0 0.5 2 9\nunheard 0 0 0 0 0\n", encoding="utf-8")
    # A symbol may hold spaces, and one of them need not be plain.
    (work_folder / "target.txt").write_text(
        "\nat a place 0 1 2 3 4\nno\u00a0body 7 7 7 7 7\nAA 5 4 3 2 1\n", encoding="utf-8"
    )
    plain = prepare_run()
    job = prepare_run("model.source_vectors=source.txt", "model.target_vectors=target.txt")
    model, data = job.module.model, job.data
    assert model.source_encoder.embedding.weight[data.source.encode("a")[0]].tolist() == [1, 2, 3, 4, 5]
    assert model.source_encoder.embedding.weight[data.source.encode("k")[0]].tolist() == [-1, 0, 0.5, 2, 9]
    assert model.embedding.weight[data.target.encode(["AA"])[0]].tolist() == [5, 4, 3, 2, 1]
    for symbol in "bde":  # what the file lacks keeps its random start
        number = data.source.encode(symbol)[0]
        assert torch.equal(
            model.source_encoder.embedding.weight[number], plain.module.model.source_encoder.embedding.weight[number]
        )


@pytest.mark.parametrize(
    ("precision", "expected_kind"),
    [
        ("32", (torch.float32, torch.float32)),
        ("64", (torch.float64, torch.float64)),
        ("bf16-mixed", (torch.float32, torch.bfloat16)),
    ],
)
def test_step_time_is_measured_in_the_precision_of_the_run(precision, expected_kind, prepare_run, monkeypatch):
    """Kept are the weights as they were, and how the model itself is."""
    kinds = set()

    def spy_on_output(model: Any, *args: Any) -> Any:
        weight = model.output.weight
        kinds.add((weight.dtype, (weight @ weight.mT).dtype))
        return token_loss(model, *args)

    monkeypatch.setattr(lightning_module, "token_loss", spy_on_output)
    job = prepare_run(f"trainer.precision={precision}", "trainer.max_steps=null", "trainer.max_time=00:00:01")
    state_before = copy.deepcopy(job.module.model.state_dict())
    assert plan_steps.measure_step(job) > 0
    assert kinds == {expected_kind}
    changed = job.module.model.state_dict()
    assert all(torch.equal(weight, changed[name]) for name, weight in state_before.items())


def test_a_tied_output_is_the_embedding_before_and_after_training(run, prepare_run):
    tied = run("model.tie_embeddings=true", folder="one").model
    assert tied.output.weight is tied.embedding.weight
    assert tied.output.bias is None
    # Five wide each; the output's own weights are saved, and the readout becomes five wide instead of eleven.
    symbols = tied.embedding.num_embeddings
    assert tied.readout.size == 5
    assert prepare_run().module.model.output.weight.shape == (symbols, 11)


@pytest.mark.parametrize(
    ("maximize", "values", "options", "steps"),
    [
        (False, [9.0, 4.0, 5.0], ["trainer.patience=1"], 6),
        (False, [9.0, 4.0, 3.97, 3.0], ["trainer.patience=1"], 8),
        (False, [9.0, 4.0, 3.97, 3.0], ["trainer.patience=1", "trainer.min_improvement=0.01"], 6),
        (True, [-9.0, -4.0, -3.97, -3.0], ["trainer.patience=1", "trainer.min_improvement=0.01"], 6),
        (False, [9.0, float("nan"), 4.0], ["trainer.patience=2"], 8),
    ],
)
def test_patience_ends_at_a_validation_without_enough_improvement(maximize, run, monkeypatch, values, options, steps):
    """It outlives one that is not a number."""
    rates = chain(values, repeat(2.0))  # validations, then the test and its draws
    monkeypatch.setattr(PhoneErrorRate, "compute", lambda self: torch.tensor(next(rates)))
    monkeypatch.setattr(G2p, "maximize", maximize)
    run("trainer.max_steps=8", "trainer.num_validations=4", *options, folder="one")
    assert results("one")["steps"] == steps


@pytest.mark.parametrize(
    ("losses", "patience", "best", "last"),
    [([9.0, 7.0, 5.0, 3.0], 1, 8, 8), ([5.0, 7.0, 6.0, 3.0], 2, 2, 6), ([5.0, 5.0, 3.0], 1, 2, 4)],
)
def test_at_an_equal_metric_a_lower_loss_is_an_improvement(losses, patience, best, last, run, monkeypatch):
    """As where BLEU stays 0: the weights of the lowest loss are tested, and it alone renews patience."""
    further = iter(losses)
    monkeypatch.setattr(PhoneErrorRate, "compute", lambda self: torch.tensor(100.0))
    monkeypatch.setattr(TrainingModule, "_log_loss", lambda self, stage: self.log(f"{stage}_loss", next(further)))
    run("trainer.max_steps=8", "trainer.num_validations=4", f"trainer.patience={patience}", folder="one")
    checkpoints = [torch.load(f"one/checkpoints/{name}.ckpt", weights_only=True) for name in ("best", "last")]
    assert [checkpoint["global_step"] for checkpoint in checkpoints] == [best, last]
    (state,) = (state for state in checkpoints[1]["callbacks"].values() if "best_loss" in state)
    resumed = ResumableEarlyStopping("valid_per", False, patience, 0.0)
    resumed.load_state_dict(state)
    assert resumed.best_loss == losses[best // 2 - 1]


@pytest.mark.parametrize(
    "composition",
    [
        ["recipe=bahdanau", "optimizer=adamw", "lr_schedule=cosine", "trainer.precision=64"],
        ["+query=[token,last_context]", "scorer=concat", "decoder.cell=gru", "decoder.layers=2", "optimizer=adadelta"],
        [
            *("+query=token", "model.keys_from=inputs", "model.values_from=states", "scorer=scaled"),
            *("encoder.cell=rnn", "trainer.precision=bf16-mixed"),
        ],
    ],
    ids=lambda composition: composition[0],
)
def test_different_compositions_train_and_test(composition, run):
    trained = run(*composition, "trainer.max_steps=2", folder="one")
    assert results("one")["steps"] == 2
    assert results("one")["test_per"] >= 0
    assert len(trained.predict(["dab", "ke"])) == 2


def lengths_in_batches(job: PreparedRun) -> list[set[int]]:
    """Of each batch, the lengths of its rows by their longer side."""
    rows = job.loaders.train_rows
    return [set(rows.lengths(np.array(batch)).max(1).tolist()) for batch in job.loaders.batches]


def test_a_pool_batches_rows_of_similar_length(prepare_run):
    mixed, sorted_ = (lengths_in_batches(prepare_run(f"trainer.bucket_pool_batches={pool}")) for pool in (1, 50))
    assert len(mixed) == len(sorted_)
    # Sorted, lengths change within a batch once less often than there are lengths, at most.
    changes = len(set().union(*sorted_)) - 1
    assert sum(len(lengths) - 1 for lengths in sorted_) <= changes < sum(len(lengths) - 1 for lengths in mixed)


@pytest.mark.parametrize(("precision", "rounding"), [("tf32", "high"), (32, "highest")])
def test_tf32_is_a_precision_of_its_run(precision, rounding, run, at_step):
    def settings() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    before, during = settings(), []
    at_step(1, lambda: during.append(settings()))
    run(f"trainer.precision={precision}", "trainer.max_steps=1", folder="one")
    assert during == [(rounding, precision == "tf32")]
    assert settings() == before


@pytest.mark.parametrize(
    ("accel", "message"), [("auto", "window additive"), ("off", "none: attention computes its definition")]
)
def test_a_run_reports_its_kernels(accel, message, run):
    run("scorer=additive", "scope=local", f"accel={accel}", "trainer.max_steps=1", folder="one")
    assert run_info("one")["kernels"].startswith(message)


# What Lightning's profilers report: calls of the trainer, Python functions, and operators of torch.
REPORTED = {"simple": "run_training_batch", "advanced": "cumtime", "pytorch": "aten::"}


@pytest.mark.parametrize("profiler", REPORTED)
def test_the_report_of_a_profiler_is_in_the_run_folder(profiler, run):
    run("trainer.max_steps=11", "trainer.num_validations=1", f"trainer.profiler={profiler}", folder="one")
    assert REPORTED[profiler] in Path("one/profile/fit-profile.txt").read_text(encoding="utf-8")
    assert Path("one/profile/test-profile.txt").is_file()
    assert bool(list(Path("one/profile").glob("fit-*.pt.trace.json"))) == (profiler == "pytorch")
    assert "by Lightning's profiler" in Path("one/README.md").read_text(encoding="utf-8")


def test_a_run_without_pictures_draws_them_later(words, sized, succeed):
    succeed(*sized("trainer.pictures=false", "trainer.max_steps=2", "folder=one"))
    assert not [*Path("one").glob("*.png"), *Path("one").glob("alignments/*.png"), *Path("one").glob("page.html")]
    assert "`results.json`" in Path("one/README.md").read_text(encoding="utf-8")
    succeed("plot", "one")
    succeed("page", "one")
    assert Path("one/alignments.png").is_file()
    assert Path("one/page.html").is_file()


def test_an_unknown_profiler_is_refused(words, sized, refuse):
    line = refuse(*sized("trainer.profiler=simpel", "folder=one"))
    assert line.startswith("attnx: trainer.profiler=simpel: expected one of simple, advanced, pytorch")
