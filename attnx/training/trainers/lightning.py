"""The trainer ``lightning``: the settings of training, and Lightning's trainer built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import lightning
import torch
from lightning.pytorch.callbacks import Callback

from attnx.registry import Natural, Positive, Rate, Time, register
from attnx.training.callbacks.atomic_checkpoint_io import AtomicCheckpointIO
from attnx.training.distributed.lightning_args import trainer_kwargs
from attnx.training.precision import set_tf32


@register("trainer", "lightning")
@dataclass(frozen=True)
class TrainerSettings:
    """Train with Lightning for a number of steps, epochs, or as many steps as fit into a time.

    Formula: ``steps = max_steps, else max_epochs * batches, else max_time / time of a step``
    Source: Lightning, https://lightning.ai/docs/pytorch/stable/common/trainer.html

    The first of ``max_steps``, ``max_epochs`` and ``max_time`` that is set decides. A run goes by the clock where a
    time (HH:MM:SS) ends it; in a sweep a time is measured once and becomes steps, equal for all jobs.
    ``num_validations`` is how many times a run validates, each time decoding ``valid_examples`` examples, and
    ``test_examples`` once at the end (null: all); these are a sample, the same in all runs on the same data.
    ``patience`` stops after so many validations without a better result, and the ``save_top_k`` best checkpoints stay.
    Between validations the last one is saved every ``checkpoint_every`` steps and ``checkpoint_minutes`` minutes,
    whichever comes first. A batch has ``batch_size`` rows, or with ``batch_tokens`` as many as that number holds when
    padded. So many batches of rows, a ``bucket_pool_batches``, are sorted by length together; with 1 rows of any
    lengths meet. ``tag_sampling_temperature`` above 1 draws rows of rare tags (languages) more often: in proportion to
    the number of their rows to the power of 1 / temperature. ``precision=tf32`` lets a GPU round the factors of its
    products to 10 bits. Every ``log_every_n_steps`` steps a logger, if there is one, gets a row.
    ``compile=steps`` has torch compile the steps of a loop over time, for which a run waits; ``graphs`` also records
    them as CUDA graphs.
    """

    max_steps: Positive | None = None
    max_epochs: Positive | None = None
    max_time: Time | None = "00:04:00"
    batch_size: Positive = 64
    batch_tokens: Positive | None = None
    bucket_pool_batches: Positive = 50
    tag_sampling_temperature: Rate = 1.0
    accumulate_grad_batches: Positive = 1
    num_validations: Positive = 6
    valid_examples: Positive | None = 500
    test_examples: Positive | None = None
    patience: Positive | None = None
    save_top_k: Positive = 1
    checkpoint_every: Positive | None = None
    checkpoint_minutes: Rate | None = 10.0
    log_every_n_steps: Positive = 10
    gradient_clip_val: Rate | None = 1.0
    precision: Literal[32, 64, "tf32", "bf16-mixed", "16-mixed"] = 32
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: Positive | None = 1
    num_nodes: Positive = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"
    num_workers: Natural = 0
    compile: Literal["off", "steps", "graphs"] = "off"

    def trainer(
        self, callbacks: list[Callback], total_steps: int, placed: Mapping[str, torch.device]
    ) -> lightning.Trainer:
        """Lightning's trainer.

        Args:
            callbacks: Lightning's and attnx's.
            total_steps: the length of the run.
            placed: the devices of model parts, by name; empty if the model is on one device.
        """
        set_tf32(self.precision)
        return lightning.Trainer(
            **trainer_kwargs(self.accelerator, self.devices, self.num_nodes, self.strategy, placed),
            precision=32 if self.precision == "tf32" else self.precision,
            max_steps=total_steps,
            max_epochs=-1,
            accumulate_grad_batches=self.accumulate_grad_batches,
            gradient_clip_val=self.gradient_clip_val,
            val_check_interval=1,  # FollowPlan chooses the steps to validate at, and the last step
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            callbacks=callbacks,
            plugins=[AtomicCheckpointIO()],
            logger=False,  # loggers are attnx.loggers
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=True,
        )
