"""Complete runs over several languages that share letters but not sounds."""

import shlex
from itertools import product
from pathlib import Path

import pytest
import torch

import attnx
from tests.runs.conftest import results, table

LANGUAGES = ("fre", "ita", "por_latn_bz")
LETTERS = "abdeks"
FOLDERS = ["task.train=many/train", "task.valid=many/dev", "task.test=many/test", "trainer.valid_examples=null"]
TAG_QUERY = ["query=[current_state,language_tag]", "query.language_tag.embedding_dim=3"]


@pytest.fixture
def many(work_folder):
    """Words of three letters, well mixed: 61 to train on, 5 to validate and 6 to test on, the same in each language."""
    spelled = ["".join(letters) for letters in product(LETTERS, repeat=3)]
    words = [spelled[37 * number % 216] for number in range(72)]
    parts = {"train": words[11:], "dev": words[:5], "test": words[5:11]}
    for part, content in parts.items():
        folder = work_folder / "many" / part
        folder.mkdir(parents=True)
        for tag in LANGUAGES:
            lines = [f"{word}\t{' '.join(letter + tag[0] for letter in word)}\n" for word in content]
            (folder / f"{tag}_{part}.tsv").write_text("".join(lines), encoding="utf-8")
    return work_folder / "many"


TELLS = {
    "the query": [*TAG_QUERY, "trainer.max_steps=40", "trainer.num_validations=8"],
    "the decoder's inputs": ["model.tag_inputs=[decoder]"],
    "the encoder's inputs": ["model.tag_inputs=[encoder]"],
    "a symbol": ["task.tag_token=true"],
}


