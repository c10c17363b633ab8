"""The task ``g2p``: pronounce words of one or many languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from torch import nn

from attnx.data.examples import Pair, Symbols, has_languages, read_languages, read_pairs
from attnx.data.graphemes import split_graphemes
from attnx.data.paths import resolve_data_path
from attnx.data.readers.cmudict import read_cmudict
from attnx.data.splits import Splits, fold_text, hold_out_missing, overlap_notes
from attnx.data.vocabulary import SPECIALS, Vocabulary, tag_symbol
from attnx.errors import UserError
from attnx.files.printable import quoted
from attnx.metrics.per_tag import MACRO, metrics_per_tag
from attnx.registry import PositiveInt, Probability, register
from attnx.runs.layout import TARGET_SYMBOLS
from attnx.tasks.contract import SequenceData, SequenceTask

MIN_WORDS = 20
RATES = {"per": "phone_error_rate", "wer": "word_error_rate"}


@register(
    "task",
    "g2p",
    read_if={
        "holdout": ["valid=null", "test=null"],
        "valid": "train!=null",
        "test": "train!=null",
        "languages": "train!=null",
        "columns": "train!=null",
        "stress": "train=null",
    },
)
class G2p(SequenceTask):
    """Grapheme-to-phoneme conversion: letters in, phones out.

    Formula: ``minimize -sum_t log p(phone_t | phones_<t, letters)``
    Source: the CMU Pronouncing Dictionary, http://www.speech.cs.cmu.edu/cgi-bin/cmudict; Yao and Zweig 2015,
        https://arxiv.org/abs/1506.00196; many languages: Gorman et al. 2020, https://aclanthology.org/2020.sigmorphon-1.2

    Without files the task uses the dictionary shipped with attnx, without stress marks unless ``stress``. ``train``,
    ``valid`` and ``test`` name TSV files, plain or .gz: a word, then one or more pronunciations, phones separated by
    spaces. ``columns`` names the columns of the word and of its pronunciations where there are others: their numbers,
    from 1, or their names in the first line. A missing split is held out of the training data by a hash of the word,
    whatever its case: ``holdout`` of the words for validation, twice as many for testing. A word may have several
    references; the closest one counts.

    Folders instead of files (or patterns, ``low/*_train.tsv``) contain a file per language, whose name starts with the
    language, as ``ady_train.tsv``; ``languages`` selects some. Metrics are then those of each language, their mean
    (macro) and that of all words (micro). ``tag_token`` gives the model the language as a symbol before the letters,
    ``model.tag_inputs`` as an embedding. The query ``language_tag`` gives it to attention alone; where languages share
    letters, one of the others is needed too. ``graphemes`` says how words are split: as they are in the file, or in a
    Unicode form, ``nfc`` (composed), ``nfd`` (accents and jamo are symbols) or ``jamo`` (Hangul alone is decomposed).
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
        columns: list[str | PositiveInt] | None = None,
        graphemes: Literal["as_is", "nfc", "nfd", "jamo"] = "as_is",
        tag_token: bool = False,
        stress: bool = False,
        holdout: Probability = 0.05,
        label_smoothing: Probability = 0.0,
    ) -> None:
        self.train, self.valid, self.test = train, valid, test
        self.languages, self.graphemes, self.tag_token = languages, graphemes, tag_token
        self.columns = list(map(str, columns or []))
        self.notes: list[str] = []
        self.known_phones: Collection[str] = ()  # of the training data
        self.stress, self.holdout, self.label_smoothing = stress, holdout, label_smoothing

    def load(self) -> SequenceData:
        """Read and split the data; ``notes`` then says how many words of a language are in two splits."""
        self.notes, self.known_phones = [], ()
        if self.train is None:
            splits = hold_out_missing(read_cmudict(stress=self.stress), {}, _folded_word, self.holdout)
        else:
            train, files = self._read("task.train", self.train), {"test": self.test, "valid": self.valid}
            self.known_phones = {phone for pair in train for phones in pair.references for phone in phones}
            existing = {part: self._read(f"task.{part}", file) for part, file in files.items() if file}
            splits = hold_out_missing(train, existing, _folded_word, self.holdout)
            parts = splits._asdict().items()
            words = {part: [(pair.tag, _folded_word(pair)) for pair in pairs] for part, pairs in parts}
            self.notes += overlap_notes(set(words.pop("train")), words)
            self._check_phones(splits.train)
        if self.tag_token and not all(pair.tag for pair in splits.train):
            raise UserError("task.tag_token=true needs languages: set task.train to a folder with a file for each")
        # Split before tokenization, so that parts do not depend on it.
        data = SequenceData.of(Splits(*([self._tokenize_pair(pair) for pair in part] for part in splits)))
        self.monitor = f"valid_per_{MACRO}" if data.tags else "valid_per"
        return data

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        assert self.test is not None
        return [self._tokenize_pair(pair) for pair in self._read("task.test", self.test)]

    def _read(self, option: str, name: str) -> list[Pair]:
        path, compose = resolve_data_path(option, name), self.graphemes != "as_is"
        if has_languages(path):
            return read_languages(path, self.languages, compose, self.columns, self.notes, self.known_phones)
        if self.languages:
            raise UserError(f"{option}={name} is one file, but task.languages selects files of a folder; remove one")
        return read_pairs(path, compose, self.columns, self.notes, self.known_phones)

    def _check_phones(self, pairs: Sequence[Pair]) -> None:
        """Refuse transcriptions that are not divided into phones, most of which then occur once."""
        counts = Counter(phone for pair in pairs for reference in pair.references for phone in reference)
        single = sum(count == 1 for count in counts.values())
        if len(pairs) < MIN_WORDS or 2 * single <= len(counts) or 4 * len(counts) <= len(pairs):
            return
        example = quoted(next(phone for phone, count in counts.items() if count == 1))
        raise UserError(
            f"task.train={self.train}: {single:,} of {len(counts):,} phones occur once, such as {example}; phones are "
            "separated by spaces. For targets of characters: attnx task=sequences task.source=characters "
            f"task.target=characters task.train={self.train}"
        )

    def _tokenize_pair(self, pair: Pair) -> Pair:
        word = pair.source_text
        return pair._replace(source=self.tokenize(word, pair.tag)).identified_by(split_graphemes(word.strip(), "nfc"))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build phone and word error rates, in percent, against the closest reference; with tags, for each of them."""
        return metrics_per_tag(RATES, tags)

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a word into letters, with ``tag_token`` after its language; a UserError if either is missing."""
        text = text.strip()
        if not text:
            raise UserError("the word is empty; there is nothing to read")
        letters = split_graphemes(text, self.graphemes)
        if self.tag_token and not tag:
            raise UserError(f"{text!r}: the language is missing; this model reads it before the letters")
        return (tag_symbol(tag), *letters) if self.tag_token else letters

    def restore(self, folder: Path) -> None:
        """Read the phones of the training data."""
        self.known_phones = Vocabulary.load(folder / TARGET_SYMBOLS).symbols[len(SPECIALS) :]


def _folded_word(pair: Pair) -> str:
    """Return a word without differences of case and Unicode form, so that its part does not depend on them."""
    return fold_text(pair.source_text)
