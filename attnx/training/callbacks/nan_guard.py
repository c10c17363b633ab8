"""Stop a run whose loss is NaN or infinite, save the batch, name the part, and note at which batch any error arose."""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attnx import registry
from attnx.accel.modules import PLAIN
from attnx.data.batches import Batch
from attnx.data.vocabulary import Vocabulary
from attnx.errors import RunFailed
from attnx.files.atomic_files import atomic_write
from attnx.files.parse_number import count_phrase
from attnx.laws.candidate import Candidate
from attnx.registry.part import KINDS
from attnx.runs.layout import BAD_BATCH
from attnx.tasks.contract import SequenceData
from attnx.tasks.loss import token_loss
from attnx.training.distributed import process_group

# How many row numbers, and how many characters of the first row, a message holds.
MAX_ROWS, MAX_CHARACTERS = 8, 60
# How the note begins that is added to an exception; see :mod:`attnx.training.failure_report`.
STEP_NOTE_PREFIX = "at step"
PHASES = {"train": "in training", "validate": "in validation", "test": "in the test"}


class NanGuard(Callback):
    """Raises as soon as a training loss is NaN or infinite, before the optimizer spreads it into the weights.

    The loss is the mean over all ranks, so all raise after the same step. The message comes from the first rank whose
    own loss was not finite.
    """

    def __init__(self, folder: Path, data: SequenceData) -> None:
        self.folder, self.data = folder, data
        self._loss = torch.zeros(())  # of this step, on the CPU
        self._copy_end: torch.cuda.Event | None = None  # where a GPU has to copy it first

    def on_before_backward(self, trainer: Trainer, pl_module: Any, loss: Any) -> None:
        """Have the loss copied to the CPU."""
        self._loss = loss.detach().to("cpu", non_blocking=True)
        if loss.is_cuda:
            self._copy_end = torch.cuda.current_stream().record_event()

    def on_after_backward(self, trainer: Trainer, pl_module: Any) -> None:
        """Check the loss. A GPU is computing the gradients meanwhile, so the wait for the loss costs no time."""
        if self._copy_end is not None:
            self._copy_end.synchronize()
        if torch.isfinite(self._loss):
            return
        is_cause = trainer.world_size == 1 or not torch.isfinite(pl_module.local_loss)
        messages = process_group.gather_on_main(self._explain(trainer, pl_module) if is_cause else "")
        message = process_group.broadcast_from_main(lambda: next(filter(None, messages), "the loss is not finite"))
        raise RunFailed(message)

    def _explain(self, trainer: Trainer, pl_module: Any) -> str:
        """Save the batch of this rank, and say what is known of its loss."""
        batch: Batch = pl_module.batch
        value, rows = float(self._loss), [max(row, ~row) for row in batch.row_index.tolist()]  # ~row of a dummy row
        row_list = ", ".join(map(str, rows[:MAX_ROWS])) + (", ..." if len(rows) > MAX_ROWS else "")
        file = self.folder / (BAD_BATCH if trainer.is_global_zero else f"{trainer.global_rank}-{BAD_BATCH}")
        first = f"{int(batch.source_mask[0].sum())} steps"
        if isinstance(self.data.source, Vocabulary):
            symbols = " ".join(self.data.source.decode(batch.source[0].tolist()))
            first = repr(symbols if len(symbols) <= MAX_CHARACTERS else symbols[:MAX_CHARACTERS] + "...")
        try:
            self._save_batch(batch, file, value, trainer)
            saved = f"the batch is in {file}"
        except OSError as error:
            saved = f"the batch could not be saved ({error.strerror})"
        with trainer.precision_plugin.train_step_context():
            origin = first_not_finite(pl_module.model, lambda: token_loss(pl_module.model, batch))
        return (
            f"the loss became {value} {STEP_NOTE_PREFIX} {trainer.global_step}, in a batch of "
            f"{count_phrase(len(rows), 'row')} ({row_list}; the first: {first})"
            f"{origin and f'; {origin}'}; {saved}; "
            "start a new run with a lower optimizer.lr or trainer.gradient_clip_val"
        )

    def _save_batch(self, batch: Batch, file: Path, loss: float, trainer: Trainer) -> None:
        """Save the batch as plain values, which ``torch.load(file, weights_only=True)`` opens."""
        texts = {
            name: [vocabulary.decode(row.tolist()) for row in ids.cpu()]
            for name, vocabulary, ids in (
                ("source_symbols", self.data.source, batch.source),
                ("target_symbols", self.data.target, batch.target),
            )
            if isinstance(vocabulary, Vocabulary)
        }
        tensors = {name: value.detach().cpu() for name, value in batch._asdict().items() if value is not None}
        position = {"step": trainer.global_step, "epoch": trainer.current_epoch, "batch": trainer.fit_loop.batch_idx}
        with atomic_write(file) as partial, partial.open("wb") as opened:
            torch.save({"loss": loss, **position, "rows": tensors["row_index"].tolist(), **texts, **tensors}, opened)

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        """Note at which batch it arose."""
        batch: Batch | None = pl_module.batch
        if batch is not None and trainer.state.stage is not None:
            rows, source_length = batch.source.shape[:2]
            exception.add_note(
                f"{STEP_NOTE_PREFIX} {trainer.global_step}, {PHASES[trainer.state.stage]}, with a batch of {rows} rows "
                f"of up to {source_length} source and {batch.target.shape[1]} target positions"
            )


def first_not_finite(model: nn.Module, compute: Callable[[], Any]) -> str:
    """A clause on the first module whose output is not finite in a forward pass: path, part, line; "" if none is."""
    if bad_weights := [name for name, weight in model.named_parameters() if not bool(weight.isfinite().all())]:
        return (
            f"weights were not finite before this step ({bad_weights[0]}), so a gradient of the previous step was not"
        )
    outputs: list[tuple[str, nn.Module, str]] = []  # path, module and method of the first one

    def check_output(path: str, module: nn.Module, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            output = method(*args, **kwargs)
            tensors = (leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point())
            if not outputs and not all(bool(tensor.isfinite().all()) for tensor in tensors):
                outputs.append((path, module, name))
            return output

        return call

    with ExitStack() as stack, torch.no_grad():
        for path, module in model.named_modules():
            for name in _public_methods(module):
                setattr(module, name, check_output(path, module, name, getattr(module, name)))
                stack.callback(delattr, module, name)
        compute()
    if not outputs:
        return ""
    path, module, method = outputs[0]
    return _describe(path, module, method, model)


def _public_methods(module: nn.Module) -> set[str]:
    """A module's forward, and its other public methods, such as a scorer's ``score``."""
    classes = type(module).__mro__[: type(module).__mro__.index(nn.Module)]
    functions = {name for cls in classes for name, item in vars(cls).items() if isinstance(item, types.FunctionType)}
    return {name for name in functions if not name.startswith("_")} - vars(module).keys()


def _describe(path: str, module: nn.Module, method: str, model: nn.Module) -> str:
    """A module by its path, and the registered part that it is or belongs to."""
    names = path.split(".") if path else []
    first = f"the first output that is not finite is of {path or 'the model'}.{method}"
    for depth in range(len(names), -1, -1):
        part = model.get_submodule(".".join(names[:depth]))
        cls = PLAIN.get(type(part), type(part))
        for kind in KINDS:
            name = registry.registered_name(kind, cls)
            if name is not None:
                location = Candidate(kind, name).location(method if part is module else "")
                return f"{first}: the {kind} {name!r}, {location}"
    return f"{first}, a {type(module).__name__}"