def test_results_follow_from_predictions(many, run_once):
    """Of each language, of all words, and the mean of the languages, which selects the best weights."""
    run_once(*FOLDERS, *TELLS["the query"], folder="one")
    predicted = table("one/predictions.tsv")
    assert len(predicted) == 18
    rates: dict[str, dict[str, float]] = {"per": {}, "wer": {}}
    for tag in [*LANGUAGES, ""]:
        rows = [row for row in predicted if not tag or row["tag"] == tag]
        assert len(rows) == (6 if tag else 18)
        edits = [int(row["edits"]) for row in rows]
        rates["per"][tag or "micro"] = 100 * sum(edits) / sum(len(row["references"].split()) for row in rows)
        rates["wer"][tag or "micro"] = 100 * sum(edit > 0 for edit in edits) / len(rows)
    for rate, by_tag in rates.items():
        by_tag["macro"] = sum(by_tag[tag] for tag in LANGUAGES) / 3
        reported = {name: value for name, value in results("one").items() if name.startswith(f"test_{rate}")}
        assert reported == pytest.approx({f"test_{rate}_{name}": value for name, value in by_tag.items()})
    rows = table("one/metrics.csv")
    assert [int(row["step"]) for row in rows] == [5, 10, 15, 20, 25, 30, 35, 40]
    for row in rows:
        errors = [float(row[f"valid_per_{tag}"]) for tag in LANGUAGES]
        assert float(row["valid_per_macro"]) == pytest.approx(sum(errors) / 3, rel=1e-4)
    lowest = min(rows, key=lambda row: (float(row["valid_per_macro"]), float(row["valid_loss"])))
    best = torch.load("one/checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] == int(lowest["step"])


def test_a_multilingual_run_is_compared_with_a_monolingual_one(many, run, run_once, command, succeed):
    """It is evaluated on the file that the single run was tested on, whose words have no tag there."""
    run_once(*FOLDERS, *TELLS["a symbol"], folder="three")
    parts = {"train": "train", "valid": "dev", "test": "test"}
    alone = [f"task.{part}=many/{folder}/ita_{folder}.tsv" for part, folder in parts.items()]
    run(*alone, folder="one")
    assert "tested on different examples" in " ".join(command("compare", "three", "one").out.split())
    assert command("evaluate", "three", "task.test=many/test/ita_*.tsv").code == 0
    (evaluation,) = Path("three/evaluations").iterdir()
    output = succeed("compare", str(evaluation), "one")
    assert "PER micro against the first" in output
    assert "different examples" not in output


@pytest.mark.parametrize("tag_query", TELLS.values(), ids=TELLS)
def test_a_reopened_run_predicts_in_a_language(many, run_once, tag_query):
    """It predicts as in the test, and the language matters, however it is given."""
    run_once(*FOLDERS, *tag_query, folder="one")
    reopened = attnx.open_run("one")
    answers: dict[str, dict[str, float]] = {tag: {} for tag in LANGUAGES}
    for row in table("one/predictions.tsv"):
        word = "".join(row["source"].split()).removeprefix(f"<tag:{row['tag']}>")
        (prediction,) = reopened.predict([word], tag=row["tag"])
        assert " ".join(prediction.output) == row["prediction"]
        assert prediction.log_probability == pytest.approx(float(row["log_probability"]), abs=1e-4)
        answers[row["tag"]][word] = prediction.log_probability
    assert len(answers["por_latn_bz"]) == 6
    assert answers["por_latn_bz"] != answers["fre"]
    for wrong in ("", "itaa"):
        with pytest.raises(attnx.UserError, match="fre, ita, por_latn_bz"):
            reopened.predict(["ab"], tag=wrong)


def test_user_input_is_normalized_like_the_data(many, run):
    """A letter with its accent, as one character or as two."""
    for part in ("train", "dev", "test"):
        path = many / part / f"fre_{part}.tsv"
        path.write_text(path.read_text(encoding="utf-8").replace("k", "\u00e9"), encoding="utf-8")
    run(*FOLDERS, *TAG_QUERY, "task.graphemes=nfd", folder="one")
    reopened = attnx.open_run("one")
    assert "\u0301" in reopened.source.symbols
    assert "\u00e9" not in reopened.source.symbols
    (composed,), (decomposed,) = (reopened.predict([word], tag="fre") for word in ("b\u00e9", "be\u0301"))
    assert composed.pair.source == decomposed.pair.source == ("b", "e", "\u0301")
    assert (composed.output, composed.log_probability) == (decomposed.output, decomposed.log_probability)


def test_the_commands_of_the_data_page_work(many, command, no_pictures):
    """As they stand there, with a small model."""
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    block = text.partition("<!-- languages -->\n```sh\n")[2].partition("```")[0]
    commands = [shlex.split(line)[1:] for line in block.splitlines()]
    assert [words[-1] for words in commands] == ["folder=all", "folder=two", "por_latn_bz"]
    many.rename("languages")
    Path("words.txt").write_text("bad\nsad\n", encoding="utf-8")
    small = ["model.embedding_dim=4", "encoder.hidden_size=4", "decoder.hidden_size=4", "trainer.max_steps=3"]
    for words in commands[:2]:
        assert command(*words, *small, "task.holdout=0.15").code == 0
    assert {row["tag"] for row in table("all/predictions.tsv")} == {"fre", "ita", "por_latn_bz"}
    assert {row["tag"] for row in table("two/predictions.tsv")} == {"fre", "por_latn_bz"}
    assert "test_per_por_latn_bz" in results("two")
    answer = command(*commands[2])
    assert (answer.code, len(answer.out.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task.languages=[ita,frr]"], "many/train: has no file of the language 'frr'; did you mean fre?"),
        (["task.languages=[ita,0]"], "task.languages="),
        (["task.graphemes=nfkd"], "task.graphemes=nfkd: expected one of as_is, nfc, nfd, jamo"),
        (["task.test=many/nowhere.tsv"], "many/nowhere.tsv: no such file"),
        (["task.train=$NOT_SET/train"], "the environment variable NOT_SET is not set"),
        (["task.valid=many"], "many: holds no word lists"),
        (["task.train=many/train/ita_train.tsv"], "the valid split has 'fre'"),
    ],
)
def test_mistakes_give_one_line_and_leave_nothing(many, refuse, small, sized, arguments, message):
    assert message in refuse(*sized(*arguments, defaults=[*small[2:], *FOLDERS]), "folder=one")


def test_the_experiment_is_one_model_with_language_tags():
    """Its choices can still be overridden, those of the query as a set."""
    config = attnx.compose(["experiment=g2p_multilingual"])
    assert list(config["query"]) == ["current_state", "language_tag"]
    assert config["task"]["train"] == "$ATTNX_DATA/sigmorphon2020/train"
    assert config["trainer"]["max_epochs"] > 0
    config_without_tag = attnx.compose(["experiment=g2p_multilingual", "query=token", "task.graphemes=jamo"])
    assert list(config_without_tag["query"]) == ["token"]
    assert config_without_tag["task"]["graphemes"] == "jamo"
