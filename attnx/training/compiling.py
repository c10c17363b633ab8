"""Builds a model's kernels, and has torch compile it, before training."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from lightning.fabric.plugins.precision import Precision

from attnx.accel.attention.kernels import build_failure
from attnx.accel.compiled import CompileOptions, clone_gradients, compile_model
from attnx.accel.mixers import describe_mixers
from attnx.data.batches import collate
from attnx.errors import UserError, in_a_line
from attnx.models.planner import WORDS
from attnx.models.seq2seq.model import Seq2seq
from attnx.models.transformer.model import Transformer
from attnx.training.distributed.devices import training_device
from attnx.training.lightning_module import TrainingModule, compute_gradients, keep_random_state, precision_plugin
from attnx.training.loaders import TrainingDataModule

# Before it, torch's compiler does not look into `_replace` of named tuples, of which a step has many.
OLDEST_COMPILER = "2.9"
# Trial batches: sizes that differ between them become symbolic, so that later sizes need no compilation.
NUM_TRIAL_BATCHES = 3
COMPILED_PARTS = {
    "steps": "each step of the loop but the first",
    "graphs": "each step of the loop but the first, as a CUDA graph",
    "model": "the whole pass",
}


def build_kernels(model: torch.nn.Module, device: torch.device) -> str:
    """Build the kernels of a model for a device, and return the text of the start table.

    A kernel that cannot be built is left out, and the next one serves. The start table has a line of its own on C
    files (:func:`attnx.accel.c_build.without_c`), so a kernel in C is left out here without a reason.
    """
    kernels = {
        kernel.name: kernel
        for part in model.modules()
        for kernel in getattr(part, "kernels", ())
        if kernel.is_for(device)
    }
    failures = {name: build_failure(kernel, device, warn=str) for name, kernel in kernels.items()}
    built = [name for name, failure in failures.items() if failure is None]
    fallback = "other calls compute the definition"
    notes = [f"{' '.join(built)}; {fallback}" if built else "none: attention computes its definition"]
    notes += [
        f"{name} cannot be built and is left out: {failure}"
        for name, failure in failures.items()
        if failure is not None and kernels[name].source is None
    ]
    mixers = describe_mixers(model, device)
    return "; ".join([*notes, *([] if mixers is None else [mixers])])


def compile_in_training(module: TrainingModule, loaders: TrainingDataModule, trainer: Mapping[str, Any]) -> str | None:
    """Compile what ``trainer.compile`` names, and try it on a few batches; return what is compiled, or why not.

    Weights and random state do not change. What cannot be compiled runs uncompiled. None with ``trainer.compile=off``.

    Raises:
        UserError: torch is too old, CUDA graphs without CUDA, or no working compiler.
    """
    mode, model, device = trainer["compile"], module.model, training_device(trainer)
    if mode == "off":
        return None
    if torch.__version__ < OLDEST_COMPILER:
        needed = f"needs torch {OLDEST_COMPILER} or newer, and this is {torch.__version__}"
        raise UserError(f"trainer.compile={mode} {needed}; leave it out")
    if mode == "graphs" and device.type != "cuda":
        raise UserError("trainer.compile=graphs records CUDA graphs, but there is no CUDA GPU; use steps")
    if reason := _uncompiled_reason(model, mode):
        return f"not compiled: {reason}"
    has_graphs = mode == "graphs"
    compile_model(model, CompileOptions(has_graphs, is_strict=True))
    try:
        breaks = _train_trial_batches(module, loaders, precision_plugin(trainer["precision"], device), device)
    except Exception as error:
        from torch._inductor import exc

        compile_model(model, None)
        cause: BaseException = error
        while isinstance(inner := getattr(cause, "inner_exception", None), BaseException):  # torch wraps errors
            cause = inner
        reason = in_a_line(cause)
        if isinstance(cause, exc.InvalidCxxCompiler | exc.TritonMissing | exc.CppCompileError):
            raise UserError(f"trainer.compile={mode}: torch found no working compiler ({reason})") from error
        return f"not compiled: torch cannot compile it ({reason})"
    compile_model(model, CompileOptions(has_graphs))
    if has_graphs:
        clone_gradients(model)
    return f"{COMPILED_PARTS[mode]}, with graph breaks: {'; '.join(breaks)}" if breaks else COMPILED_PARTS[mode]


def _uncompiled_reason(model: torch.nn.Module, mode: str) -> str | None:
    """Why the model has nothing to compile; None if it has."""
    if mode == "model" and not isinstance(model, Transformer):
        return "only the pass of model=transformer is one piece; trainer.compile=steps compiles a loop of steps"
    if mode != "model" and not isinstance(model, Seq2seq):
        return "only model=seq2seq has a loop of steps; trainer.compile=model compiles the pass of a transformer"
    if isinstance(model, Seq2seq) and model.plan.schedule != "step_by_step":
        return f"{WORDS[model.plan.schedule]} has no loop of steps"
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return "parts of the model are placed on different devices"
    if mode == "graphs" and isinstance(model, Seq2seq) and model.state_projection is not None:
        return "the memory grows each step, so one CUDA graph cannot be reused"
    return None


def _train_trial_batches(
    module: TrainingModule, loaders: TrainingDataModule, precision: Precision, device: torch.device
) -> list[str]:
    """Run forward and backward on a few batches, in the run's precision; return torch's graph breaks."""
    from torch._dynamo.utils import counters

    breaks_before = Counter(counters["graph_break"])
    model, weight_type = module.model.to(device).train(), next(module.model.parameters()).dtype
    precision.convert_module(model)
    try:
        with keep_random_state(device):
            for rows in itertools.islice(loaders.batches, NUM_TRIAL_BATCHES):
                batch = collate([loaders.train_rows[row] for row in rows])
                compute_gradients(model, module, batch, precision, device)
                model.zero_grad()  # a CUDA graph writes the next ones where these are
    finally:
        model.zero_grad()
        model.to("cpu", weight_type)
    return [line.partition("\n")[0] for line in Counter(counters["graph_break"]) - breaks_before]
