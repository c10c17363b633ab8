"""A trained run: predicts from sources, with its own decoding or another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import nn

from attnx import registry
from attnx.data.batches import as_batch
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler, Matrix
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.process_state import default_dtype
from attnx.inference.predictor import Prediction, Predictions, Predictor
from attnx.inference.unk_replacement import unknown_positions, with_copies
from attnx.models.resolve import part_declarations
from attnx.registry import PartSpec
from attnx.runs.run import read_run

Unknown = Literal["replace", "refuse", "keep"]
# Sources decoded at once; it changes no result.
BATCH_SIZE = 128


@dataclass(repr=False)
class TrainedRun(Predictor):
    """A run, or an ensemble of runs, with its trained model, which predicts in evaluation mode."""

    folder: Path  #: the run folder; an ensemble has the first one
    config: dict[str, Any]  #: the configuration, with the ``decoding`` in use
    sites: Sequence[str] = ()  #: what each map of attention weights is of, where that needs a name

    def __repr__(self) -> str:
        return f"TrainedRun({str(self.folder)!r})"

    def _repr_html_(self) -> str | None:
        """What a notebook shows of the run, or of an ensemble's first one; None if it cannot be read any more."""
        from attnx.decoding.ensemble import Ensemble
        from attnx.reports.pages.notebook import run_html

        remark = ""
        if isinstance(self.model, Ensemble):
            remark = f"the first of {count_phrase(len(self.model.members), 'run')} that predict together"
        try:
            return run_html(read_run(self.folder), remark)
        except UserError:
            return None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags (languages) of the training data."""
        return self.data.tags

    @property
    def source(self) -> Vocabulary | FeatureScaler:
        """The source vocabulary, or how features are scaled."""
        return self.data.source

    @property
    def target(self) -> Vocabulary | FeatureScaler:
        """The target vocabulary, or how features are scaled."""
        return self.data.target

    def predict(
        self,
        sources: Sequence[str | Matrix],
        tag: str = "",
        need_weights: bool = False,
        decoding: PartSpec | None = None,
        nbest: int | None = None,
        unknown: Unknown = "replace",
    ) -> Predictions:
        """Decode sources; the next best outputs of each are its ``alternatives``.

        Args:
            sources: texts as in the task's data, or matrices of features (s, f) in the data's units.
            tag: the language of all of them, if the run has several.
            need_weights: also return the attention weights.
            decoding: a decoding instead of the run's, ``"beam"`` or ``("beam", {"beam_size": 5})``.
            nbest: the number of outputs for each source.
            unknown: ``replace`` source symbols that are not in the vocabulary by the unknown symbol, ``refuse`` them,
                or ``keep`` them (:func:`attnx.inference.unk_replacement.with_copies`).

        Raises:
            UserError: a source is empty or of the wrong kind, an unknown tag, a refused symbol, or no such decoding.
        """
        if isinstance(sources, str) or not isinstance(sources, Iterable):
            raise UserError(f"{sources!r}: give a list of sources, as in predict([{sources!r}])")
        if unknown not in get_args(Unknown):
            raise UserError(f"unknown={unknown!r}: expected one of {', '.join(get_args(Unknown))}")
        self.check_tag(tag)
        run = self if decoding is None and nbest is None else self.with_decoding(decoding, nbest=nbest)
        if unknown == "keep":
            run.check_unk_replacement()
        pairs = [self.pair(source, tag, unknown) for source in sources]
        decoded = run.decode(pairs, need_weights, copies=unknown == "keep")
        return Predictions(prediction.with_text(self.task) for prediction in decoded)

    def with_decoding(self, decoding: PartSpec | None = None, nbest: int | None = None) -> TrainedRun:
        """The same run with another decoding; see :func:`attnx.decoding.select.choose_decoding`.

        Raises:
            UserError: there is no such decoding, or it cannot decode with this model.
        """
        config = choose_decoding(self.config["decoding"], decoding, nbest=nbest)
        return replace(self, decoding=registry.build("decoding", config), config={**self.config, "decoding": config})

    def decode(
        self, pairs: Sequence[Pair], need_weights: bool = False, batch_size: int = BATCH_SIZE, copies: bool = False
    ) -> list[Prediction]:
        """Decode pairs, and return the predictions in their order; sources of similar length are decoded together.

        ``copies`` copies unknown source symbols into the outputs.
        """
        order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index].source), pairs[index].source))
        predictions: dict[int, Prediction] = {}
        for start in range(0, len(order), batch_size):
            indices = order[start : start + batch_size]
            batch = [pairs[index] for index in indices]
            rows = self.data.evaluation_dataset(batch)
            with evaluation_mode(self.model):
                decoded = self.decode_batch(batch, as_batch(rows), need_weights or copies)
            if copies:
                assert isinstance(self.source, Vocabulary)
                decoded = [with_copies(prediction, self.source) for prediction in decoded]
            predictions.update(zip(indices, decoded, strict=True))
        return [predictions[index] for index in range(len(pairs))]

    def pair(self, source: str | Matrix, tag: str = "", unknown: Unknown = "replace") -> Pair:
        """The pair to decode for a source; the arguments are as in :meth:`predict`.

        Raises:
            UserError: the source is empty or of the wrong kind, or a symbol is unknown and refused.
        """
        if not isinstance(source, str) and not hasattr(source, "shape"):
            reads = "matrices" if isinstance(self.source, FeatureScaler) else "text, a word or a sentence each"
            raise UserError(f"cannot predict from {source!r}: this run reads {reads}")
        if not len(source):
            raise UserError("cannot predict from an empty source")
        if not isinstance(source, str):
            width = self.source.width if isinstance(self.source, FeatureScaler) else None
            if source.ndim != 2 or source.shape[1] != width:
                raise UserError(f"this run reads {self.source}, not a matrix of shape {source.shape}")
            if not np.isfinite(source).all():
                raise UserError("the matrix holds NaN or infinity; replace them first")
            self.task.check_source(source)
            return Pair(tuple(map(str, range(len(source)))), ((),), tag, features=source, target=self.empty_target)
        if isinstance(self.source, FeatureScaler):
            raise UserError(f"this run reads matrices of {self.source.width} features a step, not text")
        pair = Pair(self.task.tokenize(source, tag), ((),), tag, target=self.empty_target)
        if unknown == "refuse" and (positions := unknown_positions(pair.source, self.source)):
            symbols = ", ".join(dict.fromkeys(repr(pair.source[position]) for position in positions))
            raise UserError(f"this run does not know {symbols}")
        return pair

    def check_tag(self, tag: str) -> None:
        """Refuse a tag that is not one of the run's."""
        tags = self.tags
        if tags and not tag:
            raise UserError(f"this run has several tags: choose one of {', '.join(tags)}")
        if tag not in (tags or ("",)):
            raise UserError(f"the tag {tag!r} is not one of this run's: {', '.join(tags) or 'it has none'}")

    def check_unk_replacement(self) -> None:
        """Refuse to copy unknown symbols unless sources and targets are symbols that attention aligns."""
        if not isinstance(self.source, Vocabulary) or not isinstance(self.target, Vocabulary):
            raise UserError("unknown=keep needs symbols as source and target; this run has matrices")
        has_symbol_weights = part_declarations(self.config, "model").get("has_symbol_weights", True)
        if missing := "the source" if not self.reads_source else "symbols" if not has_symbol_weights else "":
            raise UserError(
                f"unknown=keep copies symbols that attention reads; this run's attention does not read {missing}"
            )
        if self.task.has_labels:
            raise UserError("unknown=keep copies symbols into an output of several; this run's is one label")
        if not self.has_weights():
            raise UserError("unknown=keep needs attention weights, and the weights of these runs cannot be averaged")

    @property
    def reads_source(self) -> bool:
        """Whether there are attention weights over the source."""
        has_attention = self.config.get("attention", {}).get("name", "none") != "none"
        return has_attention and "encoder" in getattr(self.model, "sources", ())

    def has_weights(self) -> bool:
        """Whether predictions have attention weights; an ensemble of different models has none."""
        tag = next(iter(self.tags), "")
        if isinstance(self.source, FeatureScaler):
            pair = self.pair(np.zeros((self.task.num_source_steps, self.source.width), np.float32), tag)
        else:
            pair = Pair((self.source.symbols[-1],), ((),), tag, target=self.empty_target)
        return self.decode([pair], need_weights=True)[0].weights is not None

    @property
    def empty_target(self) -> Matrix | None:
        """The target of a source without a reference, if targets are matrices."""
        return np.zeros((1, self.target.width), np.float32) if isinstance(self.target, FeatureScaler) else None


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluate a model in a block, without gradients and in the dtype of its weights; its mode is restored."""
    trained = [module for module in model.modules() if module.training]
    try:
        # In inference mode torch counts no changes in place, so that an LSTM could not look its inputs up in a table.
        with default_dtype(next(model.parameters()).dtype), torch.no_grad():
            model.eval()
            yield
    finally:
        for module in trained:
            module.training = True
