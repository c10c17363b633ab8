"""Reading bAbI files: numbered lines with statements and questions; number 1 starts a new story."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from attnx.data.paths import resolve_data_path
from attnx.data.readers.lines import read_lines
from attnx.errors import UserError
from attnx.files.printable import quoted

from .stories import StoryQuestion, split_words

# Sentences before a question: Henaff et al. 2017, appendix.
DEFAULT_SENTENCES, SENTENCES_BY_TASK = 70, {"qa3": 130}


class BabiLine(NamedTuple):
    """A line of a story; a statement has one column, a question three."""

    line_number: int
    columns: list[str]
    location: str


@dataclass(frozen=True)
class Babi:
    """Tasks in a folder of bAbI files such as ``qa5_three-arg-relations_train.txt``.

    ``sentences`` is the most sentences before a question, the last ones; by default as in the paper.
    """

    folder: str
    tasks: list[int]
    sentences: int | None = None

    @property
    def tags(self) -> list[str]:
        """``qa1``, ``qa2``, and so on."""
        return [f"qa{task}" for task in self.tasks]

    def train(self, tag: str) -> list[StoryQuestion]:
        """The questions of a task's training file."""
        return read_babi(self._file(tag, "train"))

    def test(self, tag: str, other: int | Sequence[int] | str | None = None) -> list[StoryQuestion]:
        """The questions of a task's test file, or of the ``other`` file that ``task.test`` names."""
        return read_babi(self._file(tag, "test") if other is None else resolve_data_path("task.test", str(other)))

    def shorten(self, story: StoryQuestion, tag: str) -> StoryQuestion:
        """Return a story as it is read: its last sentences."""
        return story.shorten(self.sentences) if self.sentences else self.shorten_by_default(story, tag)

    def shorten_by_default(self, story: StoryQuestion, tag: str) -> StoryQuestion:
        """Return a story as runs know it, however many sentences each of them reads."""
        return story.shorten(SENTENCES_BY_TASK.get(tag, DEFAULT_SENTENCES))

    def _file(self, tag: str, part: str) -> Path:
        """Return a task's file, or raise a UserError if there is none or several."""
        folder = resolve_data_path("task.folder", self.folder)
        if not folder.is_dir():
            raise UserError(f"task.folder={folder}: no such folder; fetch eight tasks with: attnx data get babi")
        files = sorted(folder.glob(f"{tag}_*_{part}.txt"))
        if len(files) == 1:
            return files[0]
        matches = (re.match(r"qa(\d+)_.*_train", file.name) for file in folder.iterdir())
        tasks = ", ".join(map(str, sorted(int(match[1]) for match in matches if match))) or "none"
        raise UserError(f"{folder}: expected one file {tag}_*_{part}.txt, found {len(files)}; its tasks are: {tasks}")


def read_babi(path: Path) -> list[StoryQuestion]:
    """Read every question of a file with the statements before it; earlier questions are not part of its story.

    A statement is ``3 Mary went home.``, a question ``4 Where is Mary?``, a tab, its answer, a tab, and the numbers of
    the supporting statements. An answer of several words, ``apple,milk``, is one symbol. Bad lines are UserErrors,
    ``file:line: problem``, and so is a file without questions.
    """
    stories: list[StoryQuestion] = []
    for block in _read_blocks(path):
        full_text = "\n".join(line.columns[0] for line in block)
        sentences: dict[int, tuple[str, ...]] = {}
        for line in block:
            words = split_words(line.columns[0])
            if not words:
                raise UserError(f"{line.location}: holds no words")
            if len(line.columns) == 1:
                sentences[line.line_number] = words
                continue
            stories.append(StoryQuestion(tuple(sentences.values()), words, _check_answer(line, sentences), full_text))
    if not stories:
        raise UserError(f"{path}: holds no questions; expected lines of a number, a question, a tab and its answer")
    return stories


def _read_blocks(path: Path) -> Iterator[list[BabiLine]]:
    """Yield the lines of each story."""
    block: list[BabiLine] = []
    for file_line, text in read_lines(path, "bAbI"):
        if not text.strip():
            continue
        location = f"{path}:{file_line}"
        match = re.match(r"(\d{1,9}) (.*)", text, re.ASCII)
        if match is None:
            raise UserError(f"{location}: expected a number, a space and a sentence, found {quoted(text)}")
        line = BabiLine(int(match[1]), match[2].split("\t"), location)
        if line.line_number == 1 and block:
            yield block
            block = []
        expected = len(block) + 1
        if line.line_number != expected:
            raise UserError(f"{line.location}: is numbered {line.line_number}, expected {expected} (or 1, a new story)")
        block.append(line)
    if block:
        yield block


def _check_answer(line: BabiLine, sentences: dict[int, tuple[str, ...]]) -> str:
    answer, *supporting = (column.strip() for column in line.columns[1:])
    if not answer or " " in answer:
        expected = "one word, or several separated by commas"
        raise UserError(f"{line.location}: the answer is {quoted(answer)}; expected {expected}")
    if len(supporting) > 1:
        raise UserError(f"{line.location}: has {len(line.columns)} columns; a question has an answer and its support")
    for statement in "".join(supporting).split():
        if not re.fullmatch(r"\d{1,9}", statement) or int(statement) not in sentences:
            raise UserError(f"{line.location}: its support {statement!r} is not an earlier statement")
    return answer
