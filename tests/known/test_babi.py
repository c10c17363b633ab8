"""bAbI files: stories, questions, and every kind of broken line."""

import os
from pathlib import Path

import pytest

from attnx.errors import UserError
from attnx.problems.stories.babi import Babi, read_babi
from attnx.problems.stories.qa import Qa
from attnx.problems.stories.stories import StoryQuestion, parse_story, source_vocabulary
from tests.refusal import refused

TWO = """\
1 Mary moved to the bathroom.
2 John grabbed the milk.
3 Where is Mary? \tbathroom\t1
4 Mary went home.
5 What is john carrying?\tmilk,apple\t2 4

1 Mice are afraid of wolves.
2 What is gertrude afraid of?\twolf\t1
"""


def write_file(folder: Path, text: str = TWO, name: str = "qa1_a_train.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_question_reads_the_preceding_statements(tmp_path):
    """Of its own story; other questions are no statements, and names are in small letters."""
    mary, john = ("mary", "moved", "to", "the", "bathroom"), ("john", "grabbed", "the", "milk")
    home, mice = ("mary", "went", "home"), ("mice", "are", "afraid", "of", "wolves")
    stories = read_babi(write_file(tmp_path))
    assert [story[:3] for story in stories] == [
        ((mary, john), ("where", "is", "mary"), "bathroom"),
        ((mary, john, home), ("what", "is", "john", "carrying"), "milk,apple"),
        ((mice,), ("what", "is", "gertrude", "afraid", "of"), "wolf"),
    ]
    assert stories[0].full_text == stories[1].full_text != stories[2].full_text


STORY = ("mary", "left", ".", "john", "came", ".", "who", "left", "?")


def test_one_sequence_of_symbols():
    assert StoryQuestion((STORY[:2], STORY[3:5]), STORY[6:8], "mary", "").symbols == STORY
    for text in ("Mary left. John came. Who left?", "mary left . john came . who left ?"):
        assert parse_story(text).symbols == STORY
    assert parse_story("Mary left.  John came. . Who left").symbols == STORY


@pytest.mark.parametrize("text", ["Mary left.", "Mary left. ?", " . "])
def test_a_story_without_a_question_is_refused(text):
    with pytest.raises(UserError, match="a story must end with a question"):
        parse_story(text)


def test_the_vocabulary_starts_with_full_stop_and_entities():
    sources = [("(2,8)", "b", ".", "a", "?")]
    assert source_vocabulary(sources).symbols[4:] == (".", "(2,8)", "?", "a", "b")
    assert source_vocabulary(sources, ["b", "a"]).symbols[4:] == (".", "b", "a", "(2,8)", "?")
    with pytest.raises(UserError, match=r"task\.entities: no story has the word 'bb'; did you mean b"):
        source_vocabulary([*sources, ("bbb",)], ["bb"])
    with pytest.raises(UserError, match="name each word once"):
        source_vocabulary(sources, ["b", "b"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Mary moved.", "expected a number, a space and a sentence, found 'Mary moved.'"),
        ("9" * 5000 + " Mary moved.", "expected a number, a space and a sentence, found '999"),
        ("5 Mary moved.", "is numbered 5, expected 4 (or 1, a new story)"),
        ("4 .", "holds no words"),
        ("4 ?\tyes\t1", "holds no words"),
        ("4 Where is Mary?\t", "the answer is ''"),
        ("4 Where is Mary?\tin bed\t1", "the answer is 'in bed'"),
        ("4 Where is Mary?\thome\t1\t2", "has 4 columns"),
        ("4 Where is Mary?\thome\tone", "its support 'one' is not an earlier statement"),
        ("4 Where is Mary?\thome\t" + "9" * 5000, "is not an earlier statement"),
        ("4 Where is Mary?\thome\t3", "its support '3' is not an earlier statement"),
        ("4 Where is Mary?\thome\t7", "its support '7' is not an earlier statement"),
    ],
)
def test_a_broken_line_is_reported_with_its_number(tmp_path, line, message):
    """Line 3 of the story is a question, and no statement."""
    path = write_file(tmp_path, f"1 Mary moved.\n2 John left.\n3 Where is Mary?\tout\t1\n{line}\n")
    with refused(f"{path}:4: ...{message}..."):
        read_babi(path)


def test_a_file_that_holds_no_story_is_refused(tmp_path):
    """With the line of an invalid byte; or for want of questions."""
    path = tmp_path / "broken.txt"
    path.write_bytes(b"1 Mary moved.\n2 John \xff left.\n")
    with pytest.raises(UserError, match=r"broken\.txt:2: "):
        read_babi(path)
    with pytest.raises(UserError, match="holds no questions"):
        read_babi(write_file(tmp_path, "1 Mary moved.\n"))


def test_a_missing_task_is_reported(tmp_path):
    write_file(tmp_path, name="qa5_b_train.txt")
    with pytest.raises(UserError, match=r"expected one file qa2_\*_train.txt, found 0; its tasks are: 5"):
        Babi(str(tmp_path), [2]).train("qa2")
    with pytest.raises(UserError, match="fetch eight tasks with: attnx data get babi"):
        Babi(str(tmp_path / "none"), [2]).train("qa2")


def test_the_last_sentences_are_read(tmp_path):
    """70 of them, 130 in task 3, or the requested number; by the default's a question is known."""
    lines = [f"{number} Number {number}." for number in range(1, 200)]
    for task in (1, 3):
        write_file(tmp_path, "\n".join([*lines, "200 Which?\tnone\t"]), f"qa{task}_a_train.txt")
    for sentences, numbers in ((None, [70, 130]), (2, [2, 2]), (150, [150, 150])):
        babi = Babi(str(tmp_path), [1, 3], sentences)
        stories = {tag: babi.train(tag)[0] for tag in babi.tags}
        assert [len(babi.shorten(story, tag).sentences) for tag, story in stories.items()] == numbers
        assert [len(babi.shorten_by_default(story, tag).sentences) for tag, story in stories.items()] == [70, 130]
    shortened = Babi(str(tmp_path), [1], 2).shorten(stories["qa1"], "qa1")
    assert shortened.sentences == (("number", "198"), ("number", "199"))
    symbols = Qa(sentences=2).tokenize("A one. B two. C three. Which?")
    assert symbols == ("b", "two", ".", "c", "three", ".", "which", "?")


def many(folder: Path, tasks: tuple[int, ...]) -> None:
    """Stories of two questions, a hundred for each task and part."""
    for task in tasks:
        for part in ("train", "test"):
            stories = [f"1 A{n} is {part}.\n2 Who?\ta\t1\n3 Where is A{n}?\tb\t1\n" for n in range(100)]
            write_file(folder, "".join(stories), f"qa{task}_a_{part}.txt")


def test_all_questions_of_a_story_share_a_part(tmp_path):
    many(tmp_path, (1,))
    data = Qa(folder=str(tmp_path)).load()
    train, valid, _ = ({pair.source[0] for pair in part} for part in data.pairs)
    assert not train & valid
    assert len(data.pairs.train) == 2 * len(train)
    assert len(data.pairs.train) + len(data.pairs.valid) == len(data.pairs.test) == 200
    assert 2 < len(valid) < 25  # of 100 stories a tenth, give or take
    assert data.tags == ()


def test_several_tasks_have_tags(tmp_path):
    many(tmp_path, (1, 4))
    task = Qa(folder=str(tmp_path), tasks=[4, 1])
    data = task.load()
    assert data.tags == ("qa1", "qa4")
    assert task.monitor == "valid_error_macro"
    metric = task.metrics(data.tags)["error"]
    metric.update([["a"], ["b"], ["a"]], [[("a",)], [("a",)], [("a",)]], ["qa1", "qa1", "qa4"])
    assert {name: round(float(value), 1) for name, value in metric.compute().items()} == {
        "macro": 25.0,
        "micro": 33.3,
        "qa1": 50.0,
        "qa4": 0.0,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": [1, 1]}, "name each task once"),
        ({"tasks": [1, 2], "test": "some.txt"}, "task.test=some.txt is one task"),
    ],
)
def test_tasks_that_contradict_a_test_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        Qa(**options)


@pytest.mark.needs_data("babi")
@pytest.mark.parametrize("task", [1, 2, 4, 5, 6, 7, 15, 20])
def test_the_published_files_are_read(task):
    """A thousand questions each."""
    folder = Path(os.environ["ATTNX_DATA"], "babi")
    assert len(Babi(str(folder), [task]).test(f"qa{task}")) == 1000
