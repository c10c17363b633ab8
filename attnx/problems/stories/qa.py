"""The task ``qa``: answer a question about a story, from bAbI or from a simulated world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn

from attnx.data.examples import Pair, Symbols
from attnx.data.splits import Splits, hold_out_missing
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.parse_number import parse_counts
from attnx.metrics.per_tag import MACRO, metrics_per_tag
from attnx.registry import PositiveInt, Probability, register
from attnx.tasks.contract import SequenceData, SequenceTask, check_splits, training_tags

from .babi import Babi
from .stories import StoryQuestion, World, parse_story, source_vocabulary


@register(
    "task",
    "qa",
    read_if={
        "statements": "data=world_model",
        "stories": "data=world_model",
        "world_seed": "data=world_model",
        "folder": "data=babi",
        "tasks": "data=babi",
        "sentences": "data=babi",
    },
    figures={"alignments": ".figures.draw_slots"},
)
class Qa(SequenceTask):
    """Read a story and a question; the answer is one symbol.

    Formula: ``minimize -log p(answer | story, question)``
    Source: bAbI: Weston et al. 2015, https://arxiv.org/abs/1502.05698; the world model: Henaff et al. 2017, section
        5.1, https://arxiv.org/abs/1612.03969

    ``data=babi`` reads ``tasks`` of ``folder`` (``$ATTNX_DATA/babi``, task 1), a question with the last 70
    ``sentences`` before it (130 in task 3). Several tasks are learned together and measured separately.
    ``data=world_model`` makes ``stories`` of two agents on a grid from ``world_seed``, each with ``statements``
    sentences (a number, a list, or a range such as ``5-40``, all equally often) and two questions; another 1,000 are
    the test split. ``test`` replaces the test split: a file in bAbI's format, or for the world numbers of statements. A
    ``holdout`` of the training stories is the valid split, by a hash of the full story. ``entities`` are words to which
    a model may tie the keys of its slots.

    A story is one sequence: the words of each sentence and a full stop, then the words of the question and its mark.
    """

    monitor = "valid_error"
    maximize = False
    # Not ``test``, which is numbers for the world.
    data_files = ("folder",)
    has_stories = True
    has_sentences = True
    has_labels = True
    for_models = ("entities",)

    def __init__(
        self,
        data: Literal["babi", "world_model"] = "babi",
        folder: str | None = None,
        tasks: list[PositiveInt] | None = None,
        sentences: PositiveInt | None = None,
        statements: PositiveInt | list[PositiveInt] | str | None = None,
        stories: PositiveInt | None = None,
        world_seed: PositiveInt | None = None,
        test: PositiveInt | list[PositiveInt] | str | None = None,
        holdout: Probability = 0.1,
        entities: list[str] | None = None,
        label_smoothing: Probability = 0.0,
    ) -> None:
        self.stories: Babi | World
        if data == "babi":
            self.stories = Babi(folder or "$ATTNX_DATA/babi", tasks or [1], sentences)
        else:
            self.stories = World(
                parse_counts("statements", statements or 10, "sentences"), stories or 10_000, world_seed or 1
            )
        if len(set(self.stories.tags)) < len(self.stories.tags):
            raise UserError(f"task.tasks={tasks}: name each task once")
        if test is not None and len(self.stories.tags) > 1:
            raise UserError(f"task.test={test} is one task, but task.tasks names {len(self.stories.tags)}; name one")
        self.test, self.holdout, self.label_smoothing = test, holdout, label_smoothing
        self.entities = [word.lower() for word in entities or []]

    def load(self) -> SequenceData:
        """Read or make the stories, and split them."""
        pairs: Splits[Pair] = Splits([], [], [])
        for tag in self.stories.tags:
            # All questions about a story are in one part.
            test = {"test": self.stories.test(tag, self.test)}
            stories = hold_out_missing(self.stories.train(tag), test, lambda story: story.full_text, self.holdout)
            for part, questions in zip(pairs, stories, strict=True):
                part += [self._make_pair(story, tag) for story in questions]
        check_splits(pairs)
        source = source_vocabulary((pair.source for pair in pairs.train), self.entities)
        target = Vocabulary.of(pair.references[0] for pair in pairs.train)
        tags = training_tags(pairs)
        self.monitor = f"valid_error_{MACRO}" if tags else "valid_error"
        return SequenceData(pairs, source, target, tags)

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        tag = self.stories.tags[0]
        return [self._make_pair(story, tag) for story in self.stories.test(tag, self.test)]

    def _make_pair(self, story: StoryQuestion, tag: str) -> Pair:
        source, identity = self.stories.shorten(story, tag).symbols, self.stories.shorten_by_default(story, tag).symbols
        pair = Pair(source, ((story.answer,),), tag if len(self.stories.tags) > 1 else "")
        return pair.identified_by(identity)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build the error rate, in percent; with several tasks, for each of them."""
        return metrics_per_tag({"error": "sequence_error_rate"}, tags)

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Tokenize the last sentences of a story and its question; a UserError if there is no question at the end."""
        return self.stories.shorten(parse_story(text), tag or self.stories.tags[0]).symbols
