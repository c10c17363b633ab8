"""Loaders of a run: bucketed batches for training, a sample of examples for validation and test; their workers."""

from __future__ import annotations

import errno
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import synchronize
from typing import Any

import lightning
from torch import Tensor
from torch.utils.data import DataLoader

from attnx.data.batches import Batch, collate
from attnx.data.buckets import BucketBatches, ShardedBatchSampler, ShardedDataset, collate_shard
from attnx.data.dataset import Row, Rows
from attnx.data.sample import sample_examples
from attnx.errors import UserError, error_text
from attnx.files.process import interrupt_with_parent
from attnx.metrics.per_tag import MACRO
from attnx.tasks.contract import SequenceData
from attnx.training.distributed.devices import training_device
from attnx.training.distributed.process_group import rank_info

Loader = DataLoader[Row]

EVALUATION_FACTOR = 4
"""How much larger batches are that need no gradients."""
# Parts of the messages of PyTorch, multiprocessing and the system for full shared memory.
FULL_MEMORY_MESSAGES = ("shared memory", "unable to write to file </torch_", "Bus error")


class TrainingDataModule(lightning.LightningDataModule):
    """Loaders over a task's data; a resumed run continues at the batch where it stopped.

    A batch holds the rows of one optimizer step, dealt to ranks and accumulation steps: ``batches`` are those of all
    ranks, ``batch_sampler`` has this rank's share. So 2 ranks, or 2 accumulation steps, with batches of b rows learn
    the same as one with batches of 2b. The seed and the epoch decide on their order. All validation and test pairs are
    used.

    Raises:
        UserError: a temperature below 1, or for data without tags.
    """

    def __init__(self, data: SequenceData, trainer: Mapping[str, Any], seed: int) -> None:
        super().__init__()
        self.data, self.workers, temperature = data, trainer["num_workers"], trainer["tag_sampling_temperature"]
        if temperature < 1:
            raise UserError(f"trainer.tag_sampling_temperature={temperature:g} is below 1, which takes every row once")
        if temperature > 1 and not data.tags:
            raise UserError(
                f"trainer.tag_sampling_temperature={temperature:g} draws rows by their tags, but the data have none"
            )
        self.train_rows = data.train_dataset()
        info, accumulation_steps = rank_info(), trainer["accumulate_grad_batches"]
        self.tokens = trainer["batch_tokens"]
        self.size = None if self.tokens else trainer["batch_size"]
        self.batches = self._batches(
            self.train_rows,
            accumulation_steps * info.world_size,
            seed=seed,
            pool=trainer["bucket_pool_batches"],
            temperature=temperature,
        )
        self.batch_sampler = ShardedBatchSampler(self.batches, info.rank, info.world_size, accumulation_steps)
        self.valid_rows = data.evaluation_dataset(data.pairs.valid)
        self.test_rows = data.evaluation_dataset(data.pairs.test)
        # Pinned memory, from which a GPU copies asynchronously.
        self.has_pinned_memory = training_device(trainer).type == "cuda"

    @property
    def fingerprints(self) -> dict[str, str]:
        """A hash of the training, the validation and the test split, by its name in run.json."""
        return {
            "fingerprint": self.train_rows.fingerprint(),
            "valid_fingerprint": self.valid_rows.fingerprint(),
            "test_fingerprint": self.test_rows.fingerprint(),
        }

    def train_dataloader(self) -> Loader:
        """Bucketed batches, in an order that depends on seed and epoch alone."""
        return self._loader(self.train_rows, self.batch_sampler, self.workers)

    def val_dataloader(self) -> Loader:
        """The validation examples."""
        return self._evaluation_loader(self.valid_rows)

    def test_dataloader(self) -> Loader:
        """The test examples."""
        return self._evaluation_loader(self.test_rows)

    def _batches(self, rows: Rows, factor: int, **options: Any) -> BucketBatches:
        """Batches of ``factor`` times the trainer's size, in rows or in tokens."""
        size = None if self.size is None else min(self.size * factor, max(len(rows), 1))
        return BucketBatches(rows, size, self.tokens and self.tokens * factor, **options)

    def _evaluation_loader(self, rows: Rows) -> Loader:
        batches = self._batches(rows, EVALUATION_FACTOR * rank_info().world_size, shuffle=False)
        return self._loader(rows, ShardedBatchSampler(batches, rank_info().rank, rank_info().world_size))

    def _loader(self, rows: Rows, sampler: ShardedBatchSampler, workers: int = 0) -> Loader:
        is_unsharded = sampler.world_size * sampler.accumulation_steps == 1  # so there are no dummy rows
        dataset, collate_rows = (rows, collate) if is_unsharded else (ShardedDataset(rows), collate_shard)
        return DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=partial(collate_shared, collate_rows) if workers else collate_rows,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self.has_pinned_memory,
            worker_init_fn=begin_worker,
        )

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and the batches of it that are done."""
        assert self.trainer is not None
        progress = self.trainer.fit_loop.epoch_loop.batch_progress.current
        # Not `completed`, which lags by one: a run that stops at a batch's end has already learned from it.
        return {"epoch": self.trainer.current_epoch, "batches": progress.processed}  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Skip the batches of the epoch that are done."""
        done = state_dict["batches"] % len(self.batch_sampler)
        self.batch_sampler.resume(state_dict["epoch"] + (state_dict["batches"] > 0 and done == 0), done)


def draw_examples(data: SequenceData, trainer: Mapping[str, Any], monitor: str) -> SequenceData:
    """Draw the samples for validation and test: ``valid_examples`` and ``test_examples``.

    Raises:
        UserError: the monitor is a mean over tags, and a tag has no validation example.
    """
    count, parts = trainer["valid_examples"], data.pairs
    valid = sample_examples(parts.valid, count)
    if monitor.endswith(f"_{MACRO}"):
        mean = f"{monitor}, which selects the best weights, is the mean over {len(data.tags)} tags"
        if missing := sorted(set(data.tags) - {pair.tag for pair in parts.valid}):
            advice = "name a task.valid that has some, or hold out more examples"
            raise UserError(f"the validation split has no example of {missing[0]!r}, and {mean}; {advice}")
        if len({pair.tag for pair in valid}) < len(data.tags):
            raise UserError(f"trainer.valid_examples={count}: {mean}; set {len(data.tags)} or more, or null for all")
    test = sample_examples(parts.test, trainer["test_examples"])
    return replace(data, pairs=parts._replace(valid=valid, test=test))


def collate_shared(collate: Callable[[Sequence[Row]], Batch], rows: Sequence[Row]) -> Batch:
    """Collate a batch in shared memory.

    A tensor in a queue would be shared by the queue's thread, whose errors are lost; here they reach the main process.

    Raises:
        RuntimeError: shared memory is full.
    """
    batch = collate(rows)
    for tensor in batch:
        if isinstance(tensor, Tensor):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
    return batch


def begin_worker(worker_id: int) -> None:
    """Let the system kill this worker when its parent dies; it has nothing to save."""
    parent: Any = multiprocessing.parent_process()
    interrupt_with_parent(parent.pid, signal.SIGKILL)


def is_out_of_shared_memory(error: BaseException) -> bool:
    """Whether an exception is about full shared memory, by its message or the place it was raised at."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        frames = traceback.extract_tb(error.__traceback__)
        return bool(frames) and frames[-1].filename == synchronize.__file__
    return isinstance(error, RuntimeError) and any(message in error_text(error) for message in FULL_MEMORY_MESSAGES)
