"""Decodes batches with a model, and turns what the search finds into predictions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from attnx import accel
from attnx.data.batches import Batch
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import EOS, NO_LABEL, Vocabulary
from attnx.decoding.contracts import Search, StepModel
from attnx.decoding.greedy import Greedy
from attnx.decoding.search import ConstrainedSearch
from attnx.errors import UserError
from attnx.metrics.nearest_reference import nearest_reference
from attnx.runs.alignments import END, Alignment
from attnx.tasks.contract import SequenceData, SequenceTask, TaskOutput


class Prediction(NamedTuple):
    """One decoded example."""

    pair: Pair  #: the example
    output: TaskOutput  #: symbols, or a matrix in the data's units
    log_probability: float  #: of the output with its EOS; for a matrix, of its length
    #: attention weights (t, m), or (h, t, m) with several heads; None without attention
    weights: np.ndarray[Any, np.dtype[np.float32]] | None
    num_decoder_states: int = 0  #: how many of the m positions, the last ones, are decoder states
    score: float = math.nan  #: what the search ranks it by
    alternatives: tuple[Prediction, ...] = ()  #: the next best hypotheses, best first
    #: the symbols by which decoder states go, if they are not the output: what the model wrote, where some symbols were
    #: replaced afterwards, or what it read, where the output labels that
    model_output: tuple[str, ...] | None = None
    is_cut: bool = False  #: whether the output ended at its length limit, and not by itself; False for numbers
    #: the output as the text that ``attnx predict`` writes; "" of a matrix, and where no task has read it
    text: str = ""

    def state_names(self, steps: Sequence[str]) -> Sequence[str]:
        """The names of the decoder states, after the steps that wrote them; ``steps`` are the rows' names."""
        names = steps if self.model_output is None else (*self.model_output, END)
        return names[: self.num_decoder_states]

    def __repr__(self) -> str:
        output = (
            repr(self.text or " ".join(self.output)) if isinstance(self.output, list) else f"matrix {self.output.shape}"
        )
        return f"Prediction({output}, log_probability={self.log_probability:.4g})"

    def with_text(self, task: SequenceTask) -> Prediction:
        """The same with the text of the output, and of the alternatives'."""
        text = task.detokenize(self.output) if isinstance(self.output, list) else ""
        return self._replace(text=text, alternatives=tuple(item.with_text(task) for item in self.alternatives))

    @property
    def alignment(self) -> Alignment | None:
        """The weights with their symbols, to draw and to measure; None without weights.

        The mean over heads and each head, if there are several. A decoder state goes by its output. Whether it is right
        is left open: an output of :meth:`TrainedRun.predict` has no reference.
        """
        if self.weights is None:
            return None
        states, has_heads = self.num_decoder_states, self.weights.ndim == 3
        if self.pair.target is None:
            assert isinstance(self.output, list)
            output = (*self.output, END)[: self.weights.shape[-2]]
            reference = tuple(nearest_reference(self.output, self.pair.references)[1])
        else:  # the reference names steps of matrices
            (reference,) = self.pair.references
            numbers = range(len(reference), len(self.output))
            output = (*reference, *map(str, numbers))[: len(self.output)]
        source = self.pair.source if self.weights.shape[-1] > states else ()
        return Alignment(
            weights=self.weights.mean(0) if has_heads else self.weights,
            source=(*source, *self.state_names(output)),
            output=output,
            reference=reference,
            num_decoder_states=states,
            name=self.pair.name,
            is_numeric=self.pair.target is not None,
            heads=self.weights if has_heads else None,
            score=None if math.isnan(self.score) else self.score,
            log_probability=None if math.isnan(self.log_probability) else self.log_probability,
        )

    def scored_alignment(self, task: SequenceTask) -> Alignment | None:
        """The alignment, which says whether the task takes the output for right."""
        alignment = self.alignment
        return alignment and alignment._replace(is_right=task.is_right(self.output, self.pair))

    def with_pair(self, pair: Any) -> Prediction:
        """The prediction and its alternatives with another pair; None keeps the data out of what is sent."""
        alternatives = tuple(alternative.with_pair(pair) for alternative in self.alternatives)
        return self._replace(pair=pair, alternatives=alternatives)

    def _repr_html_(self) -> str:
        """What a notebook shows: the outputs, and the attention weights, if they are few enough."""
        from attnx.reports.pages.notebook import has_room, heat_map

        table, alignment = Predictions([self, *self.alternatives])._repr_html_(), self.alignment
        if alignment is None or not has_room(alignment.weights):
            return table
        return table + heat_map(alignment.weights, alignment.source, alignment.output)


