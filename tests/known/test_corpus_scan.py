"""Scans of a corpus keep a sample; corpus folders are complete or absent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from attnx.data.corpus_cache import build
from attnx.data.corpus_cache.build import reservoir_sample, scan_corpus, scan_shard
from attnx.data.readers import parallel_corpus
from attnx.data.readers.parallel_corpus import ParallelText, Sentence, read_parallel
from attnx.data.splits import SentenceHoldout, split_sentences
from attnx.data.text_pipeline import TextPipeline
from attnx.data.tokenizers.frequent_symbols import Character
from attnx.errors import UserError
from attnx.files.atomic_files import atomic_folder

LINES = [Sentence(f"sentence {number}", (f"Satz {number}",), tag) for number in range(211) for tag in ("de", "fr")]


def test_every_subset_is_equally_likely() -> None:
    """Of five items ten sets of three, each within five deviations of a tenth of the draws."""
    draws = 2003
    counts = Counter(tuple(sorted(reservoir_sample(range(5), 3, seed))) for seed in range(draws))
    assert counts.keys() == set(combinations(range(5), 3))
    for count in counts.values():
        assert abs(count - draws / 10) < 5 * (draws * 0.1 * 0.9) ** 0.5


def test_the_sample_is_reproducible() -> None:
    assert reservoir_sample(range(1009), 7) == reservoir_sample(iter(range(1009)), 7)
    assert reservoir_sample(range(1009), 7) != reservoir_sample(range(1009), 7, seed=3)


def test_a_complete_sample_keeps_the_order() -> None:
    assert reservoir_sample("edcba", 5) == list("edcba")
    assert reservoir_sample("edcb", 5) == list("edcb")


def test_a_scan_that_fits_equals_the_training_part() -> None:
    holdout = SentenceHoldout(None, None, 0.1)
    scan = scan_shard(iter(LINES), holdout, set(), len(LINES), seed=0)
    for sentence in scan.held_out:
        holdout.hold_out(sentence)
    parts = split_sentences(LINES, None, None, 0.1)
    assert scan.sample == parts.train
    assert scan.tags == {sentence.tag for sentence in parts.train}
    assert (holdout.sentences("valid"), holdout.sentences("test")) == (parts.valid, parts.test)


def test_a_scan_counts_distinct_held_out_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 copies of each none is lost."""
    expected = scan_shard(iter(LINES), SentenceHoldout(None, None, 0.1), set(), 1, seed=0).held_out
    monkeypatch.setattr(build, "MAX_HELD_OUT", len(expected))
    repeated = (sentence for sentence in LINES for _ in range(30))
    assert scan_shard(repeated, SentenceHoldout(None, None, 0.1), set(), 1, seed=0).held_out == expected


@pytest.mark.parametrize("processes", [1, 3])
def test_a_scan_keeps_a_sample(processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all tags, and every source that an existing part has too; of five shards."""
    monkeypatch.setattr(build, "MAX_SAMPLE", 7)
    monkeypatch.setattr(parallel_corpus, "LINES_PER_SHARD", 100)
    lines = [*LINES, Sentence("one", ("eins",), "xx")]
    (tmp_path / "lines.tsv").write_text("".join(f"{line.source}\t{line.references[0]}\t{line.tag}\n" for line in lines))
    text = ParallelText([tmp_path / "lines.tsv"], ["de", "fr", "xx"])
    texts = TextPipeline(Character(), Character(), 7, lower=False, unicode_form="none")
    inputs = [Sentence("sentence 3", ("?",), "de"), Sentence("another", ("?",), "de")]
    sample, result = scan_corpus(text, texts, SentenceHoldout(inputs, [], 0.1), processes)
    assert len(text.shards) == 5
    assert len(set(sample)) == 7
    assert set(sample) <= set(lines)
    assert [lines.index(sentence) // 100 for sentence in sample] == [0, 1, 1, 2, 3, 3, 4]
    assert result.tags == ["de", "fr", "xx"]
    assert result.overlap_notes == ["1 of 2 sources of the valid split are also in the training split"]


def test_a_sample_of_unequal_files_that_fits_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 23 sentences in one file and 7 in the other, in three shards."""
    monkeypatch.setattr(build, "MAX_SAMPLE", 30)
    monkeypatch.setattr(parallel_corpus, "LINES_PER_SHARD", 10)
    files = [tmp_path / "de.tsv", tmp_path / "fr.tsv"]
    for file, count in zip(files, (23, 7), strict=True):
        file.write_text("".join(f"{file.stem} {number}\tx\n" for number in range(count)))
    text = ParallelText(files, ["de", "fr"])
    texts = TextPipeline(Character(), Character(), 7, lower=False, unicode_form="none")
    sample, _ = scan_corpus(text, texts, SentenceHoldout([], [], 0.0), 1)
    assert [shard.max_sentences for shard in text.shards] == [17, 10, 3]
    assert sample == list(read_parallel(files, ["de", "fr"]))


def test_a_folder_is_renamed_when_complete(tmp_path: Path) -> None:
    """The folders above it are made as well."""
    folder = tmp_path / "new" / "folder"
    with atomic_folder(folder) as unfinished:
        (unfinished / "file").write_text("some")
        assert not folder.exists()
        assert unfinished.parent == folder.parent
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "new",
        "new/folder",
        "new/folder/file",
    ]


@pytest.mark.parametrize("what", [KeyboardInterrupt, UserError, OSError])
def test_an_unfinished_folder_is_removed(what: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "folder", tmp_path / "new" / "er" / "folder", tmp_path / "there" / "folder"):

        def fill(folder: Path = folder) -> Iterator[None]:
            with atomic_folder(folder) as unfinished:
                (unfinished / "file").write_text("some")
                yield
                raise what("full")

        with pytest.raises(UserError if what is OSError else what, match="full"):
            list(fill())
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_an_existing_folder_is_unchanged(tmp_path: Path) -> None:
    """Also a file in its place."""
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="exists already"), atomic_folder(place):
            pass
    assert (tmp_path / "file").read_text() == "mine"


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "folder") as slow:
        (slow / "file").write_text("slow")
        with atomic_folder(tmp_path / "folder") as fast:
            (fast / "file").write_text("fast")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (tmp_path / "folder" / "file").read_text() == "fast"
