"""Pictures of attention for loggers: the same examples at each validation."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lightning import Callback, Trainer
from lightning.fabric.utilities import move_data_to_device

from attnx.data.batches import collate
from attnx.data.evenly_spaced import evenly_by_length
from attnx.errors import one_line
from attnx.loggers.contract import Loggers
from attnx.reports.figures.heatmaps import MAX_PANELS_ON_PAGE, draw_alignments_page, save_figure
from attnx.runs.layout import ALIGNMENTS_PICTURE
from attnx.training.loaders import TrainingDataModule


class HeatMaps(Callback):
    """Decodes the same validation examples at each validation, evenly from short to long, and shows their weights."""

    def __init__(self, loggers: Loggers, loaders: TrainingDataModule) -> None:
        pairs = loaders.data.pairs.valid
        indices = evenly_by_length([pair.source for pair in pairs], MAX_PANELS_ON_PAGE)
        self.pairs, self.rows = [pairs[index] for index in indices], [loaders.valid_rows[index] for index in indices]
        self.loggers = loggers

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Decode and draw; Lightning still evaluates, without gradients."""
        precision = trainer.precision_plugin
        batch = move_data_to_device(precision.convert_input(collate(self.rows)), pl_module.device)
        with precision.val_step_context():
            decoded = pl_module.predictor.decode_batch(self.pairs, batch, need_weights=True)
        alignments = [shown for prediction in decoded if (shown := prediction.scored_alignment(pl_module.task))]
        if not alignments:
            return
        try:
            with TemporaryDirectory() as folder:
                figure = draw_alignments_page(alignments)
                picture = save_figure(figure, Path(folder) / ALIGNMENTS_PICTURE)
                self.loggers.show(trainer.global_step, {"valid/alignments": picture})
        except OSError as error:  # such as a full disk: what is for loggers never stops a run
            self.loggers.report(f"no picture of attention for the loggers: {one_line(error)}")
