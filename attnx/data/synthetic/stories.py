"""Stories with a question and its answer, as one sequence of symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from attnx.data.examples import Symbols
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError, reject_duplicates, suggest

FULL_STOP, QUESTION_MARK = ".", "?"


class StoryQuestion(NamedTuple):
    """A story, a question about it, and the answer.

    Attributes:
        answer: one symbol, also of several words: ``apple,milk``.
        full_text: the complete story, which all its questions share; decides on its part of the data.
    """

    sentences: tuple[Symbols, ...]
    question: Symbols
    answer: str
    full_text: str

    @property
    def symbols(self) -> Symbols:
        """One sequence: each sentence and a full stop, the question and its mark."""
        statements = (word for sentence in self.sentences for word in (*sentence, FULL_STOP))
        return (*statements, *self.question, QUESTION_MARK)


class StorySource(Protocol):
    """Stories of one or several tasks."""

    @property
    def tags(self) -> list[str]:
        """Names of the tasks."""
        ...

    def train(self, tag: str, /) -> list[StoryQuestion]:
        """Stories of a task for training and validation."""
        ...

    def test(self, tag: str, /) -> list[StoryQuestion]:
        """Stories of a task for testing."""
        ...

    def custom_test(self, test: str | int) -> list[StoryQuestion]:
        """Stories for testing as the option ``task.test`` says, of the first task."""
        ...


def split_words(text: str) -> Symbols:
    """Return the lower-cased words of a sentence.

    >>> split_words("What is gertrude afraid of? ")
    ('what', 'is', 'gertrude', 'afraid', 'of')
    """
    return tuple(text.lower().rstrip(f"{FULL_STOP}{QUESTION_MARK} \t").split())


def tokenize_story(text: str) -> Symbols:
    """Return the symbols of a story and its question on one line.

    >>> tokenize_story("Mary went home. Where is Mary?")
    ('mary', 'went', 'home', '.', 'where', 'is', 'mary', '?')

    Raises:
        UserError: there is no question at the end.
    """
    *sentences, question = (split_words(sentence) for sentence in re.split(r"\.(?=\s|$)", text))
    if not question:
        raise UserError(f"{text!r}: a story must end with a question: Mary went home. Where is Mary?")
    return StoryQuestion(tuple(filter(None, sentences)), question, "", "").symbols


def source_vocabulary(sources: Iterable[Symbols], entities: Sequence[str] = ()) -> Vocabulary:
    """Build the vocabulary of stories: specials, full stop, entities in their order, then the other symbols.

    Raises:
        UserError: an entity is listed twice, or is not a word of the stories.
    """
    symbols = set(Vocabulary.of(sources).symbols[len(SPECIALS) :]) | {FULL_STOP}
    for entity in entities:
        if entity not in symbols:
            raise UserError(f"task.entities: no story has the word {entity!r}{suggest(entity, symbols)}")
    reject_duplicates("task.entities", entities, "word")
    first = (FULL_STOP, *entities)
    return Vocabulary((*SPECIALS, *first, *sorted(symbols - set(first))))
