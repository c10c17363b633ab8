"""The task ``g2p``: from a word's letters to its phones."""

from __future__ import annotations

import os
import re

from torch import nn

from attnx import registry
from attnx.data.cmudict import read_cmudict
from attnx.data.pairs import Pair, read_pairs
from attnx.data.split import Splits, hold_out, split_by_word
from attnx.errors import UserError
from attnx.registry import Probability, register
from attnx.tasks.sequences import SequenceData


@register("task", "g2p")
class G2p:
    """Pronounce words: graphemes in, phonemes out.

    Formula: ``minimise -sum_t log p(phone_t | phones_<t, letters)``
    Source: the CMU Pronouncing Dictionary, http://www.speech.cs.cmu.edu/cgi-bin/cmudict; Yao and Zweig 2015,
        https://arxiv.org/abs/1506.00196

    Without files it uses the dictionary shipped with attnx: ``holdout`` of the words for validation, twice as many for
    testing, chosen by a hash of the word, stress marks removed unless ``stress``. With ``train`` (and ``valid``,
    ``test``) it reads TSV files, plain or .gz: the word, then one or more pronunciations, phones apart by spaces. A
    part that is left out is held out of the training file. Words may have several references; the closest one counts.
    """

    monitor = "valid_per"

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        stress: bool = False,
        holdout: Probability = 0.05,
        smoothing: Probability = 0.0,
    ) -> None:
        self.train, self.valid, self.test = train, valid, test
        self.stress, self.holdout, self.smoothing = stress, holdout, smoothing

    def load(self) -> SequenceData:
        """Read and split the data.

        Raises:
            UserError: a file is missing or malformed, with file and line; or parts share words.
        """
        if self.train is None:
            if self.valid or self.test:
                raise UserError("task.valid and task.test need task.train: name all files, or none for the dictionary")
            pairs = read_cmudict(stress=self.stress)
            return SequenceData.of(split_by_word(pairs, valid=self.holdout, test=2 * self.holdout))
        train = read_pairs(_path("task.train", self.train))
        test = read_pairs(_path("task.test", self.test)) if self.test else None
        valid = read_pairs(_path("task.valid", self.valid)) if self.valid else None
        return SequenceData.of(_complete(train, valid, test, self.holdout))

    def metrics(self) -> dict[str, nn.Module]:
        """Phone and word error rates, in percent, against the closest reference."""
        return {
            "per": registry.build("metric", "phone_error_rate"),
            "wer": registry.build("metric", "word_error_rate"),
        }


def _complete(train: list[Pair], valid: list[Pair] | None, test: list[Pair] | None, holdout: float) -> Splits:
    """Hold out what was not given, by word, and see to it that no word is in two parts."""
    if valid is None and test is None:
        return split_by_word(train, valid=holdout, test=2 * holdout)
    if valid is None:
        train, valid = hold_out(train, holdout)
    elif test is None:
        train, test = hold_out(train, holdout)
    assert valid is not None
    assert test is not None
    known = {pair.source for pair in train}
    for name, part in (("valid", valid), ("test", test)):
        shared = [pair for pair in part if pair.source in known]
        if shared:
            word = "".join(shared[0].source)
            raise UserError(
                f"task.{name}: {len(shared)} of its words are also in task.train, the first is {word!r}; "
                "a word may be in one part only"
            )
    return Splits(train, valid, test)


def _path(knob: str, path: str) -> str:
    """Fill in environment variables, as in ``$ATTNX_DATA/words.tsv``."""
    filled = os.path.expandvars(os.path.expanduser(path))
    unset = re.search(r"\$\{?(\w+)", filled)
    if unset:
        raise UserError(f"{knob}={path}: the environment variable {unset[1]} is not set; set it to the data's folder")
    return filled
