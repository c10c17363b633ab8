"""bAbI files: numbered lines, statements and questions; a line with the number 1 begins another story."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from attnx.data.paths import fill_in
from attnx.data.readers.lines import read_lines
from attnx.data.synthetic.stories import Story, words
from attnx.errors import UserError
from attnx.files.printable import quoted

# How many of the sentences before a question are read: Henaff et al. 2017, appendix.
LONG, LAST = 70, {"qa3": 130}


class Line(NamedTuple):
    """A line: its number in the story, and its columns (a statement has one, a question three)."""

    number: int
    columns: list[str]
    where: str

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        return len(self.columns) > 1


@dataclass(frozen=True)
class Babi:
    """Tasks of a folder with bAbI's files, ``qa5_three-arg-relations_train.txt``.

    Args:
        folder: as the user writes it.
        tasks: their numbers.
        sentences: how many of the sentences before a question are read, the last ones; as in the paper if left out.
    """

    folder: str
    tasks: list[int]
    sentences: int | None = None

    @property
    def tags(self) -> list[str]:
        """``qa1``, ``qa2``, and so on."""
        return [f"qa{task}" for task in self.tasks]

    def train(self, tag: str) -> list[Story]:
        """The questions of a task's training file."""
        return self._cut(read_babi(self._file(tag, "train")), tag)

    def test(self, tag: str) -> list[Story]:
        """The questions of a task's test file."""
        return self._cut(read_babi(self._file(tag, "test")), tag)

    def other(self, named: str | int) -> list[Story]:
        """The questions of another file."""
        return self._cut(read_babi(fill_in("task.test", str(named))), self.tags[0])

    def _cut(self, stories: list[Story], tag: str) -> list[Story]:
        last = self.sentences or LAST.get(tag, LONG)
        return [story._replace(sentences=story.sentences[-last:]) for story in stories]

    def _file(self, tag: str, part: str) -> Path:
        """A task's file.

        Raises:
            UserError: there is none, or there are several.
        """
        folder = fill_in("task.folder", self.folder)
        if not folder.is_dir():
            raise UserError(f"task.folder={folder}: no such folder; fetch eight tasks with: attnx data get babi")
        files = sorted(folder.glob(f"{tag}_*_{part}.txt"))
        if len(files) == 1:
            return files[0]
        there = sorted(int(name[1]) for file in folder.iterdir() if (name := re.match(r"qa(\d+)_.*_train", file.name)))
        known = ", ".join(map(str, there)) or "none"
        raise UserError(f"{folder}: expected one file {tag}_*_{part}.txt, found {len(files)}; the tasks there: {known}")


def read_babi(path: Path) -> list[Story]:
    """Read every question of a file with the statements before it; other questions are no part of its story.

    A statement is ``3 Mary went home.``, a question ``4 Where is Mary?``, a tab, its answer, a tab, and the numbers of
    the statements that support it. An answer of several words, ``apple,milk``, is one symbol.

    Raises:
        UserError: ``file:line: what is wrong`` for a broken line, ``file: what is wrong`` for a file without questions.
    """
    stories: list[Story] = []
    for block in _blocks(path):
        whole = "\n".join(line.columns[0] for line in block)
        sentences: dict[int, tuple[str, ...]] = {}
        for line in block:
            said = words(line.columns[0])
            if not said:
                raise UserError(f"{line.where}: holds no words")
            if not line.asks:
                sentences[line.number] = said
                continue
            stories.append(Story(tuple(sentences.values()), said, _answer(line, sentences), whole))
    if not stories:
        raise UserError(f"{path}: holds no questions; expected lines of a number, a question, a tab and its answer")
    return stories


def _blocks(path: Path) -> Iterator[list[Line]]:
    """The lines of each story."""
    block: list[Line] = []
    for number, text in read_lines(path, "bAbI"):
        if not text.strip():
            continue
        line = _line(text, f"{path}:{number}")
        if line.number == 1 and block:
            yield block
            block = []
        if line.number != len(block) + 1:
            raise UserError(f"{line.where}: is numbered {line.number}, expected {len(block) + 1} (or 1, another story)")
        block.append(line)
    if block:
        yield block


def _line(text: str, where: str) -> Line:
    match = re.match(r"(\d+) (.*)", text, re.ASCII)
    if match is None:
        raise UserError(f"{where}: expected a number, a space and a sentence, found {quoted(text)}")
    return Line(int(match[1]), match[2].split("\t"), where)


def _answer(line: Line, sentences: dict[int, tuple[str, ...]]) -> str:
    answer, *supporting = (column.strip() for column in line.columns[1:])
    if not answer or " " in answer:
        raise UserError(
            f"{line.where}: the answer is {quoted(answer)}; expected one word, or several with commas between"
        )
    if len(supporting) > 1:
        raise UserError(f"{line.where}: holds {len(line.columns)} columns; a question has its answer and its support")
    for number in "".join(supporting).split():
        if not number.isdecimal() or int(number) not in sentences:
            raise UserError(f"{line.where}: is supported by {number!r}, which is no statement before it")
    return answer
