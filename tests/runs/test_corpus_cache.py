"""Translation with a cached training corpus: the rows of memory, written once, complete or not at all."""

from __future__ import annotations

import gc
import gzip
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import attnx
from attnx.data.corpus_cache import build, memmap, reading_progress
from attnx.data.corpus_cache.folder import CorpusCache
from attnx.data.examples import Pair
from attnx.data.readers import parallel_corpus
from attnx.data.readers.lines import read_lines
from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import Interrupted, UserError
from attnx.tasks import translation
from attnx.tasks.contract import SequenceData
from attnx.tasks.translation import Translation
from attnx.training.fit import resume

WORDS = {"der": "the", "Hund": "dog", "Äpfel": "apples", "läuft": "runs", "rot": "red"}
FILES_OF_PARTS = {"valid": ["va.de", "vb.en"], "test": ["ta.de", "tb.en"]}


def write(name: str, lines: list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def translate(sentence: str, mark: str = "") -> str:
    return " ".join(WORDS[word] + mark for word in reversed(sentence.rstrip(".").split())) + "!"


@pytest.fixture(autouse=True)
def texts(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All 125 sentences of three words, twice the first, in every way that files can be given; a blank and a long one.

    Of the sentences that are judged, one to test on is also there to train on. A shard has 16 lines of 110.
    """
    monkeypatch.setattr(parallel_corpus, "LINES_PER_SHARD", 16)
    result = [" ".join(words) + "." for words in product(WORDS, repeat=3)]
    lines = [result[0], *result[:107], "rot " * 23 + "."]
    sides = {
        "de": lines,
        **{tag: [translate(line, mark) for line in lines] for tag, mark in (("xa", ""), ("yb", "b"))},
    }
    for side in sides.values():
        side.insert(5, " ")
    write("a.de.gz", sides["de"])
    write("b.en", sides["xa"])
    write("b.yb", sides["yb"])
    for tag in ("xa", "yb"):
        write(
            f"{tag}.tsv", [f"{line}\t{translation}" for line, translation in zip(sides["de"], sides[tag], strict=True)]
        )
    write("mixed.tsv", [f"{line}\t{sides[tag][n]}\t{tag}" for n, line in enumerate(lines) for tag in ("xa", "yb")])
    judged = {"v": result[107:112], "t": [result[3], *result[112:]]}
    for part, sentences in judged.items():
        write(f"{part}a.de", sentences)
        write(f"{part}b.en", [translate(line) for line in sentences])
        tagged = [(line, tag, mark) for line in sentences for tag, mark in (("xa", ""), ("yb", "b"))]
        write(f"{part}.tsv", [f"{line}\t{translate(line, mark)}\t{tag}" for line, tag, mark in tagged])
    return result


def task(cache_folder: str | None = "corpus", **options: Any) -> Translation:
    return Translation(
        **{
            "train": ["a.de.gz", "b.en"],
            "tokenizer": "word",
            "vocab_size": 61,
            "max_length": 7,
            "holdout": 0.1,
            **({"cache_processes": 1} if cache_folder else {}),
            **options,
        },
        cache_folder=cache_folder,
    )


def rows(data: SequenceData) -> list[tuple[list[str], list[str], str]]:
    """Every row to train on, in order, as symbols."""
    encoded = data.train_dataset()
    return [
        (
            data.source.decode(row.source),  # type: ignore[union-attr]
            data.target.decode(row.target),
            data.tags[row.tag] if data.tags else "",
        )
        for row in (encoded[number] for number in range(len(encoded)))
    ]


def message(**options: Any) -> str:
    with pytest.raises(UserError) as caught:
        task(**options).load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files(work_folder: Path) -> list[tuple[Path, bytes]]:
    return [(path, path.read_bytes() if path.is_file() else b"") for path in sorted(work_folder.rglob("*"))]


WAYS: dict[str, dict[str, Any]] = {
    "two files": {},
    "two files, parts given": FILES_OF_PARTS,
    "two files, one part given": {"valid": FILES_OF_PARTS["valid"]},
    "a table": {"train": "xa.tsv", "max_length_ratio": 1.5},
    "a table for each language": {"train": ["xa.tsv", "yb.tsv"], "languages": ["xa", "yb"]},
    "files in step": {"train": ["a.de.gz", "b.en", "b.yb"], "languages": ["xa", "yb"]},
    "one table of two languages": {
        "train": "mixed.tsv",
        "languages": ["yb", "xa"],
        "valid": "v.tsv",
        "test": "t.tsv",
    },
    "one named language": {"train": "xa.tsv", "languages": ["xa"]},
    "lower case, shared": {"lower": True, "unicode_form": "nfkc", "shared_vocabulary": True, "tokenizer": "bpe"},
    "characters": {"tokenizer": "character", "max_length": 17},
}


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_cached_corpus_equals_one_in_memory(options: dict[str, Any]) -> None:
    """Symbols, rows and their order, the other parts, tags and notes: when it is written, and when it is found."""
    plain, first, second = task(None, **options), task(**options), task(**options)
    expected = plain.load()
    for item in (first, second):
        data = item.load()
        assert (data.source, data.target, data.tags) == (expected.source, expected.target, expected.tags)
        assert rows(data) == rows(expected)
        assert (data.pairs.valid, data.pairs.test) == (expected.pairs.valid, expected.pairs.test)
        assert data.pairs.train == []
        assert item.notes == plain.notes
        assert item.tokenize("der  HUND", (expected.tags or ("",))[0]) == plain.tokenize(
            "der  HUND", (expected.tags or ("",))[0]
        )
    assert "longer than" in plain.notes[0]
    assert len(rows(expected)) > 60


@pytest.mark.parametrize("options", [{}, FILES_OF_PARTS], ids=["held out", "given"])
def test_an_existing_cache_is_not_rebuilt(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its training files are only looked at: their names, sizes and times."""
    first = task(**options).load()
    opened: list[str] = []

    def watch_reads(path: Path, **options: Any) -> Iterator[tuple[int, str]]:
        opened.append(path.name)
        return read_lines(path, **options)

    monkeypatch.setattr(parallel_corpus, "read_lines", watch_reads)
    time_before = Path("corpus/origin.json").stat().st_mtime_ns
    again = task(**options).load()
    assert sorted(set(opened)) == sorted(name for part in options.values() for name in part)
    assert again.train_dataset().fingerprint() == first.train_dataset().fingerprint()
    assert Path("corpus/origin.json").stat().st_mtime_ns == time_before


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "more pieces": ({"vocab_size": 67}, "task.vocab_size was 61 and is 67"),
    "another tokenizer": ({"tokenizer": "character"}, "task.tokenizer was word and is character"),
    "another limit": ({"max_length": None}, "task.max_length was 7 and is null"),
    "a ratio, lower case": (
        {"max_length_ratio": 2.0, "lower": True},
        "task.lower was false and is true, task.max_length_ratio was null and",
    ),
    "another share": ({"holdout": 0.2}, "task.holdout was 0.1 and is 0.2"),
    "a part that is given": ({"valid": FILES_OF_PARTS["valid"]}, "task.valid was held out and is given"),
    "other files": ({"train": "xa.tsv"}, "task.train names other files, or they have changed"),
}


@pytest.mark.parametrize(("options", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_cache_of_other_settings_is_refused(options: dict[str, Any], reason: str, work_folder: Path) -> None:
    task().load()
    files_before = files(work_folder)
    text = message(**options)
    assert text.startswith("corpus: was written from other files or settings: ")
    assert reason in text
    assert text.endswith("; delete the folder or name another")
    assert files(work_folder) == files_before


@pytest.mark.parametrize("missing", ["origin", "evaluation_files", "held_out"])
def test_a_damaged_cache_is_refused(missing: str) -> None:
    task().load()
    path = Path("corpus/origin.json")
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != missing}))
    assert message() == "corpus/origin.json: is damaged; delete the folder or name another"


