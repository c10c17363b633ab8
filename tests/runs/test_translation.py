"""Complete translation runs between two invented languages, and refused data."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

import attnx
from attnx import registry
from attnx.errors import UserError
from attnx.tasks.translation import Translation
from tests.runs.conftest import results, run_info, table, write_lines
from tests.terminal_text import compare_folders

# Each word has one translation, and the second word of a sentence comes last; in the other language words are longer.
WORDS = {"der": "the", "ein": "a", "Hund": "dog", "Äpfel": "apples", "läuft": "runs", "sieht": "sees", "rot": "red"}
FILES = ["task.train=[a.de.gz,b.en]", "task.valid=[va.de,vb.en]", "task.test=[ta.de,tb.en]"]
SIZES = ["task.vocab_size=61", "trainer.max_steps=30"]


def sentences() -> list[str]:
    """Ninety-one sentences of three to five words, all different: numbers to the base of 7, one times 37 the next."""
    words, number, lines = list(WORDS), 1, []
    while len(lines) < 91:
        number, digits = number * 37 % 7919, ""
        remaining = number
        while remaining:
            remaining, digit = divmod(remaining, 7)
            digits += str(digit)
        sentence = " ".join(words[int(digit)] for digit in digits) + "."
        if 3 <= len(digits) <= 5 and sentence not in lines:
            lines.append(sentence)
    return lines


def translate_sentence(sentence: str, mark: str = "") -> str:
    first, second, *remaining = sentence.rstrip(".").split()
    return " ".join(WORDS[word] + mark for word in (first, *remaining, second)) + "!"


@pytest.fixture
def texts(work_folder):
    """Parallel files of three parts: 71 sentences to train on, 7 to validate and 13 to test on, which are returned."""
    result = sentences()
    for source, target, lines in (
        ("a.de.gz", "b.en", result[:71]),
        ("va.de", "vb.en", result[71:78]),
        ("ta.de", "tb.en", result[78:]),
    ):
        write_lines(source, lines)
        write_lines(target, [translate_sentence(line) for line in lines])
    return result[78:]


@pytest.fixture
def translate(run, sized, texts):
    """A small run: ``translate("task.tokenizer=word", folder="a")``."""

    def make(*overrides: str, folder: str) -> Any:
        return run("task=translation", *sized(*overrides, defaults=[*FILES, *SIZES]), folder=folder)

    return make


@pytest.mark.parametrize(("tokenizer", "shared"), [("bpe", True), ("word", False), ("character", True)])
def test_a_run_trains_from_files_and_reports_scores(tokenizer, shared, translate, texts):
    """Its scores are sacreBLEU's of its predictions as text, and reopened it answers as it did in the test."""
    translate(f"task.tokenizer={tokenizer}", f"task.shared_vocabulary={shared}", folder="one")
    reopened = attnx.open_run("one")
    predicted = table("one/predictions.tsv")
    assert len(predicted) == len(texts) == 13
    outputs = [reopened.task.detokenize(row["prediction"].split()) for row in predicted]
    assert len(set(outputs)) > 1
    scorers = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER(case_sensitive=True)}
    references = [[translate_sentence(text) for text in texts]]
    for name, scorer in scorers.items():
        expected = scorer.corpus_score(outputs, references).score
        assert results("one")[f"test_{name}"] == pytest.approx(expected, rel=1e-5)
    assert results("one")["test_chrf"] > 0
    for text, row in zip(texts, predicted, strict=True):
        (prediction,) = reopened.predict([text])
        assert " ".join(prediction.pair.source) == row["source"]
        assert " ".join(prediction.output) == row["prediction"]
    names = {path.name for path in Path("one/vocabulary").iterdir() if path.suffix == ".tokenizer"}
    assert names == ({"source.tokenizer"} if shared else {"source.tokenizer", "target.tokenizer"})
    assert (reopened.source.symbols == reopened.target.symbols) == shared


