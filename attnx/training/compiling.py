"""Has torch compile the steps of a model's loop before a run begins, and says what came of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from lightning.fabric.utilities import move_data_to_device

from attnx.accel.compiled_step import CompileOptions, clone_gradients, compile_model
from attnx.attention.planner import WORDS
from attnx.data.batches import Batch, collate
from attnx.errors import UserError, in_a_line
from attnx.models.seq2seq.model import Seq2seq
from attnx.tasks.protocols import token_loss
from attnx.training.distributed.devices import training_device
from attnx.training.distributed.process_group import rank_info
from attnx.training.lightning_module import TrainingModule
from attnx.training.loaders import Loaders

# Batches to try it on: what differs between the first ones becomes a symbol, and is not compiled for again.
TRIED = 3


def compile_steps(experiment: TrainingModule, loaders: Loaders, trainer: Mapping[str, Any]) -> str | None:
    """Compile as ``trainer.compile`` says, and learn from a few batches whether that can be done.

    Neither the weights nor what is drawn later change. What cannot be compiled runs as it is.

    Returns:
        what is compiled, or why nothing is; None where nothing is asked for.

    Raises:
        UserError: CUDA graphs without CUDA, or there is no compiler that works.
    """
    how, model, device = trainer.get("compile", "off"), experiment.model, training_device(trainer)
    if how == "off":
        return None
    if how == "graphs" and device.type != "cuda":
        raise UserError("trainer.compile=graphs records CUDA graphs, and this run has no GPU of CUDA's; use steps")
    if reason := _nothing(model, how, trainer):
        return f"nothing: {reason}"
    assert isinstance(model, Seq2seq)
    graphs = how == "graphs"
    compile_model(model, CompileOptions(graphs, strict=True))
    try:
        breaks = _try(experiment, loaders, device)
    except Exception as error:
        compile_model(model, None)
        reason = in_a_line(_cause(error))
        if _no_compiler(error):
            raise UserError(f"trainer.compile={how}: torch has no compiler that works ({reason})") from error
        return f"nothing: torch cannot compile a step ({reason})"
    compile_model(model, CompileOptions(graphs))
    if graphs:
        clone_gradients(model)
    reason = f"each step of the loop but the first{', as a CUDA graph' if graphs else ''}"
    return f"{reason}, broken up where torch cannot follow: {'; '.join(breaks)}" if breaks else reason


def _nothing(model: torch.nn.Module, how: str, trainer: Mapping[str, Any]) -> str | None:
    """Why there is nothing to compile, if so."""
    if not isinstance(model, Seq2seq):
        return "it is for the loop of model=seq2seq alone"
    if model.plan.schedule != "step_by_step":
        return f"{WORDS[model.plan.schedule]} has no loop of steps"
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return "parts of the model have devices of their own"
    if trainer.get("strategy") == "fsdp" and rank_info().world_size > 1:
        return "the weights of a step are shared out among processes"
    if how == "graphs" and model.state_projection is not None:
        return "the memory grows, so that no step is the graph of another"
    return None


def _try(experiment: TrainingModule, loaders: Loaders, device: torch.device) -> list[str]:
    """Train on a few batches but for the optimizer; return where torch broke steps up.

    Raises:
        Exception: whatever torch and what it calls raise.
    """
    from torch._dynamo.utils import counters

    breaks_before = Counter(counters["graph_break"])
    model = experiment.model.to(device).train()
    try:
        with torch.random.fork_rng():
            for batch in _batches(loaders, device):
                sampling = experiment.settings.sampling
                token_loss(model, batch, experiment.task.smoothing, sampling).mean.backward()  # type: ignore[no-untyped-call]
    finally:
        model.zero_grad(set_to_none=True)
        model.cpu()
    return [line.partition("\n")[0] for line in Counter(counters["graph_break"]) - breaks_before]


def _batches(loaders: Loaders, device: torch.device) -> Iterator[Batch]:
    for rows in itertools.islice(loaders.batches, TRIED):
        batch: Batch = move_data_to_device(collate([loaders.train_rows[row] for row in rows]), device)
        yield batch


def _no_compiler(error: BaseException) -> bool:
    """Whether it is for want of a compiler."""
    from torch._inductor import exc

    return isinstance(_cause(error), exc.InvalidCxxCompiler | exc.TritonMissing | exc.CppCompileError)


def _cause(error: BaseException) -> BaseException:
    """What torch met with, of which it told in words of its own."""
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    return error