def test_changed_files_are_refused() -> None:
    task().load()
    write("b.en", Path("b.en").read_text(encoding="utf-8").replace("dog", "god").splitlines())
    assert "task.train names other files, or they have changed" in message()


def test_unused_settings_may_differ() -> None:
    """The share that nothing is held out by, the label smoothing, and the place of the files."""
    first = task(**FILES_OF_PARTS).load()
    Path("moved").mkdir()
    for name in ("a.de.gz", "b.en"):
        shutil.move(name, f"moved/{name}")
    moved = task(**FILES_OF_PARTS, train=["moved/a.de.gz", "moved/b.en"], holdout=0.3, label_smoothing=0.1).load()
    assert rows(moved) == rows(first)


def test_other_test_data_keep_the_cache() -> None:
    """Their overlap with the cache is unknown, which is reported."""
    first = task(**FILES_OF_PARTS)
    fingerprint = first.load().train_dataset().fingerprint()
    assert first.notes[1:] == ["1 of 14 sources of the test split are also in the training split"]
    second = task(**{**FILES_OF_PARTS, "test": FILES_OF_PARTS["valid"]})
    data = second.load()
    assert data.train_dataset().fingerprint() == fingerprint
    assert len(data.pairs.test) == 5
    assert second.notes[1:] == ["corpus was written with other valid or test files; the overlap with these is unknown"]


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"train": ["a.de.gz", "nowhere"]}, "nowhere: no such file"),
    "a folder": ({"train": "folder"}, "folder: is a folder"),
    "a bad byte": ({"train": ["bad", "b.en"]}, "bad:2: byte 0xe9 at byte 4 of the line is not UTF-8"),
    "a bad byte, read by another process": (
        {"train": ["late", "b.en"], "cache_processes": 2},
        "late:41: byte 0xe9 at byte 2 of the line is not UTF-8",
    ),
    "out of step": ({"train": ["a.de.gz", "ta.de"]}, "ta.de: has 14 lines, but a.de.gz has 110"),
    "no tab": ({"train": "va.de"}, "va.de:1: no tab"),
    "a wrong language": ({"train": "mixed.tsv", "languages": ["xa", "yc"]}, "mixed.tsv:2: unknown language 'yb'"),
    "a wrong test": ({"test": "va.de"}, "va.de:1: no tab"),
    "a test of another language": (
        {"train": "only.tsv", "languages": ["xa", "yb"], "valid": "v.tsv", "test": "t.tsv"},
        "the valid split has 'yb', which the training split lacks",
    ),
    "all too long": ({"max_length": 1}, "no training pair is left: left out"),
    "nothing": ({"train": ["empty", "empty"]}, "no training pair is left"),
    "no part to judge": ({"holdout": 0.0}, "the valid split holds no pairs"),
    "too few pieces": ({"tokenizer": "bpe", "vocab_size": 3}, "task.vocab_size=3: the tokenizer bpe needs"),
    "a variable": (
        {"cache_folder": "$ATTNX_NOPE/corpus"},
        "task.cache_folder=$ATTNX_NOPE/corpus: the environment variable",
    ),
    "a place below a file": ({"cache_folder": "b.en/corpus"}, "b.en/corpus: cannot be written: "),
    "a place that is taken": (
        {"cache_folder": "folder"},
        "folder: holds no corpus that task.cache_folder wrote; delete the folder",
    ),
    "a file in its place": ({"cache_folder": "b.en"}, "b.en: holds no corpus that task.cache_folder wrote"),
    "a pipe": (
        {"train": ["pipe", "b.en"]},
        "pipe: is not a plain file; task.cache_folder reads the training files twice",
    ),
    "a dataset and files": ({"dataset": "x.csv", "columns": ["de", "en"]}, "task.dataset and task.train are both set"),
    "a dataset without columns": ({"train": None, "dataset": "x.csv"}, "task.dataset needs task.columns"),
    "no training files": ({"train": None}, "task.train is not set"),
    "processes without a cache": (
        {"cache_folder": None, "cache_processes": 2},
        "task.cache_processes=2 is for task.cache_folder; remove it, or set task.cache_folder",
    ),
}