class Predictions(list[Prediction]):
    """Predictions in the order of their sources; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        from attnx.reports.pages.notebook import html_table

        rows = []
        for item in self:
            output = item.output
            text = " ".join(output) if isinstance(output, list) else f"{len(output)} steps of {output.shape[1]} numbers"
            rows.append((item.pair.name or " ".join(item.pair.source), text, f"{item.log_probability:.4g}"))
        return html_table(("source", "output", "log-probability"), rows)


@dataclass
class Predictor:
    """Decodes with a model; the task says whether a source is how its target begins.

    Raises:
        UserError: the decoding cannot decode with such a model.
    """

    model: nn.Module
    task: SequenceTask
    data: SequenceData
    decoding: Search

    def __post_init__(self) -> None:
        self.decoding.check(cast("StepModel", self.model))
        if self.task.has_step_labels and not isinstance(self.decoding, Greedy):
            raise UserError(
                "the task labels the steps of what it reads, one label each, and decodes nothing; leave decoding and "
                "nbest out"
            )
        if isinstance(self.decoding, ConstrainedSearch):
            self.decoding = self.decoding.with_limit(self.data.output_limit)

    @property
    def limit_text(self) -> str:
        """The most steps of an output as text; empty unless outputs are symbols that end by themselves."""
        search, task, target = self.decoding, self.task, cast("StepModel", self.model).target
        if not isinstance(search, ConstrainedSearch) or not isinstance(self.data.target, Vocabulary):
            return ""
        if target.steps is not None or task.has_labels or task.is_continuation:
            return ""
        return f"{search.max_length_ratio:g} times the source plus {search.max_length_extra} steps"

    def cut_notes(self, predictions: Sequence[Prediction]) -> list[str]:
        """Say how many outputs ended at their length limit, and not by themselves."""
        count, limit = sum(prediction.is_cut for prediction in predictions), self.limit_text
        if not count or not limit:
            return []
        outputs = f"{count:,} of {len(predictions):,} outputs of the test"
        return [f"{outputs} did not end by themselves but at their limit, {limit}; decoding.max_length_ratio raises it"]

    def decode_batch(
        self, pairs: Sequence[Pair], batch: Batch, need_weights: bool = False, **options: Any
    ) -> list[Prediction]:
        """Decode a batch made of ``pairs``; ``options``, such as a prefix, go to the decoding."""
        model = cast("StepModel", self.model)
        if self.task.has_step_labels:
            return self._label_steps(pairs, batch, need_weights)
        if self.task.is_continuation:  # the source is the beginning of the target
            options = {"prefix": batch.source, **options}
        source, _ = model.target.prepare(batch.source)
        decoder = accel.fused_decoder(model)
        result = self.decoding(decoder, source, batch.source_mask, batch.tag, need_weights, **options)
        result = result._replace(sequences=model.target.restore(result.sequences, batch.source))
        first_state = batch.source.shape[1] if "encoder" in model.sources else 0
        predictions = []
        for pair, *row in zip(pairs, *map(_split_rows, result), strict=False):
            hypotheses = []
            for output, steps, log_probability, score, weights in zip(*row, strict=False):
                if not steps:  # an empty slot
                    continue
                is_cut = isinstance(self.data.target, Vocabulary) and output[steps - 1] != EOS
                written = self.data.target.decode(output[:steps])
                hypothesis = Prediction(pair, written, log_probability, None, 0, score, is_cut=is_cut)
                hypotheses.append(_with_weights(hypothesis, weights, steps, first_state))
            if not hypotheses:
                raise UserError("the model's outputs are not numbers; its weights may be damaged, or overflow 16 bits")
            predictions.append(hypotheses[0]._replace(alternatives=tuple(hypotheses[1:])))
        return predictions

    @torch.no_grad()
    def _label_steps(self, pairs: Sequence[Pair], batch: Batch, need_weights: bool) -> list[Prediction]:
        """The likeliest label of each step that counts, given the right inputs; of all steps without a loss mask."""
        target, vocabulary = cast("StepModel", self.model).target, self.data.target
        assert isinstance(vocabulary, Vocabulary), "numbers are no labels"
        mask = batch.source_mask if batch.loss_mask is None else batch.loss_mask
        inputs = target.decoder_inputs(batch.source, batch.target)
        output = self.model(batch.source, batch.source_mask, inputs, batch.tag, need_weights, output_mask=mask)
        best = target.greedy(target.predict(output.logits))
        counts = mask.sum(1).tolist()
        predictions = []
        for row, (labels, scores) in enumerate(
            zip(torch.split(best.output, counts), torch.split(best.score, counts), strict=True)
        ):
            symbols = iter(vocabulary.decode(labels.tolist()))
            steps = mask[row, : len(pairs[row].source)].tolist()
            written = [str(next(symbols)) if is_labeled else NO_LABEL for is_labeled in steps]
            total = float(scores.double().sum())
            prediction = Prediction(pairs[row], written, total, None, 0, total, model_output=pairs[row].source)
            weights = None if output.weights is None else output.weights[row].float().cpu().numpy()
            predictions.append(_with_weights(prediction, weights, len(steps), 0))
        return predictions


def _split_rows(field: Tensor | None) -> Iterable[Any]:
    """A field of a search result, row by row; None for every hypothesis where it was not computed."""
    if field is None:
        return itertools.repeat(itertools.repeat(None))
    # Python numbers are faster to use one by one.
    is_small = field.dim() == 2 or not field.is_floating_point()
    return cast("Iterable[Any]", field.tolist() if is_small else field.float().cpu().numpy())


def _with_weights(prediction: Prediction, weights: Any, steps: int, first_state: int) -> Prediction:
    """Add attention weights (t, m) or (h, t, m) without the padding of outputs, sources and decoder states."""
    if weights is None:
        return prediction
    sources = len(prediction.pair.source) if first_state else 0
    states = min(steps, weights.shape[-1] - first_state)
    columns = [*range(sources), *range(first_state, first_state + states)]
    return prediction._replace(weights=weights[..., :steps, :][..., columns], num_decoder_states=states)


def loss_results(stage: str, mean: Tensor, target: Vocabulary | FeatureScaler) -> dict[str, Tensor]:
    """A mean loss by its name in the results; of symbols with its exponential, the perplexity."""
    perplexity = {f"{stage}_perplexity": mean.exp()} if isinstance(target, Vocabulary) else {}
    return {f"{stage}_loss": mean, **perplexity}


def metric_results(stage: str, metrics: nn.ModuleDict) -> dict[str, Any]:
    """The values of metrics by their names in the results, ``test_per``, and ``test_per_fra`` of a tag that occurs."""
    return {
        result_name(stage, name, entry): value
        for name, metric in metrics.items()
        for entry, value in metric_entries(metric).items()
        if not (entry and math.isnan(value))
    }


def metric_entries(metric: nn.Module) -> Mapping[str, Any]:
    """What a metric computes, by name; ``""`` is the name of all examples together."""
    value = metric.compute()  # type: ignore[operator]
    return value if isinstance(value, Mapping) else {"": value}


def result_name(stage: str, metric: str, entry: str) -> str:
    """The name of an entry of a metric in the results: ``test_per_fra``."""
    return f"{stage}_{metric}{entry and '_' + entry}"
