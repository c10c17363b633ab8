"""The world model: answers follow from stories, by an independent simulation."""

from collections import Counter

import pytest

from attnx.data.examples import Symbols
from attnx.errors import UserError
from attnx.problems.stories import stories
from attnx.problems.stories.stories import World

# The example of Henaff et al. 2017, of which the answers were walked on paper: from (2,8) one north; from (9,7) two
# north, one east and five south.
PUBLISHED = """\
agent1 is at (2,8)
agent1 faces-n
agent2 is at (9,7)
agent2 faces-n
agent2 moves-2
agent2 faces-e
agent2 moves-1
agent1 moves-1
agent2 faces-s
agent2 moves-5"""


def final_positions(sentences: list[Symbols]) -> dict[str, tuple[int, int]]:
    """Where the agents are at last; they never leave the grid."""
    places: dict[str, tuple[int, int]] = {}
    looks: dict[str, str] = {}
    for name, *words in sentences:
        verb, _, what = words[0].partition("-")
        if verb == "is":
            x, y = map(int, words[2].strip("()").split(","))
            places[name] = x, y
        elif verb == "faces":
            assert looks.get(name) != what, "it turns elsewhere"
            looks[name] = what
        else:
            x, y = places[name]
            steps = int(what)
            assert 1 <= steps <= 5
            moved = {"n": (x, y + steps), "s": (x, y - steps), "e": (x + steps, y), "w": (x - steps, y)}
            places[name] = moved[looks[name]]
        assert all(1 <= coordinate <= 10 for coordinate in places[name])
    return places


def test_the_published_example_is_reproduced():
    expected = [tuple(line.split()) for line in PUBLISHED.splitlines()]
    assert final_positions(expected) == {"agent1": (2, 9), "agent2": (10, 4)}


@pytest.mark.parametrize("statements", [5, 10, 41])
def test_answers_follow_from_the_story(statements):
    stories = World([statements], 50, seed=3).train("world")
    assert len(stories) == 100
    for story in stories:
        assert len(story.sentences) == statements
        x, y = final_positions(list(story.sentences))[story.question[2]]
        assert story.answer == f"({x},{y})"
        assert story.question[:2] == ("where", "is")


def test_stories_use_both_agents_and_every_verb():
    stories = World([10], 300, seed=1).train("world")
    verbs = {word for story in stories for sentence in story.sentences for word in sentence[1:2]}
    assert verbs == {"is", *(f"faces-{way}" for way in "nesw"), *(f"moves-{steps}" for steps in range(1, 6))}
    assert [story.question[2] for story in stories[:4]] == ["agent1", "agent2"] * 2
    assert len({story.answer for story in stories}) > 90  # of 100 places


def test_the_seed_decides_and_parts_do_not_overlap():
    first, again, second = World([5], 700, 1), World([5], 700, 1), World([5], 700, 2)
    assert first.train("world") == again.train("world") != second.train("world")
    trained, tested = ({story.full_text for story in part} for part in (first.train("world"), first.test("world")))
    assert len(trained) == 700
    assert len(tested) == 1000
    assert not trained & tested
    assert World([5], 30, 1).test("world") == first.test("world")


def test_more_stories_than_there_are_end_in_a_message(monkeypatch):
    """On a grid of one field, where two agents can only turn."""
    monkeypatch.setattr(stories, "GRID_SIZE", 1)
    with pytest.raises(UserError, match=r"task\.stories: there are hardly 5,000 different stories of 5 sentences"):
        World([5], 4000, 1).train("world")


def test_other_story_lengths_are_tested():
    assert {len(story.sentences) for story in World([5], 7, 1).test("world", "17")} == {17}
    assert Counter(len(story.sentences) for story in World([5], 7, 1).test("world", [7, 11])) == {7: 1000, 11: 1000}
    with pytest.raises(UserError, match=r"task\.test=far: expected a number of sentences"):
        World([5], 7, 1).test("world", "far")


def test_lengths_of_a_range_are_equally_frequent():
    stories = World([5, 6, 9], 30, seed=1).train("world")
    assert Counter(len(story.sentences) for story in stories) == {5: 20, 6: 20, 9: 20}


def test_a_story_that_is_too_short_is_refused():
    with pytest.raises(UserError, match=r"task\.statements: 4 sentences; use more than 4"):
        World([5, 4], 7, 1).train("world")
