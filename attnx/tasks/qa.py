"""The task ``qa``: answer a question about a story, bAbI's or one of agents that walk over a grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.readers.babi import Babi
from attnx.data.split import Splits, place
from attnx.data.synthetic.stories import Stories, Story, source_vocabulary, symbols_of
from attnx.data.synthetic.world_model import World
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO, metrics_per_tag, update_all
from attnx.registry import Positive, Probability, register
from attnx.tasks.protocols import SequenceData, tags_of


@register("task", "qa")
class Qa:
    """Read a story and a question, and write the answer: one symbol, right or wrong.

    Formula: ``minimize -log p(answer | story, question)``
    Source: bAbI: Weston et al. 2015, https://arxiv.org/abs/1502.05698; the world model: Henaff et al. 2017, section
        5.1, https://arxiv.org/abs/1612.03969

    With ``data=babi`` the ``tasks`` of ``folder`` are read (``$ATTNX_DATA/babi``, task 1), a question with the last 70
    ``sentences`` before it (130 in task 3). Several tasks are learned together, and errors are of each. With
    ``data=world_model`` so many ``stories`` of two agents on a grid are made from ``world_seed``, each with
    ``statements`` sentences and two questions; another 1,000 are tested on. ``test`` takes the place of the test part:
    a file of bAbI's format, or of the world how many statements its stories have. A ``holdout`` of the training stories
    validates, chosen by a hash of the whole story. ``entities`` are words that a model may tie its slots' keys to.

    A story is one sequence: the words of each sentence and a full stop, those of the question and its mark.
    """

    monitor = "valid_error"
    maximize = False
    data_files = ("folder", "test")
    reads_stories = True
    for_models = ("entities",)

    def __init__(
        self,
        data: Literal["babi", "world_model"] = "babi",
        folder: str | None = None,
        tasks: list[Positive] | None = None,
        sentences: Positive | None = None,
        statements: Positive | None = None,
        stories: Positive | None = None,
        world_seed: Positive | None = None,
        test: str | Positive | None = None,
        holdout: Probability = 0.1,
        entities: list[str] | None = None,
        smoothing: Probability = 0.0,
    ) -> None:
        of_babi = {"folder": folder, "tasks": tasks, "sentences": sentences}
        of_world = {"statements": statements, "stories": stories, "world_seed": world_seed}
        for knob, value in (of_world if data == "babi" else of_babi).items():
            if value is not None:
                other = "world_model" if data == "babi" else "babi"
                raise UserError(f"task.{knob}={value} is for task.data={other}; leave it out")
        self.told: Stories
        if data == "babi":
            self.told = Babi(folder or "$ATTNX_DATA/babi", tasks or [1], sentences)
        else:
            self.told = World(statements or 10, stories or 10_000, world_seed or 1)
        if len(set(self.told.tags)) < len(self.told.tags):
            raise UserError(f"task.tasks={tasks}: name each task once")
        if test is not None and len(self.told.tags) > 1:
            raise UserError(f"task.test={test} is of one task, but task.tasks names {len(self.told.tags)}; name one")
        self.test, self.holdout, self.smoothing = test, holdout, smoothing
        self.entities = [word.lower() for word in entities or []]

    def load(self) -> SequenceData:
        """Read or make the stories, and split them.

        Raises:
            UserError: a file is missing or malformed, with file and line; a part is empty; or an unknown entity.
        """
        pairs = Splits([], [], [])
        for tag in self.told.tags:
            for mine, more in zip(pairs, self._split(tag), strict=True):
                mine += more
        for name, part in pairs._asdict().items():
            if not part:
                raise UserError(f"the {name} part holds no questions; change task.holdout, or give more stories")
        source = source_vocabulary((pair.source for pair in pairs.train), self.entities)
        target = Vocabulary.of(pair.references[0] for pair in pairs.train)
        tags = tags_of(pairs)
        self.monitor = f"valid_error_{MACRO}" if tags else "valid_error"
        return SequenceData(pairs, source, target, tags)

    def test_pairs(self) -> list[Pair]:
        """The pairs of ``test``; what was trained on is not looked at."""
        assert self.test is not None
        return [self._pair(story, self.told.tags[0]) for story in self.told.other(self.test)]

    def _split(self, tag: str) -> Splits:
        """The parts of one kind of stories; all questions about a story are in one."""
        train: list[Pair] = []
        valid: list[Pair] = []
        for story in self.told.train(tag):
            (valid if place((story.whole,)) >= 1 - self.holdout else train).append(self._pair(story, tag))
        if self.test is not None:
            return Splits(train, valid, self.test_pairs())
        return Splits(train, valid, [self._pair(story, tag) for story in self.told.test(tag)])

    def _pair(self, story: Story, tag: str) -> Pair:
        return Pair(story.symbols, ((story.answer,),), tag if len(self.told.tags) > 1 else "")

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """The share of wrong answers, in percent; of several tasks for each of them."""
        return metrics_per_tag({"error": partial(registry.build, "metric", "sequence_error_rate")}, tags)

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the symbols written for each pair."""
        update_all(metrics, outputs, [pair.references for pair in pairs], [pair.tag for pair in pairs])

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A story and its question on one line, ``Mary went home. Where is Mary?``, as symbols.

        Raises:
            UserError: it does not end with a question.
        """
        return symbols_of(text)

    def text(self, symbols: Sequence[str]) -> str:
        """The answer."""
        return " ".join(symbols)

    def save(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""

    def restore(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""
