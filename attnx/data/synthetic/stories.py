"""A story, a question about it and the answer, and how they stand in one sequence of symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from attnx.data.examples import Symbols
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError, reject_duplicates, suggest

END, ASKED = ".", "?"


class Story(NamedTuple):
    """What a question is asked about, and what is right.

    Attributes:
        sentences: words of each, in order.
        question: its words.
        answer: one symbol, however many words it names: ``apple,milk``.
        whole: what tells the story apart from others; questions about one story share it.
    """

    sentences: tuple[Symbols, ...]
    question: Symbols
    answer: str
    whole: str

    @property
    def symbols(self) -> Symbols:
        """One sequence: each sentence and a full stop, the question and its mark."""
        return (*(word for sentence in self.sentences for word in (*sentence, END)), *self.question, ASKED)


class Stories(Protocol):
    """Where stories come from."""

    @property
    def tags(self) -> list[str]:
        """What each kind of them is called."""
        ...

    def train(self, tag: str) -> list[Story]:
        """Those of a kind to train on, and to validate on."""
        ...

    def test(self, tag: str) -> list[Story]:
        """Those of a kind to test on."""
        ...

    def other(self, named: str | int) -> list[Story]:
        """Others to test on, of the first kind, as ``task.test`` names them."""
        ...


def words(text: str) -> Symbols:
    """The words of a sentence in small letters, since names are written either way.

    >>> words("What is gertrude afraid of? ")
    ('what', 'is', 'gertrude', 'afraid', 'of')
    """
    return tuple(text.lower().rstrip(f"{END}{ASKED} \t").split())


def symbols_of(text: str) -> Symbols:
    """A story with its question as one line of text -> symbols.

    >>> symbols_of("Mary went home. Where is Mary?")
    ('mary', 'went', 'home', '.', 'where', 'is', 'mary', '?')

    Raises:
        UserError: it does not end with a question.
    """
    *sentences, question = (words(piece) for piece in re.split(r"\.(?=\s|$)", text))
    if not question:
        raise UserError(f"{text!r}: a story ends with its question: Mary went home. Where is Mary?")
    return Story(tuple(filter(None, sentences)), question, "", "").symbols


def source_vocabulary(sources: Iterable[Symbols], entities: Sequence[str] = ()) -> Vocabulary:
    """The symbols of stories: behind the specials the full stop, then the entities in their order, then the others.

    Raises:
        UserError: an entity is named twice, or is not a word of the stories.
    """
    known = set(Vocabulary.of(sources).symbols[len(SPECIALS) :]) | {END}
    for entity in entities:
        if entity not in known:
            raise UserError(f"task.entities: no story holds the word {entity!r}{suggest(entity, known)}")
    reject_duplicates("task.entities", entities, "word")
    first = (END, *entities)
    return Vocabulary((*SPECIALS, *first, *sorted(known - set(first))))
