"""Stories with a question and its answer, as one sequence of symbols; and stories of a simulated world.

In the world two agents move on a grid; the answer is an agent's position.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

from attnx.data.examples import Symbols
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError, reject_duplicates, suggest
from attnx.files.parse_number import parse_counts

FULL_STOP, QUESTION_MARK = ".", "?"
GRID_SIZE = 10
MAX_STEPS = 5
DIRECTIONS = {"n": (0, 1), "e": (1, 0), "s": (0, -1), "w": (-1, 0)}
AGENTS = ("agent1", "agent2")
NUM_INITIAL_STATEMENTS = 2 * len(AGENTS)
NUM_TEST_STORIES = 1000
MAX_REPEATED_DRAWS = 1000  # in a row: nearly all stories are drawn


class StoryQuestion(NamedTuple):
    """A story, a question about it, and the answer: one symbol, also of several words (``apple,milk``).

    All questions of a story share its ``full_text``, which decides on their part of the data.
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

    def shorten(self, count: int) -> StoryQuestion:
        """Return the question with the last ``count`` sentences of its story."""
        return self._replace(sentences=self.sentences[-count:])


def split_words(text: str) -> Symbols:
    """Return the lower-cased words of a sentence.

    >>> split_words("What is gertrude afraid of? ")
    ('what', 'is', 'gertrude', 'afraid', 'of')
    """
    return tuple(text.lower().rstrip(f"{FULL_STOP}{QUESTION_MARK} \t").split())


def parse_story(text: str) -> StoryQuestion:
    """Return a story and its question, without an answer, from one line.

    >>> parse_story("Mary went home. Where is Mary?").symbols
    ('mary', 'went', 'home', '.', 'where', 'is', 'mary', '?')

    Raises:
        UserError: there is no question at the end.
    """
    *sentences, question = (split_words(sentence) for sentence in re.split(r"\.(?=\s|$)", text))
    if not question:
        raise UserError(f"{text!r}: a story must end with a question: Mary went home. Where is Mary?")
    return StoryQuestion(tuple(filter(None, sentences)), question, "", "")


def source_vocabulary(sources: Iterable[Symbols], entities: Sequence[str] = ()) -> Vocabulary:
    """Build the vocabulary: specials, full stop, entities, other symbols; an unknown entity is a UserError."""
    symbols = {symbol for source in sources for symbol in source} | {FULL_STOP}
    for entity in entities:
        if entity not in symbols:
            raise UserError(f"task.entities: no story has the word {entity!r}{suggest(entity, symbols)}")
    reject_duplicates("task.entities", entities, "word")
    return Vocabulary.of([symbols], (FULL_STOP, *entities))


@dataclass
class Agent:
    """An agent's position, from (1,1) to (10,10), and direction."""

    name: str
    x: int
    y: int
    direction: str

    @property
    def position(self) -> str:
        """The position as one symbol."""
        return f"({self.x},{self.y})"

    @property
    def free_steps(self) -> int:
        """The number of steps to the edge of the grid."""
        return {"n": GRID_SIZE - self.y, "e": GRID_SIZE - self.x, "s": self.y - 1, "w": self.x - 1}[self.direction]

    def move(self, steps: int) -> None:
        """Move in the agent's direction."""
        dx, dy = DIRECTIONS[self.direction]
        self.x, self.y = self.x + steps * dx, self.y + steps * dy


@dataclass(frozen=True)
class World:
    """Stories from a seed; Henaff et al. 2017, section 5.1, https://arxiv.org/abs/1612.03969.

    First come the position and direction of each agent. Then a random agent turns or moves some steps. The paper does
    not say how far: here at most five steps, and an agent at the edge turns. A story has one of the numbers of
    ``statements``, each as often, all 5 or more; the same seed makes the same stories.
    """

    statements: Sequence[int]
    stories: int
    seed: int

    @property
    def tags(self) -> list[str]:
        """The only task."""
        return ["world"]

    def train(self, _tag: str, /) -> list[StoryQuestion]:
        """A question about either agent for each story; no story is in :meth:`test`."""
        return self._make_stories(self.statements, NUM_TEST_STORIES + self.stories)[len(AGENTS) * NUM_TEST_STORIES :]

    def test(self, _tag: str, other: int | Sequence[int] | str | None = None, /) -> list[StoryQuestion]:
        """The questions of 1,000 stories, or of as many with ``other`` numbers of sentences, which ``task.test`` names.

        Of the others only short ones are likely to be among the training stories.
        """
        if other is None:
            return self._make_stories(self.statements, NUM_TEST_STORIES)
        return self._make_stories(parse_counts("test", other, "sentences"), NUM_TEST_STORIES, "test")

    def shorten(self, story: StoryQuestion, _tag: str, /) -> StoryQuestion:
        """Return a story as it is read: all of it."""
        return story

    shorten_by_default = shorten

    def _make_stories(self, statements: Sequence[int], count: int, option: str = "statements") -> list[StoryQuestion]:
        """Return the questions of the first ``count`` distinct stories, of lengths that an option says."""
        if (fewest := min(statements)) <= NUM_INITIAL_STATEMENTS:
            raise UserError(
                f"task.{option}: {fewest} sentences; use more than {NUM_INITIAL_STATEMENTS}, which place the agents"
            )
        rng, lengths = random.Random(f"{self.seed} {' '.join(map(str, statements))}"), cycle(statements)
        worlds: dict[tuple[Symbols, ...], list[Agent]] = {}
        repeated = 0
        while len(worlds) < count:
            if repeated > MAX_REPEATED_DRAWS:
                raise UserError(
                    f"task.stories: there are hardly {count:,} different stories of {fewest} sentences; use fewer, or "
                    "longer ones"
                )
            agents = [
                Agent(name, _draw(rng, GRID_SIZE), _draw(rng, GRID_SIZE), _draw_direction(rng)) for name in AGENTS
            ]
            sentences = tuple(_draw_sentences(agents, next(lengths), rng))
            repeated = repeated + 1 if sentences in worlds else 0
            worlds.setdefault(sentences, agents)
        return [
            StoryQuestion(sentences, ("where", "is", agent.name), agent.position, " ".join(map(" ".join, sentences)))
            for sentences, agents in worlds.items()
            for agent in agents
        ]


def _draw_sentences(agents: list[Agent], statements: int, rng: random.Random) -> Iterator[Symbols]:
    for agent in agents:
        yield (agent.name, "is", "at", agent.position)
        yield (agent.name, f"faces-{agent.direction}")
    for _ in range(statements - NUM_INITIAL_STATEMENTS):
        agent = agents[_draw(rng, len(agents)) - 1]
        if agent.free_steps and rng.random() < 0.5:
            steps = _draw(rng, min(agent.free_steps, MAX_STEPS))
            agent.move(steps)
            yield (agent.name, f"moves-{steps}")
        else:
            agent.direction = _draw_direction(rng, agent.direction)
            yield (agent.name, f"faces-{agent.direction}")


def _draw(rng: random.Random, maximum: int) -> int:
    """Draw an integer from 1 to ``maximum``."""
    return 1 + int(rng.random() * maximum)


def _draw_direction(rng: random.Random, current: str = "") -> str:
    directions = [direction for direction in DIRECTIONS if direction != current]
    return directions[_draw(rng, len(directions)) - 1]