def test_scores_are_saved_with_their_signatures(translate, succeed):
    """In results, README, evaluations and comparisons; different signatures are distinguished."""
    translate("trainer.max_steps=2", folder="one")
    outputs = [row["prediction"] for row in table("one/predictions.tsv")]
    (scorer := sacrebleu.BLEU()).corpus_score(outputs, [outputs])
    signature = str(scorer.get_signature())
    output = succeed("evaluate", "one", "task.test=[ta.de,tb.en]")
    assert signature in "".join(output.split())
    evaluation = next(Path("one/evaluations").iterdir())
    # Pieces that differ from one reference are no metric of a translation.
    assert not re.search(r"\b(per|wer|error rate|phones?)\b", output, re.IGNORECASE)
    assert not list(evaluation.glob("by_*.tsv"))
    for folder in (Path("one"), evaluation):
        assert results(folder)["signatures"]["bleu"] == signature
        lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
        (line,) = [line for line in lines if "test_bleu" in line]
        assert line.replace("\\", "").endswith(f"{signature} |")
    rows, _ = compare_folders("one", evaluation)
    assert rows["BLEU, signature"] == [signature, signature]
    scores = results(evaluation)
    scores["signatures"]["bleu"] = "nrefs:1|case:lc"
    (evaluation / "results.json").write_text(json.dumps(scores), encoding="utf-8")
    unlike = compare_folders("one", evaluation)[0]["BLEU, signature: different, so not comparable"]
    assert unlike == [signature, "nrefs:1|case:lc"]


