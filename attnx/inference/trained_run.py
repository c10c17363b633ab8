"""A reopened run in use: sources in, predictions out, with its own search or another."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch

from attnx import registry
from attnx.data.examples import Pair
from attnx.data.features import Features, Matrix
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.decoding.select import choose_search
from attnx.errors import UserError
from attnx.inference.unk_replacement import unknown_in, with_copies
from attnx.registry import PartSpec
from attnx.training.lightning_module import Prediction, TrainingModule

Unknown = Literal["replace", "refuse", "keep"]
# How many sources are decoded at once; it changes no result.
BATCH = 128


@dataclass
class OpenRun:
    """A finished or interrupted run, ready to be used; or several that answer together.

    Attributes:
        folder: where it lies; of several the first.
        config: what it was composed of, ``search`` being the one in use.
        experiment: holds ``model``, ``task`` and ``data`` (the vocabularies; its pairs are not read again).
    """

    folder: Path
    config: dict[str, Any]
    experiment: TrainingModule

    @property
    def model(self) -> torch.nn.Module:
        """The model with its best weights, in evaluation mode."""
        return self.experiment.model

    @property
    def source(self) -> Vocabulary | Features:
        """The source vocabulary, or how features are scaled."""
        return self.experiment.data.source

    @property
    def target(self) -> Vocabulary | Features:
        """The target vocabulary, or how features are scaled."""
        return self.experiment.data.target

    def predict(
        self,
        sources: Sequence[str | Matrix],
        tag: str = "",
        need_weights: bool = False,
        search: PartSpec | None = None,
        nbest: int | None = None,
        unknown: Unknown = "replace",
    ) -> list[Prediction]:
        """Decode sources; the second best and further outputs are each one's ``others``.

        Args:
            sources: each a text, as the task's data hold it, or a matrix of features (s, f) in the data's own units.
            tag: the language of all of them, where the run knows several.
            need_weights: also return the attention weights.
            search: another search than the run's, ``"beam"`` or ``("beam", {"beam_size": 5})``.
            nbest: how many outputs to find for each.
            unknown: what to do with source symbols that the run does not know: ``replace`` them by the unknown symbol,
                ``refuse`` them, or ``keep`` them (:func:`attnx.inference.unk_replacement.with_copies`).

        Raises:
            UserError: a source is empty or of the wrong kind, the tag is not one that the run knows, a symbol is
                unknown and refused, or there is no such search.
        """
        if isinstance(sources, str) or not isinstance(sources, Iterable):
            raise UserError(f"{sources!r}: give a list of sources, as in predict([{sources!r}])")
        if unknown not in get_args(Unknown):
            raise UserError(f"unknown={unknown!r}: expected one of {', '.join(get_args(Unknown))}")
        self.check_tag(tag)
        run = self if search is None and nbest is None else self.searching(search, nbest=nbest)
        if unknown == "keep":
            run.check_copies()
        pairs = [self.pair(source, tag, unknown) for source in sources]
        return run.decode(pairs, need_weights, copies=unknown == "keep")

    def searching(self, search: PartSpec | None = None, nbest: int | None = None) -> OpenRun:
        """The same run with another search, as :func:`attnx.decoding.select.choose_search` says.

        Raises:
            UserError: there is no such search, or it is not for what this run writes.
        """
        chosen = choose_search(self.config["decoding"], search, nbest=nbest)
        experiment = copy.copy(self.experiment)
        experiment.search = registry.build("decoding", chosen)
        experiment.search.check(cast("StepModel", self.model))
        return replace(self, config={**self.config, "decoding": chosen}, experiment=experiment)

    def decode(
        self, pairs: Sequence[Pair], need_weights: bool = False, batch: int = BATCH, copies: bool = False
    ) -> list[Prediction]:
        """Decode pairs and return what was found, in their order; those of like length that begin alike go together.

        Args:
            pairs: from :meth:`pair`, or a task's.
            need_weights: also return the attention weights.
            batch: how many at once; it changes no result.
            copies: copy unknown source symbols into the outputs.
        """
        order = sorted(range(len(pairs)), key=lambda number: (len(pairs[number].source), pairs[number].source))
        found: dict[int, Prediction] = {}
        for start in range(0, len(order), batch):
            numbers = order[start : start + batch]
            chosen = [pairs[number] for number in numbers]
            rows = self.experiment.data.judged_rows(chosen)
            with torch.inference_mode():
                decoded = self.experiment.decode(chosen, rows.whole(), need_weights or copies)
            found.update(zip(numbers, map(self._copied, decoded) if copies else decoded, strict=True))
        return [found[number] for number in range(len(pairs))]

    def pair(self, source: str | Matrix, tag: str = "", unknown: Unknown = "replace") -> Pair:
        """What is decoded for a source; the arguments are those of :meth:`predict`.

        Raises:
            UserError: the source is empty or of the wrong kind, or a symbol is unknown and refused.
        """
        if not isinstance(source, str) and not hasattr(source, "shape"):
            reads = "matrices" if isinstance(self.source, Features) else "text, a word or a sentence each"
            raise UserError(f"cannot predict from {source!r}: this run reads {reads}")
        if not len(source):
            raise UserError("cannot predict from an empty source")
        width = self.source.width if isinstance(self.source, Features) else None
        if isinstance(source, str):
            if width is not None:
                raise UserError(f"this run reads matrices of {width} features a step, not text")
            pair = Pair(self.experiment.task.symbols(source, tag), ((),), tag, target=self._nothing)
            if unknown == "refuse":
                self._refuse_unknown(pair)
            return pair
        if width is None or source.ndim != 2 or source.shape[1] != width:
            raise UserError(f"this run reads {self.source}, not a matrix of shape {source.shape}")
        if not np.isfinite(source).all():
            raise UserError("the matrix holds NaN or infinity; fill them in before")
        if hasattr(self.experiment.task, "check_source"):
            self.experiment.task.check_source(source)
        return Pair(tuple(map(str, range(len(source)))), ((),), tag, features=source, target=self._nothing)

    def check_tag(self, tag: str) -> None:
        """See that a tag is one of the run's.

        Raises:
            UserError: it is not.
        """
        tags = self.experiment.data.tags
        if tags and not tag:
            raise UserError(f"this run knows several tags, and none is given: choose from {', '.join(tags)}")
        if tag not in (tags or ("",)):
            raise UserError(f"the tag {tag!r} is not one that this run knows: {', '.join(tags) or 'it has none'}")

    def check_copies(self) -> None:
        """See that unknown symbols can be copied: symbols are read and written, and attention says where from.

        Raises:
            UserError: they cannot.
        """
        if not isinstance(self.source, Vocabulary) or not isinstance(self.target, Vocabulary):
            raise UserError(
                "unknown symbols can be kept only where symbols are read and written; this run has matrices"
            )
        if not self.reads_source:
            raise UserError("unknown symbols are kept where attention read them, and this run's reads no source")
        if not registry.describe("model", self.config["model"]["name"]).properties.get("reads_symbols", True):
            raise UserError("unknown symbols are kept where attention read them, and this run's reads no symbols")
        if not self.gives_weights():
            raise UserError("unknown symbols are kept where attention read them, and these runs do not read alike")

    @property
    def reads_source(self) -> bool:
        """Whether there are attention weights over the source."""
        return self.config["attention"]["name"] != "none" and "encoder" in getattr(self.model, "sources", ())

    def gives_weights(self) -> bool:
        """Whether predictions come with attention weights: those of unlike runs that answer together have no mean."""
        tag = next(iter(self.experiment.data.tags), "")
        if isinstance(self.source, Features):
            pair = self.pair(np.zeros((1, self.source.width), np.float32), tag)
        else:
            pair = Pair((self.source.symbols[-1],), ((),), tag, target=self._nothing)
        return self.decode([pair], need_weights=True)[0].weights is not None

    def _copied(self, prediction: Prediction) -> Prediction:
        assert isinstance(self.source, Vocabulary)
        others = tuple(with_copies(other, self.source) for other in prediction.others)
        return with_copies(prediction, self.source)._replace(others=others)

    def _refuse_unknown(self, pair: Pair) -> None:
        assert isinstance(self.source, Vocabulary)
        if found := unknown_in(pair.source, self.source):
            symbols = ", ".join(dict.fromkeys(repr(pair.source[position]) for position in found))
            raise UserError(f"this run does not know {symbols}")

    @property
    def _nothing(self) -> Matrix | None:
        """The target of what is only asked for, where targets are matrices."""
        return np.zeros((1, self.target.width), np.float32) if isinstance(self.target, Features) else None
