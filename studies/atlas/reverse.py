"""The data of the task ``reverse``: random words and the same words backwards, longer in validation and test."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase

TRAIN_LENGTHS, LONGER_LENGTHS = range(2, 11), range(11, 21)
WORDS_PER_LENGTH = {"train": 2500, "valid": 60, "test": 100}
SEED = 1


def write_reverse(folder: Path) -> None:
    """Write ``train.tsv``, ``valid.tsv`` and ``test.tsv``, always the same; no word is in two of them.

    Settings are chosen in validation, so it has words as long as the test's. Its longer ones are drawn last: training
    and test are those of the runs that were validated without.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random_source, drawn = random.Random(SEED), set[str]()
    lengths = {"train": TRAIN_LENGTHS, "valid": TRAIN_LENGTHS, "test": (*TRAIN_LENGTHS, *LONGER_LENGTHS)}
    words = {part: _draw(random_source, lengths[part], count, drawn) for part, count in WORDS_PER_LENGTH.items()}
    words["valid"] += _draw(random_source, LONGER_LENGTHS, WORDS_PER_LENGTH["valid"], drawn)
    random_source.shuffle(words["valid"])
    for part, new in words.items():
        lines = [f"{word}\t{word[::-1]}\n" for word in new]
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")


def _draw(random_source: random.Random, lengths: Iterable[int], count: int, drawn: set[str]) -> list[str]:
    """New words of each length; of two letters there are fewer than ``count``, so some lengths have fewer words."""
    new = []
    for length in lengths:
        for _ in range(count):
            word = "".join(random_source.choices(ascii_lowercase, k=length))
            if word not in drawn:
                drawn.add(word)
                new.append(word)
    random_source.shuffle(new)
    return new
