"""Reading the sentences of a corpus once: a sample, what is held out, and a file of the others."""

import linecache
from collections import Counter
from itertools import combinations

from attnx.data import encoded_corpus
from attnx.data.encoded_corpus import hash_code, reservoir_sample, scan_sentences
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.splits import SentenceHoldout, split_sentences
from attnx.data.tokenizers.frequent_symbols import Character, Word
from attnx.data.tokenizers.sentence_piece import Bpe

LINES = [Sentence(f"sentence {number}", (f"Satz {number}",), tag) for number in range(211) for tag in ("de", "fr")]


def test_every_subset_is_equally_likely():
    """Of five items ten sets of three, each within five deviations of a tenth of the draws."""
    draws = 2003
    counts = Counter(tuple(sorted(reservoir_sample(range(5), 3, seed))) for seed in range(draws))
    assert counts.keys() == set(combinations(range(5), 3))
    for count in counts.values():
        assert abs(count - draws / 10) < 5 * (draws * 0.1 * 0.9) ** 0.5


def test_the_sample_is_reproducible():
    assert reservoir_sample(range(1009), 7) == reservoir_sample(iter(range(1009)), 7)
    assert reservoir_sample(range(1009), 7) != reservoir_sample(range(1009), 7, seed=3)


def test_a_complete_sample_keeps_the_order():
    assert reservoir_sample("edcba", 5) == list("edcba")
    assert reservoir_sample("edcb", 5) == list("edcb")


def read_text(folder) -> list[Sentence]:
    """Read the file of a scan."""
    rows = [line.split("\t") for line in (folder / "text.tsv").read_text(encoding="utf-8").splitlines()]
    return [Sentence(source, (target,), tag) for source, target, tag in rows]


def test_a_scan_that_fits_equals_the_training_part(tmp_path):
    """Each sentence has 30 copies, of which the held-out ones count once."""
    parts = split_sentences(LINES, None, None, 0.1)
    holdout = SentenceHoldout(None, None, 0.1, max_sentences=len(parts.valid) + len(parts.test))
    repeated = [sentence for sentence in LINES for _ in range(30)]
    scan = scan_sentences(tmp_path, iter([Sentence(" ", ("x",), "it"), *repeated]), holdout)
    assert scan.sample == read_text(tmp_path) == [sentence for sentence in parts.train for _ in range(30)]
    assert (scan.num_training, scan.tags) == (len(scan.sample), ["de", "fr"])
    assert scan.dropped == {"with an empty side": 1}
    assert (holdout.sentences("valid"), holdout.sentences("test")) == (parts.valid, parts.test)


def test_a_scan_keeps_a_sample(tmp_path, monkeypatch):
    """And all tags, and every source that an existing part has too."""
    monkeypatch.setattr(encoded_corpus, "MAX_SAMPLE", 7)
    lines = [*LINES, Sentence("one", ("eins",), "xx")]
    inputs = [Sentence("sentence 3", ("?",), "de"), Sentence("another", ("?",), "de")]
    scan = scan_sentences(tmp_path, iter(lines), SentenceHoldout(inputs, [], 0.1))
    assert len(set(scan.sample)) == 7
    assert set(scan.sample) <= set(lines)
    assert read_text(tmp_path) == lines
    assert scan.tags == ["de", "fr", "xx"]
    assert scan.overlap == {"sentence 3"}


def test_the_hash_of_code_is_of_its_file(monkeypatch):
    """In a notebook there is none: then it is of the class as its cell has it."""
    assert hash_code(Character) == hash_code(Word) != hash_code(Bpe)
    main = __import__("sys").modules["__main__"]
    monkeypatch.delattr(main, "__file__", raising=False)
    hashes = []
    for number, word in enumerate(("first", "first", "second")):
        cell = f"class Mine:\n    def train(self):\n        return {word!r}\n"
        monkeypatch.setitem(linecache.cache, f"<cell {number}>", (len(cell), None, cell.splitlines(True), "cell"))
        namespace = {"__name__": "__main__"}
        exec(compile(cell, f"<cell {number}>", "exec"), namespace)
        hashes.append(hash_code(namespace["Mine"]))
    first, equal, changed = hashes
    assert first == equal != changed