@pytest.mark.parametrize(("options", "reason"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_before_anything_is_written(
    options: dict[str, Any], reason: str, work_folder: Path
) -> None:
    Path("folder").mkdir()
    write("folder/mine", ["some"])
    write("empty", [])
    write("only.tsv", ["rot\tred\txa"] * 5)
    Path("bad").write_bytes(b"abc\ncaf\xe9\n" + 108 * b"abc\n")
    Path("late").write_bytes(40 * b"abc\n" + b"a\xe9\n" + 69 * b"abc\n")
    os.mkfifo("pipe")
    files_before = files(work_folder)
    assert reason in message(**{"cache_folder": "new/corpus", **options})
    assert files(work_folder) == files_before


def test_an_empty_language_is_reported(work_folder: Path) -> None:
    """As when the training split has none of it."""
    long = [f"der Hund {n}\t{'x ' * 11}\tyb" for n in range(97)]
    write("mixed.tsv", [*Path("mixed.tsv").read_text(encoding="utf-8").splitlines(), *long])
    write("mixed.tsv", [line for line in Path("mixed.tsv").read_text().splitlines() if "xa" in line or "x x" in line])
    files_before = files(work_folder)
    text = message(train="mixed.tsv", languages=["xa", "yb"])
    assert text.startswith("no training pair of 'yb' is left: left out ")
    assert files(work_folder) == files_before


def stop_at(patch: pytest.MonkeyPatch, call: int, stop: Callable[[], Any], chunk: int = 7) -> list[int]:
    """Stop as the rows of some sentences are written, at this call of two for each of them; count the calls."""
    append, calls = memmap._append, []
    patch.setattr(memmap, "ROWS_PER_CHUNK", chunk)

    def stopping(written: Any, side: str, sequences: list[list[int]]) -> None:
        append(written, side, sequences)
        calls.append(len(sequences))
        assert not Path("corpus").exists()
        if len(calls) == call:
            stop()

    patch.setattr(memmap, "_append", stopping)
    return calls


def raising(what: type[BaseException]) -> Callable[[], Any]:
    def stop() -> None:
        raise what("No space left on device")

    return stop


@pytest.fixture
def complete_cache(work_folder: Path) -> list[tuple[str, bytes]]:
    """The files of a cache that was written at once, with their bytes."""
    task("whole").load()
    return contents("whole")


def contents(folder: str) -> list[tuple[str, bytes]]:
    return [(str(path.relative_to(folder)), content) for path, content in files(Path(folder)) if path.is_file()]


@pytest.mark.parametrize("what", [KeyboardInterrupt, OSError])
def test_interrupted_writing_is_resumed(
    what: type[BaseException],
    complete_cache: list[tuple[str, bytes]],
    work_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no cache before, but what was done of it; when it is there, nothing else is."""
    with monkeypatch.context() as patched:
        calls = stop_at(patched, 5, raising(what))
        with pytest.raises((KeyboardInterrupt, UserError), match="No space left"):
            task().load()
    assert len(calls) == 5
    assert {"scan.json", "rows"} <= {path.name for path in Path("corpus.unfinished").iterdir()}
    done = json.loads(Path("corpus.unfinished/rows/000000/corpus.json").read_text())["rows"]
    with monkeypatch.context() as patched:
        calls = stop_at(patched, 0, raising(AssertionError))
        data = task().load()
    assert 2 * (len(rows(data)) - done) == sum(calls)  # the first shard was complete
    assert contents("corpus") == complete_cache
    assert [path.name for path in work_folder.iterdir() if "corpus" in path.name] == ["corpus"]
    assert rows(data) == rows(task(None).load())


KILLED = {"in the first reading": 0, "before a chunk": 1, "in a chunk": 2, "behind several": 5, "at the end": -1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a copy of this process to kill")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("moment", KILLED.values(), ids=KILLED)
def test_killed_writing_is_resumed(
    moment: int, complete_cache: list[tuple[str, bytes]], work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SIGKILL, without cleanup; the resumed cache has the same bytes."""

    def die(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        try:
            stop_at(monkeypatch, moment, die)
            if moment == 0:
                monkeypatch.setattr(build, "reservoir_sample", die)
            if moment == -1:
                monkeypatch.setattr(CorpusCache, "finish", die)
            task().load()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not Path("corpus").exists()
    monkeypatch.setattr(memmap, "ROWS_PER_CHUNK", 11)  # how the rest is divided changes no byte
    task().load()
    assert contents("corpus") == complete_cache
    assert [path.name for path in work_folder.iterdir() if "corpus" in path.name] == ["corpus"]


PROCESSES: dict[str, dict[str, Any]] = {
    "two": {"cache_processes": 2},
    "more than shards": {"cache_processes": 9},
    "one a core, tables": {"cache_processes": None, "train": ["xa.tsv", "yb.tsv"], "languages": ["xa", "yb"]},
}


@pytest.mark.parametrize("options", PROCESSES.values(), ids=PROCESSES)
def test_the_number_of_processes_changes_no_byte(options: dict[str, Any]) -> None:
    task("alone", **{**options, "cache_processes": 1}).load()
    task("several", **options).load()
    written, expected = contents("several"), contents("alone")
    assert written == expected
    assert len([name for name, _ in written if name.endswith("source.ids")]) == 7


def test_a_killed_writer_is_reported_and_its_shards_are_written_later(
    complete_cache: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What both writers have finished stays, and three go on."""
    parent, append = os.getpid(), memmap._append

    def die_in_fourth_shard(files: Any, *args: Any) -> None:
        append(files, *args)
        if os.getpid() != parent and "000003" in files["source.ids"].stream.name:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(memmap, "_append", die_in_fourth_shard)
        assert "corpus: cannot be written: a process that worked on it was killed" in message(cache_processes=2)
    first = Path("corpus.unfinished/rows/000001/source.ids").stat().st_mtime_ns
    task(cache_processes=3).load()
    assert contents("corpus") == complete_cache
    assert Path("corpus/rows/000001/source.ids").stat().st_mtime_ns == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a copy of this process to kill")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_writers_end_with_a_killed_command(
    complete_cache: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep the lock until then, so that the next command waits for them."""
    monkeypatch.setattr(build, "SENTENCES_PER_REPORT", 1)
    append = memmap._append

    def slow(files: Any, *args: Any) -> None:
        Path("writing").touch()
        time.sleep(0.05)
        append(files, *args)

    if not (child := os.fork()):
        try:
            monkeypatch.setattr(memmap, "_append", slow)
            task(cache_processes=2).load()
        finally:
            os._exit(1)
    while not Path("writing").exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    task().load()
    assert contents("corpus") == complete_cache


@pytest.mark.parametrize("change", ["files", "settings"])
def test_a_partial_cache_of_other_settings_is_discarded(
    change: str, work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stop_at(patched, 5, raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            task().load()
    if change == "files":
        write("b.en", Path("b.en").read_text(encoding="utf-8").replace("dog", "god").splitlines())
    options = {"max_length": 6} if change == "settings" else {}
    assert rows(task(**options).load()) == rows(task(None, **options).load())


def test_a_damaged_partial_cache_is_discarded(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        stop_at(patched, 5, raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            task().load()
    Path("corpus.unfinished/rows/000000/source.ids").write_bytes(b"")
    assert "000000/source.ids: has 0 bytes, expected" in message()
    assert rows(task().load()) == rows(task(None).load())


def test_a_cache_that_is_finished_meanwhile_is_read(
    complete_cache: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without reading a training file: another process may have finished it while this one has begun."""
    find, results = CorpusCache.find, iter([None])
    monkeypatch.setattr(CorpusCache, "find", lambda cache: next(results, ...) and find(cache))
    monkeypatch.setattr(parallel_corpus, "line_starts", lambda *_: pytest.fail("a file is read"))
    assert len(task("whole").load().train_dataset()) > 60
    assert contents("whole") == complete_cache
    assert not Path("whole.unfinished").exists()


def test_progress_counts_all_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those held out, blank or dropped, and those of an earlier command: each pass ends at 100 %."""
    passes: list[list[Any]] = []

    @contextmanager
    def count(action: str, total: int, start: int = 0) -> Iterator[Callable[[int], None]]:
        passes.append([action, start, total, start])

        def advance(sentences: int) -> None:
            passes[-1][-1] += sentences

        yield advance

    monkeypatch.setattr(build, "show_progress", count)
    with monkeypatch.context() as patched:
        stop_at(patched, 5, raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            task().load()
    task().load()
    assert passes == [["reading", 0, 110, 110], ["encoding", 0, 110, passes[1][-1]], ["encoding", 16, 110, 110]]


def test_progress_is_logged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a minute: how many, how many a second, and the share of all."""
    clock = iter(range(0, 10_000, 50))
    monkeypatch.setattr(reading_progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with reading_progress.show_progress("encoding", 8000, start=2000) as advance:
        for _ in range(4):
            advance(1000)
    assert capsys.readouterr().err.splitlines() == [
        "encoding: 4,000 sentences, 20/s, 50%",
        "encoding: 6,000 sentences, 20/s, 75%",
    ]


def test_files_changed_while_reading_are_reported(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = CorpusCache.finish

    def slowly(*args: Any) -> None:
        os.utime("b.en", ns=(0, 0))
        finish(*args)

    monkeypatch.setattr(CorpusCache, "finish", slowly)
    assert message() == "task.train: a file has changed while it was read; start again"
    assert not [path for path in work_folder.iterdir() if "corpus" in path.name]


def test_memory_use_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,003 lines a sample of 13, what is encoded at once, and up to three on their way."""
    write("long.tsv", [f"der Hund {number}\tthe dog {number}" for number in range(5003)])
    monkeypatch.setattr(build, "MAX_SAMPLE", 13)
    monkeypatch.setattr(memmap, "ROWS_PER_CHUNK", 17)
    monkeypatch.setattr(build, "SENTENCES_PER_REPORT", 1)
    monkeypatch.setattr(parallel_corpus, "LINES_PER_SHARD", 5003)
    most = {1: 0, 2: 0}
    readings: list[int] = []

    def alive() -> int:
        return sum(type(instance) in (Sentence, Pair) for instance in gc.get_objects())

    def watch_reads(path: Path, **options: Any) -> Iterator[tuple[int, str]]:
        readings.append(1 if path.name == "long.tsv" else 0)
        for number, line in read_lines(path, **options):
            if path.name == "long.tsv" and number % 503 == 0:
                most[sum(readings)] = max(most[sum(readings)], alive() - count_before)
            yield number, line

    gc.collect()
    count_before = alive()
    monkeypatch.setattr(parallel_corpus, "read_lines", watch_reads)
    data = task(train="long.tsv", **FILES_OF_PARTS).load()
    assert len(data.train_dataset()) == 5003
    assert readings.count(1) == 2
    judged = 5 + 14
    assert 13 <= most[1] <= judged + 13 + 3
    assert most[2] <= judged + 17 + 3


def test_too_many_held_out_sentences_are_reported(monkeypatch: pytest.MonkeyPatch, work_folder: Path) -> None:
    monkeypatch.setattr(translation, "MAX_HELD_OUT", 3)
    assert message().startswith("task.holdout=0.1 holds out more than 3 sentences, which must fit in memory")
    assert not Path("corpus").exists()
    assert task(None).load().pairs.test


def test_a_cache_path_may_use_a_variable(monkeypatch: pytest.MonkeyPatch, work_folder: Path) -> None:
    monkeypatch.setenv("ATTNX_CACHES", str(work_folder / "caches"))
    data = task("$ATTNX_CACHES/de-en").load()
    assert (work_folder / "caches" / "de-en" / "rows" / "corpus.json").is_file()
    assert rows(data) == rows(task(None).load())


RUN = [
    "task=translation",
    "task.train=[a.de.gz,b.en]",
    "task.tokenizer=word",
    "task.vocab_size=61",
    "task.max_length=7",
]


def test_a_run_with_a_cache_gives_equal_results(run: Callable[..., Any], same_weights: Callable[..., bool]) -> None:
    """Equal weights, scores and notes; a reopened run does not need the cache."""
    run(*RUN, folder="memory")
    run(*RUN, "task.cache_folder=corpus", folder="cached")
    assert same_weights(["memory", "cached"])
    noted = [json.loads(Path(folder, "run.json").read_text(encoding="utf-8")) for folder in ("memory", "cached")]
    assert noted[0]["data"] == noted[1]["data"]
    assert int(noted[1]["data"].split(" train")[0]) == len(rows(task(holdout=0.15).load()))
    assert noted[0]["notes"] == noted[1]["notes"]
    shutil.rmtree("corpus")
    assert attnx.open_run("cached").predict(["der Hund läuft."])


def test_an_interrupted_run_resumes_with_its_cache(
    run: Callable[..., Any], same_weights: Callable[..., bool], interrupt_at: Callable[..., None]
) -> None:
    """The folder as the run left it; without it the run makes the same again, and another one is not taken for it."""
    overrides = [*RUN, "task.cache_folder=corpus", "trainer.max_steps=7"]
    run(*overrides, folder="whole")
    for folder in ("cut", "later", "never"):
        interrupt_at(3)
        with pytest.raises(Interrupted, match=folder):
            run(*overrides, folder=folder)
    resume("cut")
    shutil.rmtree("corpus")
    resume("later")
    assert same_weights(["whole", "cut", "later"])
    shutil.rmtree("corpus")
    write("b.en", Path("b.en").read_text(encoding="utf-8").replace("dog", "god").splitlines())
    with pytest.raises(UserError, match="never: the training data have changed"):
        resume("never")


def test_the_command_builds_a_cache_and_reports_it(
    command: Callable[..., Any], small: list[str], work_folder: Path
) -> None:
    """A mistake is one line, and neither a run nor a corpus is left."""
    task().load()
    files_before = files(work_folder)
    words = [
        *[size for size in small if not size.startswith("task.")],
        *RUN,
        "task.max_length=5",
        "task.cache_folder=corpus",
    ]
    answer = command(*dict.fromkeys(words))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(
        "attnx: corpus: was written from other files or settings: task.max_length was 7 and is 5"
    )
    assert answer.err.count("\n") == 1
    assert files(work_folder) == files_before