def test_the_highest_bleu_selects_the_best_checkpoint(translate):
    translate("trainer.max_steps=80", "trainer.num_validations=8", "optimizer.lr=0.01", folder="one")
    rows = table("one/metrics.csv")
    assert len({row["valid_bleu"] for row in rows}) > 1
    highest = max(rows, key=lambda row: (float(row["valid_bleu"]), -float(row["valid_loss"])))
    best = torch.load("one/checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] == int(highest["step"])


def test_one_model_translates_into_two_languages(translate, texts):
    """The language is part of the query: one table per language, with scores of each."""
    for tag in ("xa", "yb"):
        write_lines(f"{tag}.tsv", [f"{line}\t{translate_sentence(line, tag)}" for line in sentences()])
    data = ["task.train=[xa.tsv,yb.tsv]", "task.valid=null", "task.test=null", "task.languages=[xa,yb]"]
    query = ["query=[current_state,language_tag]", "query.language_tag.embedding_dim=3", "task.tokenizer=word"]
    translate(*data, *query, "task.holdout=0.1", folder="one")
    scores, predicted = results("one"), table("one/predictions.tsv")
    reopened = attnx.open_run("one")
    outputs: dict[str, list[str]] = {"xa": [], "yb": []}
    answers = []
    for row in predicted:
        outputs[row["tag"]].append(reopened.task.detokenize(row["prediction"].split()))
        (prediction,) = reopened.predict([reopened.task.texts.target.detokenize(row["source"].split())], tag=row["tag"])
        assert " ".join(prediction.output) == row["prediction"]
        answers.append(prediction.log_probability)
    assert len(outputs["xa"]) == len(outputs["yb"]) > 3
    assert answers[::2] != pytest.approx(answers[1::2], abs=1e-6)  # the same sentence in either language
    sources = [reopened.task.texts.target.detokenize(row["source"].split()) for row in predicted]
    for tag, written in outputs.items():
        references = [
            translate_sentence(text, tag) for text, row in zip(sources, predicted, strict=True) if row["tag"] == tag
        ]
        assert scores[f"test_chrf_{tag}"] == pytest.approx(sacrebleu.CHRF().corpus_score(written, [references]).score)
    assert scores["test_chrf_macro"] == pytest.approx((scores["test_chrf_xa"] + scores["test_chrf_yb"]) / 2)
    for wrong in ("", "xc"):
        with pytest.raises(attnx.UserError, match="xa, yb"):
            reopened.predict(["der Hund läuft."], tag=wrong)


@pytest.mark.parametrize("tokenizer", registry.names("tokenizer"))
def test_only_training_data_build_the_tokenizer(tokenizer, texts):
    """Other sentences to test and validate on, other scripts even, change no symbol."""
    options: dict[str, Any] = {"train": ["a.de.gz", "b.en"], "tokenizer": tokenizer, "vocab_size": 307}
    corpus = Translation(**options, valid=["va.de", "vb.en"], test=["ta.de", "tb.en"]).load()
    write_lines("other", ["漢字 ñandú", "qq"])
    other_corpus = Translation(**options, valid=["other", "other"], test=["other", "other"]).load()
    assert (other_corpus.source, other_corpus.target) == (corpus.source, corpus.target)
    assert other_corpus.train_dataset().fingerprint() == corpus.train_dataset().fingerprint()
    assert other_corpus.pairs.test[0].texts == ("漢字 ñandú",)


def test_dropped_pairs_are_reported(texts):
    """Blank, too long, too lopsided; and what the test shares with the training."""
    write_lines("a", ["der Hund läuft", "", "ein " * 11, "rot", "der Hund", *texts[:1]])
    write_lines("b", ["the dog runs", "nothing", "a " * 11, "red red red red", "the dog", translate_sentence(texts[0])])
    task = Translation(
        train=["a", "b"],
        valid=["va.de", "vb.en"],
        test=["ta.de", "tb.en"],
        tokenizer="word",
        max_length=7,
        max_length_ratio=3,
    )
    assert [len(part) for part in task.load().pairs] == [3, 7, 13]
    left_out, met = task.notes
    assert left_out.startswith("left out 3 of 6 training pairs: ")
    for reason in ("an empty side", "longer than 7 symbols", "with a side over 3 times as long as the other"):
        assert re.search(f"1 .*{reason}", left_out)
    assert met == "1 of 13 sources of the test split are also in the training split"


@pytest.mark.parametrize(
    ("options", "text", "cut"),
    [
        ({}, "Ein  ﬁt\u00a0A\u0308", "Ein ﬁt Ä"),
        ({"lower": True}, "Ein ÄPFEL", "ein äpfel"),
        ({"unicode_form": "nfkc"}, "ﬁt Ａ²", "fit A2"),
        ({"unicode_form": "nfkc", "lower": True}, "Foo™ №", "footm no"),
        ({"unicode_form": "none"}, "A\u0308pfel", "A\u0308pfel"),
    ],
)
def test_case_and_unicode_form_are_normalized(options, text, cut, work_folder):
    """A user's text and the data's are cut alike; scores are of texts in that case and form."""
    write_lines("a.tsv", [f"{text}\t{text}"])
    task = Translation(train="a.tsv", valid="a.tsv", test="a.tsv", tokenizer="word", **options)
    data = task.load()
    assert data.pairs.test[0].texts == (cut,)
    assert task.tokenize(text) == data.pairs.test[0].source == tuple(cut.split())
    case = "lc" if options.get("lower") else "mixed"
    metrics = torch.nn.ModuleDict(task.metrics(data.tags))
    task.update(metrics, [pair.references[0] for pair in data.pairs.test], data.pairs.test)
    assert metrics["chrf"].compute().item() == pytest.approx(100)
    assert set(task.signatures(metrics)) == {"bleu", "chrf", "ter"}
    assert all(f"nrefs:1|case:{case}|" in signature for signature in task.signatures(metrics).values())


def test_a_run_on_a_data_set_can_be_tested_on_a_file(work_folder):
    """Only training reads one of the two."""
    write_lines("t.tsv", ["der Hund\tthe dog"])
    task = Translation(dataset="pairs.csv", columns=["de", "en"], test="t.tsv", tokenizer="word")
    assert [pair.texts for pair in task.test_pairs()] == [("the dog",)]
    with pytest.raises(UserError, match=r"task\.dataset and task\.test are both set"):
        task.load()


def test_an_unknown_symbol_is_one_word(texts):
    task = Translation(train=["a.de.gz", "b.en"], tokenizer="word", holdout=0.1)
    data = task.load()
    assert task.detokenize(data.target.decode(data.target.encode(["the", "giraffe", "runs", "￭!"]))) == "the ⁇ runs!"


MISTAKES = {
    "task.train=null": "task.train is not set",
    "task.train=[a.de.gz,b.en,b.en]": "3 files; expected a TSV file",
    "task.train=[nowhere.de,b.en]": "nowhere.de: no such file",
    "task.train=[$ATTNX_NOPE/a,b.en]": "ATTNX_NOPE is not set",
    "task.train=a.de.gz": "a.de.gz:1: no tab",
    "task.train=[a.de.gz,b.en] task.languages=[xa] task.test=wrong.tsv": "wrong.tsv:1: no tab",
    "task.languages=[xa,xa]": "task.languages=[xa,xa]: name each language once",
    "task.languages=[x.a]": "'x.a' is not a name",
    "task.train=xa.tsv task.languages=[xa,yb] task.valid=both.tsv task.test=both.tsv": "the valid split has 'yb'",
    "task.train=xa.tsv task.languages=[xa,yb] task.valid=xa.tsv task.test=xa.tsv": "has no pair of 'yb'; remove it",
    "task.tokenizer=bbpe": "unknown tokenizer 'bbpe'; did you mean bpe",
    "task.vocab_size=7": "task.vocab_size=7: the tokenizer bpe needs",
    "task.max_length=1": "no training pair is left: left out 71 of 71 training pairs: 71 longer than 1 symbols",
    "task.max_length_ratio=0.5": "task.max_length_ratio=0.5",
    "task.train=[blank,blank]": "no training pair is left",
    "task.test=[blank,blank]": "blank:1: the line is blank",
    "task.test=[empty,empty]": "the test split holds no pairs; its files are blank",
    "task.test=null task.valid=null task.holdout=0.5": "the held-out shares valid=0.5 and test=1.0",
    "task.test=null task.holdout=0": "the test split holds no pairs",
    "task.columns=[de,en]": "is for tables; a.de.gz is a text of lines",
    "task.dataset=nowhere.csv task.columns=[de,en]": "task.dataset and task.train are both set",
    "task.dataset=x task.train=null task.valid=null task.test=null": "task.dataset needs task.columns",
}


@pytest.mark.parametrize(("overrides", "message"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_gives_one_line_and_writes_nothing(overrides, message, refuse, texts, small, sized):

    write_lines("blank", ["", " "])
    write_lines("empty", [])

    write_lines("xa.tsv", ["der Hund\tthe dog\txa", "ein Hund\ta dog\txa"])
    write_lines("both.tsv", ["rot\tred\txa", "rot\tred\tyb"])
    write_lines("wrong.tsv", ["rot"])

    defaults = [*small[2:], "task.vocab_size=61", *FILES]  # no share is held out: there are files for all
    assert message in refuse("task=translation", *sized(*overrides.split(), defaults=defaults))


CHINESE = {"der": "这", "ein": "一", "Hund": "狗", "Äpfel": "苹果", "läuft": "跑", "sieht": "看", "rot": "红"}


def translate_files(words: dict[str, str], space: str, most: int = 5) -> None:
    """A table of sentences of at most so many words, and their translations word by word."""
    lines = [line.rstrip(".").split()[:most] for line in sentences()]
    pairs = {" ".join(line): space.join(words[word] for word in line) for line in lines}
    write_lines("table.tsv", [f"{source}\t{target}" for source, target in pairs.items()])


@pytest.mark.usefixtures("no_pictures")
def test_bleu_cuts_unspaced_scripts(command, refuse):
    """The signature says so, also where the run is evaluated; an option overrides it."""
    translate_files(CHINESE, "")
    few = ["task=translation", "task.train=table.tsv", "task.vocab_size=61", "trainer.max_steps=2", "task.holdout=0.1"]
    assert command(*few, "folder=run").code == 0
    info = run_info("run")
    assert "tok:zh" in info["signatures"]["bleu"]
    assert info["monitor"] == "valid_bleu"
    assert command("evaluate", "run").code == 0
    (evaluation,) = Path("run/evaluations").iterdir()
    assert "tok:zh" in results(evaluation)["signatures"]["bleu"]
    assert command(*few, "task.bleu_tokenize=char", "folder=char").code == 0
    assert "tok:char" in run_info("char")["signatures"]["bleu"]
    assert "task.bleu_tokenize" in refuse(*few, "task.bleu_tokenize=chars")


@pytest.mark.usefixtures("no_pictures")
def test_chrf_chooses_the_weights_where_bleu_cannot(command):
    translate_files(WORDS, " ", most=3)
    few = ["task=translation", "task.train=table.tsv", "task.vocab_size=61", "trainer.max_steps=2", "task.holdout=0.1"]
    assert command(*few, "folder=run").code == 0
    assert run_info("run")["monitor"] == "valid_chrf"
    assert any(note.startswith("no reference of the validation has 4 words") for note in run_info("run")["notes"])
    write_lines("four.tsv", ["a b c d\ta b c d"])
    task = Translation("four.tsv", "four.tsv", "four.tsv", tokenizer="word", max_length_ratio=1.0)
    task.load()
    assert task.monitor == "valid_bleu"
