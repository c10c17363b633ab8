"""The trainer ``lightning``: the options of training, and Lightning's trainer built from them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from lightning import Callback, Trainer
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.profilers import AdvancedProfiler, PyTorchProfiler, SimpleProfiler
from lightning.pytorch.strategies import DDPStrategy

from attnx.registry import PositiveFloat, PositiveInt, Probability, Time, register
from attnx.runs.layout import CHECKPOINTS, PROFILE
from attnx.training.callbacks.checkpoint import AtomicCheckpointIO
from attnx.training.distributed.devices import training_device
from attnx.training.distributed.model_parallel import ModelParallelStrategy
from attnx.training.distributed.process_group import rank_info

PROFILERS = {"simple": SimpleProfiler, "advanced": AdvancedProfiler, "pytorch": PyTorchProfiler}


@register(
    "trainer",
    "lightning",
    read_if={
        "max_time": "max_steps=null max_epochs=null",
        "batch_size": "batch_tokens=null",
        "precision=tf32": "accelerator!=cpu",
        "min_improvement": "patience!=null",
    },
)
@dataclass(frozen=True)
class TrainerOptions:
    """Train with Lightning for a number of steps, epochs, or as many steps as fit into a time.

    Formula: ``steps = min(max_steps, max_epochs * batches), or if neither is set max_time / time of a step``
    Source: Lightning, https://lightning.ai/docs/pytorch/stable/common/trainer.html

    Training ends at the first of ``max_steps`` and ``max_epochs``, without both after ``max_time``. A run goes by the
    clock where a time (HH:MM:SS) ends it; in a sweep a time is measured once and becomes steps, equal for all jobs.
    ``num_validations`` is how many times a run validates, each time decoding ``valid_examples`` examples, and
    ``test_examples`` once at the end (null: all); these are a sample, the same in all runs on the same data.
    ``patience`` stops after so many validations without a better result, one that is better by the share
    ``min_improvement`` of the best, and the ``save_top_k`` best checkpoints stay. Between validations the last one is
    saved every ``checkpoint_every`` steps and ``checkpoint_minutes`` minutes, whichever comes first. A batch has
    ``batch_size`` rows, or with ``batch_tokens`` as many as that number holds when padded. ``bucket_pool_batches``
    batches of rows are sorted by length together, which saves padding; with 1, rows of any lengths are in a batch.
    ``precision=tf32`` lets a GPU round the factors of its products to 10 bits. ``ema=0.999`` validates, keeps and tests
    a moving average of the weights, which keeps 0.999 of itself at each step, less at the first ones. Every
    ``log_every_n_steps`` steps ``metrics.csv`` gets a row, and so do loggers. ``compile=steps`` has torch compile the
    steps of a loop over time, for which a run waits; ``graphs`` also records them as CUDA graphs, and ``model``
    compiles a transformer's pass. ``profiler`` is one of Lightning's, which writes into the run's folder ``profile``
    where the time goes: ``simple`` by call of the trainer, ``advanced`` by Python function, ``pytorch`` by torch's
    operator. ``pictures=false`` leaves out pictures, page and statistics of weights, which take a second or more when a
    run ends; ``attnx plot``, ``page`` and ``stats`` make them later.
    """

    max_steps: PositiveInt | None = None
    max_epochs: PositiveInt | None = None
    max_time: Time | None = "00:04:00"
    batch_size: PositiveInt = 64
    batch_tokens: PositiveInt | None = None
    bucket_pool_batches: PositiveInt = 50
    accumulate_grad_batches: PositiveInt = 1
    num_validations: PositiveInt = 6
    valid_examples: PositiveInt | None = 500
    test_examples: PositiveInt | None = None
    patience: PositiveInt | None = None
    min_improvement: Probability = 0.0
    save_top_k: PositiveInt = 1
    checkpoint_every: PositiveInt | None = None
    checkpoint_minutes: PositiveFloat | None = 10.0
    log_every_n_steps: PositiveInt = 50
    gradient_clip_val: PositiveFloat | None = 1.0
    ema: Probability | None = None
    precision: Literal[32, 64, "tf32", "bf16-mixed", "16-mixed"] = 32
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: PositiveInt | None = 1
    num_nodes: PositiveInt = 1
    compile: Literal["off", "steps", "graphs", "model"] = "off"
    profiler: Literal["simple", "advanced", "pytorch"] | None = None
    pictures: bool = True

    def trainer(
        self, callbacks: list[Callback], steps: int, placed: Mapping[str, torch.device], folder: Path
    ) -> Trainer:
        """Lightning's trainer of the run in a folder; ``placed`` has the devices of the model's placed parts."""
        set_tf32(self.precision)
        profiler = PROFILERS[self.profiler](folder / PROFILE, PROFILE) if self.profiler else None
        return Trainer(
            **self._devices(placed),
            precision=32 if self.precision == "tf32" else self.precision,
            max_steps=steps,
            max_epochs=-1,
            accumulate_grad_batches=self.accumulate_grad_batches,
            gradient_clip_val=self.gradient_clip_val,
            val_check_interval=1,  # StepPlanCallback chooses the steps to validate at, and the last step
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            inference_mode=False,  # as in evaluation_mode of attnx.inference
            callbacks=callbacks,
            profiler=profiler,
            plugins=[AtomicCheckpointIO(folder / CHECKPOINTS)],
            logger=False,  # loggers are attnx.loggers
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def _devices(self, placed: Mapping[str, torch.device]) -> dict[str, Any]:
        """Lightning's arguments for one device, for parts on devices of their own, or for one rank of several."""
        info = rank_info()
        if placed:
            kind = "gpu" if placed["decoder"].type == "cuda" else "cpu"
            index = [placed["decoder"].index] if kind == "gpu" else 1
            return {"accelerator": kind, "devices": index, "strategy": ModelParallelStrategy(placed)}
        if info.world_size == 1:
            return {"accelerator": training_device({"accelerator": self.accelerator}).type, "devices": 1}
        # It reads what `init_process_group` sets: Lightning must start no processes itself, on any cluster.
        environment = TorchElasticEnvironment()
        return {
            "accelerator": "gpu" if info.backend == "nccl" else "cpu",
            "devices": info.local_world_size,
            "num_nodes": self.num_nodes,
            "strategy": DDPStrategy(cluster_environment=environment, gradient_as_bucket_view=True),
        }


def set_tf32(precision: object) -> None:
    """Let a GPU round factors of products to 10 bits if ``precision=tf32``, in cuDNN's RNNs too."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def silence_warnings() -> None:
    """Silence Lightning's warnings about choices that attnx makes on purpose."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*your dataloader is not resumable.*",
        ".*sync_dist=True.*",  # values are summed over ranks before they are logged
        ".*overridden `on_after_batch_transfer`.*",  # the module remembers the batch
        ".*PyTorch Profiler default schedule will be overridden.*",  # of a validation with few batches
        ".*Profiler clears events at the end of each cycle.*",
        ".*The `srun` command is available.*",  # which a job needs only for several processes (docs/distributed.md)
        ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
    ):
        warnings.filterwarnings("ignore", message=message)
