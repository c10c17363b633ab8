"""The task ``g2p``: from a word's letters to its phones, in one language or in many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols, read_pairs
from attnx.data.graphemes import cut
from attnx.data.paths import fill_in
from attnx.data.readers.cmudict import read_cmudict
from attnx.data.readers.sigmorphon import holds_languages, read_languages
from attnx.data.special_tokens import tag_symbol
from attnx.data.split import Splits, hold_out, split_by_word
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO, metrics_per_tag, update_all
from attnx.registry import Probability, register
from attnx.tasks.protocols import SequenceData

RATES = {"per": "phone_error_rate", "wer": "word_error_rate"}


@register("task", "g2p")
class G2p:
    """Pronounce words: graphemes in, phonemes out.

    Formula: ``minimize -sum_t log p(phone_t | phones_<t, letters)``
    Source: the CMU Pronouncing Dictionary, http://www.speech.cs.cmu.edu/cgi-bin/cmudict; Yao and Zweig 2015,
        https://arxiv.org/abs/1506.00196; many languages: Gorman et al. 2020, https://aclanthology.org/2020.sigmorphon-1.2

    Without files it uses the dictionary shipped with attnx: ``holdout`` of the words for validation, twice as many for
    testing, chosen by a hash of the word, stress marks removed unless ``stress``. With ``train`` (and ``valid``,
    ``test``) it reads TSV files, plain or .gz: the word, then one or more pronunciations, phones apart by spaces. A
    part that is left out is held out of the training file. Words may have several references; the closest one counts.

    Folders instead of files (or patterns, ``low/*_train.tsv``) hold a file for each language, its code first in the
    name, as ``ady_train.tsv``; ``languages`` takes some of them. Rates are then those of each language, their mean
    (macro) and that of all words (micro). ``tag_token`` tells the model the language by a symbol before the letters,
    ``model.tag_inputs`` beside its inputs. The query ``language_tag`` tells attention alone, as to where to look: where
    languages share letters, one of the others is needed too. ``graphemes`` says how letters are cut: as they are in the
    file, or in a Unicode form, ``nfc`` (composed), ``nfd`` (accents and jamo apart) or ``jamo`` (Hangul alone cut).
    """

    monitor = "valid_per"
    maximize = False
    data_files = ("train", "valid", "test")

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        languages: list[str] | None = None,
        graphemes: Literal["as_is", "nfc", "nfd", "jamo"] = "as_is",
        tag_token: bool = False,
        stress: bool = False,
        holdout: Probability = 0.05,
        smoothing: Probability = 0.0,
    ) -> None:
        self.train, self.valid, self.test = train, valid, test
        self.languages, self.graphemes, self.tag_token = languages, graphemes, tag_token
        self.stress, self.holdout, self.smoothing = stress, holdout, smoothing

    def load(self) -> SequenceData:
        """Read and split the data.

        Raises:
            UserError: a file is missing or malformed, with file and line; parts share words; or an unknown language.
        """
        splits = self._split()
        if self.tag_token and not all(pair.tag for pair in splits.train):
            raise UserError("task.tag_token=true needs languages: let task.train name a folder with a file for each")
        # Only now, so that the parts hold the same words however these are written.
        data = SequenceData.of(Splits(*([self._written(pair) for pair in part] for part in splits)))
        self.monitor = f"valid_per_{MACRO}" if data.tags else "valid_per"
        return data

    def test_pairs(self) -> list[Pair]:
        """The pairs of ``test``; what was trained on is not looked at."""
        assert self.test is not None
        return [self._written(pair) for pair in self._read("task.test", self.test)]

    def _split(self) -> Splits:
        if self.train is None:
            if self.valid or self.test:
                raise UserError("task.valid and task.test need task.train: name all files, or none for the dictionary")
            if self.languages:
                raise UserError("task.languages needs task.train: a folder with a file for each language")
            pairs = read_cmudict(stress=self.stress)
            return split_by_word(pairs, valid=self.holdout, test=2 * self.holdout)
        train = self._read("task.train", self.train)
        test = self._read("task.test", self.test) if self.test else None
        valid = self._read("task.valid", self.valid) if self.valid else None
        return _complete(train, valid, test, self.holdout)

    def _read(self, knob: str, path: str) -> list[Pair]:
        named, compose = fill_in(knob, path), self.graphemes != "as_is"
        if holds_languages(named):
            return read_languages(named, self.languages, compose)
        if self.languages:
            raise UserError(
                f"{knob}={path} names one file, but task.languages chooses among those of a folder; leave one out"
            )
        return read_pairs(named, compose)

    def _written(self, pair: Pair) -> Pair:
        return pair._replace(source=self.symbols("".join(pair.source), pair.tag))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Phone and word error rates, in percent, against the closest reference; with tags, for each of them."""
        return metrics_per_tag({name: partial(registry.build, "metric", rate) for name, rate in RATES.items()}, tags)

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the symbols written for each pair."""
        update_all(metrics, outputs, [pair.references for pair in pairs], [pair.tag for pair in pairs])

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A word's letters, as ``graphemes`` cuts them; with ``tag_token``, its language before them.

        Raises:
            UserError: the language is asked for and not given.
        """
        letters = cut(text, self.graphemes)
        if not self.tag_token:
            return letters
        if not tag:
            raise UserError(f"{text!r}: say which language it is; this model reads it before the letters")
        return (tag_symbol(tag), *letters)

    def text(self, symbols: Sequence[str]) -> str:
        """Phones, apart by spaces."""
        return " ".join(symbols)

    def save(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""

    def restore(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""


def _complete(train: list[Pair], valid: list[Pair] | None, test: list[Pair] | None, holdout: float) -> Splits:
    """Hold out what was not given, by word, and see to it that no word of a language is in two parts."""
    if valid is None and test is None:
        return split_by_word(train, valid=holdout, test=2 * holdout)
    if valid is None:
        train, valid = hold_out(train, holdout)
    elif test is None:
        train, test = hold_out(train, holdout)
    assert valid is not None
    assert test is not None
    known = {(pair.tag, pair.source) for pair in train}
    for name, part in (("valid", valid), ("test", test)):
        shared = [pair for pair in part if (pair.tag, pair.source) in known]
        if shared:
            word = repr("".join(shared[0].source)) + (f" ({shared[0].tag})" if shared[0].tag else "")
            raise UserError(
                f"task.{name}: {len(shared)} of its words are also in task.train, the first is {word}; "
                "a word may be in one part only"
            )
    return Splits(train, valid, test)
