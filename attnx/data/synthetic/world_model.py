"""Stories of two agents that walk over a grid: made from a seed, and the answer is where one of them stands."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from attnx.data.examples import Symbols
from attnx.data.synthetic.stories import Story
from attnx.errors import UserError

SIDE = 10
FARTHEST = 5
AHEAD = {"n": (0, 1), "e": (1, 0), "s": (0, -1), "w": (-1, 0)}
AGENTS = ("agent1", "agent2")
TOLD = 2 * len(AGENTS)  # sentences before anything happens
TESTED = 1000


@dataclass
class Agent:
    """Where an agent stands, from (1,1) to (10,10), and where it looks."""

    name: str
    x: int
    y: int
    faces: str

    @property
    def place(self) -> str:
        """As it is told, one symbol."""
        return f"({self.x},{self.y})"

    @property
    def room(self) -> int:
        """How many steps ahead it can go without leaving the grid."""
        across, along = AHEAD[self.faces]
        return {1: SIDE - self.x, -1: self.x - 1, 0: 0}[across] + {1: SIDE - self.y, -1: self.y - 1, 0: 0}[along]

    def move(self, steps: int) -> None:
        """Go ahead."""
        across, along = AHEAD[self.faces]
        self.x, self.y = self.x + steps * across, self.y + steps * along


@dataclass(frozen=True)
class World:
    """Stories from a seed; Henaff et al. 2017, section 5.1, https://arxiv.org/abs/1612.03969.

    Where each agent stands and looks is told first. Then an agent, chosen by chance, looks elsewhere or goes some
    steps ahead; that these are five at most, and that it turns where it cannot go on, is ours.

    Args:
        statements: how many sentences a story has, 5 or more.
        stories: how many there are to train on.
        seed: the same one makes the same stories.
    """

    statements: int
    stories: int
    seed: int

    @property
    def tags(self) -> list[str]:
        """One kind."""
        return ["world"]

    def train(self, tag: str) -> list[Story]:
        """A question after either agent, story by story; no story is tested on."""
        return self._made(self.statements, TESTED + self.stories)[len(AGENTS) * TESTED :]

    def test(self, tag: str) -> list[Story]:
        """The questions of 1,000 others."""
        return self._made(self.statements, TESTED)

    def other(self, named: str | int) -> list[Story]:
        """The questions of 1,000 stories with so many sentences."""
        if not str(named).isdecimal():
            raise UserError(f"task.test={named}: of the world model, expected how many sentences a story has")
        return self._made(int(named), TESTED)

    def _made(self, statements: int, count: int) -> list[Story]:
        """The first so many stories, no two alike."""
        if statements <= TOLD:
            raise UserError(
                f"a world of {statements} sentences: the first {TOLD} say where its agents are; ask for more"
            )
        chance = random.Random(f"{self.seed} {statements}")
        found: dict[tuple[Symbols, ...], list[Agent]] = {}
        while len(found) < count:
            agents = [Agent(name, _from_1(chance, SIDE), _from_1(chance, SIDE), _look(chance)) for name in AGENTS]
            told = tuple(_told(agents, statements, chance))
            found.setdefault(told, agents)
        return [
            Story(told, ("where", "is", agent.name), agent.place, " ".join(map(" ".join, told)))
            for told, agents in found.items()
            for agent in agents
        ]


def _told(agents: list[Agent], statements: int, chance: random.Random) -> Iterator[Symbols]:
    for agent in agents:
        yield (agent.name, "is", "at", agent.place)
        yield (agent.name, f"faces-{agent.faces}")
    for _ in range(statements - TOLD):
        agent = agents[_from_1(chance, len(agents)) - 1]
        if agent.room and chance.random() < 0.5:
            steps = _from_1(chance, min(agent.room, FARTHEST))
            agent.move(steps)
            yield (agent.name, f"moves-{steps}")
        else:
            agent.faces = _look(chance, agent.faces)
            yield (agent.name, f"faces-{agent.faces}")


def _from_1(chance: random.Random, most: int) -> int:
    return 1 + int(chance.random() * most)


def _look(chance: random.Random, but: str = "") -> str:
    ways = [way for way in AHEAD if way != but]
    return ways[_from_1(chance, len(ways)) - 1]
