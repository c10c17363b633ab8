"""``attnx export``: the files run without attnx, and unsupported models are refused with nothing written."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnx
from attnx.export import folder as exporting
from tests.runs.conftest import write_plug_in

for package in ("onnx", "onnxruntime"):
    pytest.importorskip(package, reason="the extra attnx[export] is not installed")


COUNTING = "".join(f"{n} {n * 7 % 13} {n % 5}\t{n % 5} {n * 7 % 13}\t{('low', 'high')[n % 2]}\n" for n in range(60))
SENTENCES = [f"Ein {first} sieht {second}." for first in ("Hund", "Mann", "Ball") for second in ("rot", "ihn", "uns")]
SIZES = [
    "model.embedding_dim=5",
    "decoder.hidden_size=11",
    "trainer.batch_size=8",
    "trainer.max_steps=20",
    "trainer.num_validations=1",
    "folder=one",
]
WAVY_SCORER = """
import torch
from attnx.attention.scorers.dot import Dot
from attnx.registry import register

@register("scorer", "wavy")
class Wavy(Dot):
    def score(self, queries, keys):
        return torch.special.erfcx(torch.tanh(super().score(queries, keys)))
"""
# What is trained, a source, and its tag.
SYMBOLS: dict[str, tuple[list[str], str, str]] = {
    "letters": (["task.train=words.tsv", "encoder.hidden_size=7", "decoding=sampling"], "dabqassab", ""),
    "tagged": (
        ["task=sequences", "task.train=counting.tsv", "task.source=ids", "task.target=ids", "task.tagged=true",
         "model.tag_inputs=[encoder]", "encoder.hidden_size=7"],
        "3 8 3", "high",
    ),
    "tag_token": (["task.train=languages", "task.tag_token=true", "encoder.hidden_size=7"], "dabqassab", "high"),
    "continued": (["task=language_model", "task.train=text.txt", "recipe=attention_rnn"], "Ein Hund", ""),
}  # fmt: skip


@pytest.mark.usefixtures("words", "no_pictures")
@pytest.mark.parametrize("task", SYMBOLS)
def test_the_example_decodes_like_the_greedy_search(task, command):
    """In a process that has no attnx; unknown symbols, tags and the beginning of a continuation included."""
    overrides, source, tag = SYMBOLS[task]
    Path("counting.tsv").write_text(COUNTING, encoding="utf-8")
    Path("text.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    Path("languages").mkdir()
    for language in ("low", "high"):
        shutil.copyfile("words.tsv", f"languages/{language}.tsv")
    trained = attnx.fit(attnx.compose([*SIZES, "task.holdout=0.15", *overrides]))
    answer = command("export", "one", "--out", "an out")
    assert answer.code == 0, answer.err
    assert f"an out: try python 'an out/example.py' {'TAG ' if tag else ''}SYMBOL ..." in answer.out
    expected = trained.predict([source], tag, decoding="greedy")[0]
    # -P: the current folder is not looked into.
    blind = "import sys; sys.modules['attnx'] = None; import runpy; sys.argv = sys.argv[1:]; "
    code = blind + "runpy.run_path(sys.argv[0], run_name='__main__')"
    symbols = expected.pair.source
    words = [*([tag] if tag else []), *symbols[symbols[0] == f"<tag:{tag}>" :]]
    called = [sys.executable, "-P", "-c", code, "an out/example.py"]
    printed = subprocess.run([*called, *words], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == expected.output
    assert subprocess.run(called, capture_output=True, text=True).stderr.startswith("Decodes one source")
    mistaken = subprocess.run([*called, "hihg", "a"], capture_output=True, text=True)
    assert not tag or mistaken.stderr == "hihg: unknown tag; give one of high, low before the source\n"


@pytest.mark.usefixtures("run")
def test_tokenizers_are_exported(run, command):
    Path("texts.tsv").write_text("".join(f"{line}\t{line}\n" for line in SENTENCES), encoding="utf-8")
    run("task=translation", "task.train=texts.tsv", "task.vocab_size=40", "trainer.max_steps=1", folder="one")
    answer = command("export", "one", "--out", "out")
    assert answer.code == 0, answer.err
    for name in ("source.tokenizer", "target.tokenizer"):
        assert Path("out", name).read_bytes() == Path("one/vocabulary", name).read_bytes()


def test_a_source_of_features_is_exported(run, command):
    from attnx.export.example import decode

    Path("tracks").mkdir()
    drawn = np.random.default_rng(7)
    for number in range(20):
        np.save(f"tracks/{number}.npy", drawn.standard_normal((3 + number % 5, 2)).astype(np.float32))
    Path("pairs.tsv").write_text(
        "".join(f"tracks/{n}.npy\t{'ab' * (n % 3 + 1)}\t{('low', 'high')[n // 2 % 2]}\n" for n in range(20)),
        encoding="utf-8",
    )
    trained = run(
        "task=sequences", "task.train=pairs.tsv", "task.source=features", "task.target=characters",
        "task.tagged=true", "model.tag_inputs=[encoder]", "task.holdout=0.2", "trainer.max_steps=3", folder="one",
    )  # fmt: skip
    answer = command("export", "one", "--examples", "103")
    assert answer.code == 0, answer.err
    assert "at each step of 103 outputs of random sources the log" in answer.out
    assert "one/export/onnx: try python one/export/onnx/example.py TAG MATRIX.npy" in answer.out
    expected = trained.predict([np.load("tracks/1.npy")], "low", decoding="greedy")[0].output
    assert decode(Path("one/export/onnx"), ["low", "tracks/1.npy"]) == expected


@pytest.mark.parametrize(
    ("overrides", "message"),
    {
        "one --uot out": "unknown flag --uot",
        "": "attnx export needs RUN",
        "nowhere": "nowhere",
        "one --examples 0": "--examples 0: expected a whole number",
        "one --out words.tsv": "words.tsv: is there already",
    }.items(),
)
def test_mistaken_arguments_are_reported(overrides, message, runs, refuse):
    assert message in refuse("export", *overrides.split())


def test_targets_of_numbers_are_refused(runs, refuse, monkeypatch):
    monkeypatch.setattr(exporting.TrainedRun, "target", property(lambda self: None))
    assert "writes rows of numbers" in refuse("export", "one")


def test_missing_packages_are_reported(runs, refuse, monkeypatch):
    for name in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it now fails
    assert "in the clone of attnx, pip install -c constraints.txt -e '.[export]'" in refuse("export", "one")


@pytest.mark.usefixtures("words", "no_pictures", "new_parts_are_forgotten")
def test_an_operator_that_onnx_lacks_is_named(command):
    write_plug_in("wavy", WAVY_SCORER)
    assert command("scorer=wavy", "task.train=words.tsv", *SIZES).code == 0
    answer = command("export", "one")
    lines = [line for line in answer.err.splitlines() if line.startswith("attnx: ")]  # torch logs in this process
    assert (answer.code, len(lines)) == (2, 1)
    assert lines[0].startswith("attnx: one: cannot be exported: ")
    assert "special_erfcx" in lines[0]
    assert not Path("one/export").exists()


def test_exported_files_with_other_numbers_are_deleted(run, monkeypatch, command):
    """What was traced wrongly is noticed: here every log-probability is doubled."""
    save = exporting.save_onnx

    def write(program: Any, path: Path) -> None:
        class Doubled(torch.nn.Module):
            def forward(self, *args: Any) -> Any:
                first, *remaining = program.module(*args)
                return (2 * first, *remaining)

        save(program._replace(module=Doubled()) if path.stem == "decode_step" else program, path)

    monkeypatch.setattr(exporting, "save_onnx", write)
    run("trainer.max_steps=1", folder="one")
    answer = command("export", "one")
    assert answer.code == 2
    assert "cannot be exported" in answer.err
    assert not Path("one/export").exists()
