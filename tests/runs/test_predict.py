"""``attnx predict``: lines in, lines out, in order for any batches; and its options."""

import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnx
from attnx.cli import main
from attnx.cli.commands import predict as predicting
from attnx.cli.commands.predict.read import LineReader
from attnx.cli.commands.predict.write import heatmap
from attnx.inference.trained_run import TrainedRun
from attnx.nn.encoders.recurrent import RecurrentEncoder
from tests.runs.conftest import feature_matrix, write_parts

WORDS = ["dab", "kes", "", "sabeb", "be", "kadek", " ", "a"]


def text(words: list[str], end: str = "\n") -> str:
    return "".join(f"{word}{end}" for word in words)


def answers(folder: str | Path, words: list[str], checkpoint: str = "best") -> list[str]:
    """The prediction for each word, one by one from Python; empty for a blank line."""
    run = attnx.open_run(folder, checkpoint)
    return [" ".join(run.predict([word])[0].output) if word.strip() else "" for word in words]


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Let standard input be these bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


@pytest.mark.parametrize("batch", [1, 3, 128])
def test_predictions_keep_the_order_of_lines(batch, runs, succeed):
    Path("words.txt").write_text(text(WORDS), encoding="utf-8")
    output = succeed("predict", "one", "words.txt", "--batch", str(batch))
    assert output == text(answers("one", WORDS))
    assert len(set(output.splitlines())) > 4


def test_standard_input_is_read_like_a_file(runs, command, monkeypatch):
    """With a byte order mark, spaces and line ends of another system behind lines, and nothing behind the last one."""
    for file in ([], ["-"]):
        give(monkeypatch, b"\xef\xbb\xbf" + text(WORDS, " \r\n").removesuffix(" \r\n").encode())
        assert command("predict", "one", *file).out == text(answers("one", WORDS))
    give(monkeypatch, b"")
    assert command("predict", "one") == (0, "", "")


def test_the_n_best_are_printed_in_order(runs, command):
    Path("words.txt").write_text(text(["dab", "", "sabeb"]), encoding="utf-8")
    rows = [line.split("\t") for line in command("predict", "one", "words.txt", "--nbest", "3").out.splitlines()]
    assert [" ".join(row[:2]) for row in rows] == ["1 1", "1 2", "1 3", "2 1", "3 1", "3 2", "3 3"]
    assert rows[3][2:] == ["", ""]
    run = attnx.open_run("one", decoding=("beam", {"beam_size": 5, "nbest": 3}))
    hypotheses = [item for best in run.predict(["dab", "sabeb"]) for item in (best, *best.alternatives)]
    shown = [row for row in rows if row[3]]
    assert [row[3] for row in shown] == [" ".join(item.output) for item in hypotheses]
    assert [float(row[2]) for row in shown] == pytest.approx([item.score for item in hypotheses], abs=1e-5)
    assert hypotheses[0].score > hypotheses[1].score > hypotheses[2].score


def test_a_search_and_its_options_can_be_set(runs, command):
    """Whichever it is, the run's own rules of what outputs may be hold; an n-best list widens a beam."""
    Path("words.txt").write_text("sabeb\n\n", encoding="utf-8")
    run = attnx.open_run("one")
    (prediction,) = run.predict(["sabeb"])
    short = command("predict", "one", "words.txt", "decoding.max_length_ratio=0.2", "decoding.max_length_extra=1").out
    assert short == " ".join(prediction.output[:2]) + "\n\n"
    listed = command("predict", "one", "words.txt", "decoding=beam", "decoding.beam_size=2", "decoding.nbest=2").out
    (best,) = run.predict(["sabeb"], decoding=("beam", {"beam_size": 2, "nbest": 2}))
    assert listed.splitlines()[:2] == [
        f"1\t{rank}\t{hypothesis.score:.6f}\t{' '.join(hypothesis.output)}"
        for rank, hypothesis in enumerate([best, *best.alternatives], 1)
    ]
    assert len(command("predict", "one", "words.txt", "--nbest", "7").out.splitlines()) == 7 + 1
    first, blank = command("predict", "one", "words.txt", "--scores").out.splitlines()
    assert first == f"{prediction.log_probability:.6f}\t{' '.join(prediction.output)}"
    assert blank == "\t"


def test_alignments_have_two_formats(runs, command):
    Path("words.txt").write_text(text(["dab", "", "sabeb"]), encoding="utf-8")
    for name in ("links.txt", "weights.jsonl"):
        assert command("predict", "one", "words.txt", "--alignments", name).code == 0
    predictions = attnx.open_run("one").predict(["dab", "sabeb"], need_weights=True)
    links = [
        " ".join(f"{row.argmax()}-{step}" for step, row in enumerate(prediction.weights[: len(prediction.output)]))
        for prediction in predictions
    ]
    assert Path("links.txt").read_text().splitlines() == [links[0], "", links[1]]
    first, blank, last = map(json.loads, Path("weights.jsonl").read_text().splitlines())
    assert blank == {"line": 2, "rank": 1}
    for alignment, prediction, line in ((first, predictions[0], 1), (last, predictions[1], 3)):
        assert (alignment["line"], alignment["rank"], alignment["num_decoder_states"]) == (line, 1, 0)
        assert alignment["source"] == list(prediction.pair.source)
        assert alignment["output"] == [*prediction.output, "</s>"][: len(prediction.weights)]
        assert np.array(alignment["weights"]) == pytest.approx(prediction.weights, abs=2e-6)
        assert alignment["log_probability"] == pytest.approx(prediction.log_probability, abs=1e-5)


def test_each_of_the_best_n_has_its_own_alignment(runs, command):
    Path("words.txt").write_text("sabeb\n\n", encoding="utf-8")
    answer = command("predict", "one", "words.txt", "--nbest", "3", "--alignments", "weights.jsonl")
    lines = [json.loads(line) for line in Path("weights.jsonl").read_text().splitlines()]
    assert [(line["line"], line["rank"]) for line in lines] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    best = attnx.open_run("one").predict(["sabeb"], need_weights=True, nbest=3)[0]
    for line, hypothesis, row in zip(lines[:3], (best, *best.alternatives), answer.out.splitlines(), strict=False):
        assert line["output"] == [*hypothesis.output, "</s>"]
        assert row.endswith(f"\t{' '.join(hypothesis.output)}")
        assert np.array(line["weights"]) == pytest.approx(hypothesis.weights, abs=2e-6)
    assert lines[0]["weights"] != lines[1]["weights"]


TWO_HEADS = ["scorer=scaled", "attention.heads=2", "encoder.hidden_size=8", "decoder.hidden_size=10"]


def test_other_memories_have_alignments(runs, run, command, refuse):
    """Own states are columns behind the source's and give no links; without a source there are none; heads are kept."""
    run(*TWO_HEADS, "scope=encoder_decoder", "trainer.max_steps=2", folder="both")
    run("scope=history", "trainer.max_steps=2", folder="own")
    Path("words.txt").write_text("sabeb\n", encoding="utf-8")
    assert command("predict", "both", "words.txt", "--alignments", "both.jsonl").code == 0
    (alignment,) = map(json.loads, Path("both.jsonl").read_text().splitlines())
    (prediction,) = attnx.open_run("both").predict(["sabeb"], need_weights=True)
    assert np.array(alignment["heads"]) == pytest.approx(prediction.weights, abs=2e-6)
    assert np.array(alignment["weights"]) == pytest.approx(prediction.weights.mean(0), abs=2e-6)
    assert alignment["num_decoder_states"] == prediction.num_decoder_states > 0
    assert alignment["source"] == [*"sabeb", *alignment["output"][: prediction.num_decoder_states]]
    assert command("predict", "both", "words.txt", "--alignments", "both.txt").code == 0
    rows = prediction.weights.mean(0)[: len(prediction.output)]
    links = [f"{row.argmax()}-{step}" for step, row in enumerate(rows) if row.argmax() < len("sabeb")]
    assert Path("both.txt").read_text() == " ".join(links) + "\n"
    assert command("predict", "own", "words.txt", "--alignments", "own.jsonl").code == 0
    for words, message in (
        (["own", "words.txt", "--alignments", "own.txt"], "this run reads no source; .jsonl holds its weights"),
        (["own", "words.txt", "--unknown", "keep"], "this run's attention does not read the source"),
        (["one", "both", "words.txt", "--alignments", "all.jsonl"], "of these runs cannot be averaged"),
        (["one", "both", "words.txt", "--unknown", "keep"], "of these runs cannot be averaged"),
    ):
        assert message in refuse("predict", *words)


def test_without_attention_there_is_nothing_to_align(runs, run, command, refuse):
    run("attention=none", "trainer.max_steps=2", folder="none")
    for words in (["none", "words.tsv"], ["one", "none", "words.tsv"]):
        assert "this run has no attention" in refuse("predict", *words, "--alignments", "links.txt")
    assert command("predict", "one", "none", "words.tsv", "--column", "1", "--batch", "7").code == 0


def test_a_column_of_a_table_is_predicted(runs, command):
    Path("table.tsv").write_text("1\tdab\tx\n\n2\tkes\n", encoding="utf-8")
    answer = command("predict", "one", "table.tsv", "--column", "2")
    assert answer.out == text(answers("one", ["dab", "", "kes"]))
    answer = command("predict", "one", "table.tsv", "--column=3")
    assert (answer.code, answer.out) == (2, text(answers("one", ["x", ""])))
    assert answer.err == "attnx: table.tsv:3: 2 columns, but --column is 3\n"


BROKEN = b"dab\nk\xffs\n\nkes\n"


def test_a_bad_line_stops_is_skipped_or_kept_empty(runs, command, refuse):
    Path("bad.txt").write_bytes(BROKEN)
    message = "attnx: bad.txt:2: byte 0xff at byte 2 of the line is not UTF-8; save the file as UTF-8: 'k\ufffds'\n"
    dab, kes = answers("one", ["dab", "kes"])
    assert command("predict", "one", "bad.txt") == (2, f"{dab}\n", message)
    message += "attnx: 1 of 4 lines could not be read\n"
    for choice, lines in (("skip", f"{dab}\n\n{kes}\n"), ("keep", f"{dab}\n\n\n{kes}\n")):
        assert command("predict", "one", "bad.txt", "--on-error", choice) == (0, lines, message)
    Path("worse.txt").write_bytes(BROKEN[4:])
    refuse("predict", "one", "worse.txt", "--out", "out.txt")


def test_an_unknown_symbol_is_replaced_refused_or_kept(runs, command, monkeypatch):
    give(monkeypatch, "daß\n".encode())
    answer = command("predict", "one")
    assert "1 line with symbols that this run does not know, read as the unknown symbol: ß" in answer.err
    give(monkeypatch, "dab\ndaß\n".encode())
    answer = command("predict", "one", "--unknown", "refuse")
    assert (answer.code, answer.out) == (2, text(answers("one", ["dab"])))
    assert answer.err == "attnx: standard input:2: this run does not know 'ß'\n"
    give(monkeypatch, "daß\n".encode())
    replaced = command("predict", "one").out.split()
    assert replaced == answers("one", ["daß"])[0].split()
    assert "ß" not in replaced
    give(monkeypatch, "daß\ndab\n".encode())
    with_unknown, without_unknown = command("predict", "one", "--unknown", "keep").out.splitlines()
    assert with_unknown.split().count("ß") == 1
    assert without_unknown == answers("one", ["dab"])[0]
    with pytest.raises(attnx.UserError, match="does not know 'ß', 'Q'"):
        attnx.open_run("one").predict(["ßaQß"], unknown="refuse")


def test_several_runs_predict_as_an_ensemble(runs, command):
    Path("words.txt").write_text(text(WORDS), encoding="utf-8")
    alone = command("predict", "one", "words.txt", "--scores").out
    twice = command("predict", "one", "one", "words.txt", "--scores").out
    assert [line.split("\t")[1] for line in twice.splitlines()] == [line.split("\t")[1] for line in alone.splitlines()]
    both = [line.split("\t")[0] for line in command("predict", "one", "two", "words.txt", "--scores").out.splitlines()]
    together = attnx.open_ensemble(["one", "two"])
    scores = [f"{together.predict([word])[0].score:.6f}" if word.strip() else "" for word in WORDS]
    assert [float(score or 0) for score in both] == pytest.approx([float(score or 0) for score in scores], abs=1e-5)
    assert both != [line.split("\t")[0] for line in alone.splitlines()]


def test_lines_are_streamed(runs, command, monkeypatch):
    """However many there are, no more are held at once than a few batches of them."""
    read, ahead = 0, []
    batch = 2
    decode = TrainedRun.decode

    def endless(reader: LineReader) -> Iterator[tuple[int, bytes]]:
        nonlocal read
        for read in range(1, 131):
            yield read, b"dab\n"

    def watch_reads(self: TrainedRun, pairs: Any, *args: Any) -> Any:
        ahead.append(read - sum(ahead))
        return decode(self, pairs, *args)

    monkeypatch.setattr(LineReader, "lines", endless)
    monkeypatch.setattr(TrainedRun, "decode", watch_reads)
    assert len(command("predict", "one", "-", "--batch", str(batch)).out.splitlines()) == 130
    assert ahead == [32, 32, 32, 32, 2]


ARGUMENTS = ("predict", "one", "words.txt", "--out", "out.txt", "--alignments", "links.txt", "--batch", "1")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
def test_an_interrupted_output_leaves_no_file(error, runs, command, monkeypatch):
    """Ctrl-C, and a full disk, while the third line is decoded."""
    Path("words.txt").write_text(text(WORDS), encoding="utf-8")
    write, lines = predicting._answer, iter(range(3))

    def press(*args: Any) -> None:
        if next(lines) == 2:
            raise error
        write(*args)

    monkeypatch.setattr(predicting, "_answer", press)
    answer = command(*ARGUMENTS)
    expected = {
        130: "attnx: interrupted; out.txt was not written\n",
        1: "attnx: cannot write (No space left on device); free some space, then the same again\n",
    }
    assert answer.err == expected[answer.code]
    assert {path.name for path in Path().glob("*.txt*")} == {"words.txt"}


def test_the_lines_before_a_bad_one_are_kept(runs, command):
    Path("words.txt").write_bytes(BROKEN)
    answer = command(*ARGUMENTS)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("attnx: words.txt:2: byte 0xff")
    assert Path("out.txt").read_text(encoding="utf-8") == text(answers("one", ["dab"]))
    assert len(Path("links.txt").read_text(encoding="utf-8").splitlines()) == 1
    assert not list(Path().glob("*.partial"))


def test_an_output_that_cannot_be_opened_leaves_no_other(runs, refuse):
    Path("words.txt").write_text(text(WORDS), encoding="utf-8")
    line = refuse("predict", "one", "words.txt", "--out", "out.txt", "--alignments", "/proc/links.txt")
    assert line.startswith("attnx: /proc/links.txt: cannot be written")


def test_a_finished_output_is_not_overwritten(runs, command, refuse):
    Path("words.txt").write_text(text(WORDS), encoding="utf-8")
    assert command(*ARGUMENTS).out == "out.txt: 8 lines\n"
    assert Path("out.txt").read_text(encoding="utf-8") == text(answers("one", WORDS))
    assert refuse(*ARGUMENTS) == "attnx: out.txt: is there already; move it away, or name another file\n"
    Path("folder").mkdir()
    line = refuse("predict", "one", "words.txt", "--out", "folder")
    assert line == "attnx: folder: is a folder; name a file to write\n"


def test_a_closed_pipe_is_no_error(runs, monkeypatch, capfd):
    """As with ``| head``: the reader is gone, and the command ends silently."""
    Path("words.txt").write_text(text(WORDS), encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "argv", ["attnx", "predict", "one", "words.txt"])
        with pytest.raises(SystemExit) as ended:
            main.main()
    assert ended.value.code == 1
    assert capfd.readouterr() == ("", "")


def test_a_run_predicts_in_evaluation_mode(run):
    opened = run("model.dropout=0.5", folder="one")
    predictions = opened.predict(["dab"])
    opened.model.train()
    opened.model.embedding.eval()
    assert opened.predict(["dab"]) == predictions
    assert opened.model.training
    assert not opened.model.embedding.training


def test_no_encoder_runs_in_inference_mode(run, monkeypatch):
    """Where torch counts no changes in place, so that an LSTM would project each symbol and not their table."""
    encode, modes = RecurrentEncoder.forward, []

    def forward(self: RecurrentEncoder, *args: Any, **kwargs: Any) -> Any:
        modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return encode(self, *args, **kwargs)

    monkeypatch.setattr(RecurrentEncoder, "forward", forward)
    trained = run("trainer.max_steps=1", folder="one")
    assert {*modes} == {(True, False), (False, False)}
    modes.clear()
    trained.predict(WORDS[:1])
    assert modes == [(False, False)]


def test_python_reports_the_same_mistakes(runs):
    run = attnx.open_run("one")
    greedy = run.predict(["dab"])[0]
    best, wide = run.predict(["dab"], nbest=3)[0], run.predict(["dab"], decoding=("beam", {"beam_size": 1}))[0]
    assert (greedy.output, greedy.alternatives) == (wide.output, ())
    assert len(best.alternatives) == 2
    assert best.score >= greedy.score - 1e-5
    assert run.config["decoding"]["name"] == "greedy"  # and is so still
    assert attnx.open_run("one", decoding="beam").predict(["dab"])[0].output == best.output
    for options, message in (
        ({"decoding": "greedy", "nbest": 2}, "decoding=greedy finds one output for each source"),
        ({"decoding": ("beam", {"beam_size": 2}), "nbest": 3}, "decoding.beam_size=2 holds fewer than the 3 best"),
        ({"decoding": "beem"}, "did you mean beam"),
        ({"tag": "fr"}, "it has none"),
        ({"nbest": 0}, "nbest=0: expected a whole number, 1 or more"),
        ({"unknown": "refused"}, "unknown='refused': expected one of replace, refuse, keep"),
    ):
        with pytest.raises(attnx.UserError, match=message):
            run.predict(["dab"], **options)  # type: ignore[arg-type]
    for folders, message in (([], "at least one"), ("one", "'one': give a list of run folders")):
        with pytest.raises(attnx.UserError, match=message):
            attnx.open_ensemble(folders)


def test_the_saved_best_checkpoints_are_averaged(runs, command, weights):
    """Of two checkpoints every weight is half their sum; one alone is opened as it is."""
    shutil.copy("two/checkpoints/best.ckpt", "one/checkpoints/best-2.ckpt")
    averaged = attnx.open_run("one", checkpoint="average").model.state_dict()
    first, second = weights("one", "best"), weights("two", "best")
    for name, weight in averaged.items():
        half = (first[f"model.{name}"] + second[f"model.{name}"]) / 2
        torch.testing.assert_close(weight, half)
    for name, weight in attnx.open_run("one").model.state_dict().items():
        assert torch.equal(weight, first[f"model.{name}"])
    Path("words.txt").write_text("dab\n", encoding="utf-8")
    assert command("predict", "one", "words.txt", "--checkpoint", "average").out == text(
        answers("one", ["dab"], checkpoint="average")
    )


@pytest.fixture
def recordings(work_folder):
    """Files of features, and of numbers to write; what names a source of features."""
    for number in range(43):
        np.save(f"in{number}.npy", feature_matrix(number))
        np.save(f"out{number}.npy", feature_matrix(number)[:, :2] * 100)
    return ["task=sequences", "task.source=features", "trainer.max_steps=20"]


def test_feature_files_and_tag_columns_are_read(run, recordings, command, refuse):
    parts = write_parts("in{0}.npy\t{0} up ann\tann\nin{0}.npy\t{0} up bob\tbob".format)
    opened = run(*recordings, *parts, "task.tagged=true", "model.tag_inputs=[encoder]", folder="one")
    Path("deep").mkdir()
    np.save("deep/in.npy", feature_matrix(5))
    Path("deep/list.tsv").write_text("bob\tin.npy\n\nann\tin.npy\n", encoding="utf-8")
    expected = [" ".join(opened.predict([feature_matrix(5)], tag=tag)[0].output) for tag in ("bob", "ann")]
    answer = command("predict", "one", "deep/list.tsv", "--column", "2", "--tag-column", "1")
    assert (answer.code, answer.out) == (0, f"{expected[0]}\n\n{expected[1]}\n")
    assert command("predict", "one", "deep/in.npy", "--tag", "ann").out == f"{expected[1]}\n"
    Path("deep/list.tsv").write_text("in.npy\nno.npy\n", encoding="utf-8")
    answer = command("predict", "one", "deep/list.tsv", "--tag", "ann")
    message = "attnx: deep/list.tsv:2: deep/no.npy: no such file; did you mean deep/in.npy?\n"
    assert (answer.code, answer.err) == (2, message)
    for words, message in (
        (["--tag", "eve"], "the tag 'eve' is not one of this run's: ann, bob"),
        ([], "this run has several tags: choose one of ann, bob"),
        (["--tag", "ann", "--tag-column", "1"], "leave one out"),
        (["--tag", "ann", "--unknown", "keep"], "needs symbols as source and target"),
    ):
        assert message in refuse("predict", "one", "deep/list.tsv", *words)
    np.save("deep/wide.npy", np.ones((3, 5)))
    Path("deep/list.tsv").write_text(f"wide.npy\n{'n' * 307}.npy\nin.npy\n", encoding="utf-8")
    answer = command("predict", "one", "deep/list.tsv", "--tag", "bob", "--on-error", "keep")
    assert (answer.code, answer.out) == (0, f"\n\n{expected[0]}\n")
    wide, long, count = answer.err.splitlines()
    assert "deep/list.tsv:1: deep/wide.npy: 5 features per step, but this run was trained on 3" in wide
    assert long.startswith("attnx: deep/list.tsv:2: deep/nnn")
    assert f"nnn.npy: no such file in {Path.cwd()}" in long
    assert count == "attnx: 2 of 3 lines could not be read"


def test_numbers_are_written_as_json(run, recordings, command, refuse):
    parts = write_parts("in{0}.npy\tout{0}.npy".format)
    opened = run(*recordings, *parts, "task.target=features", folder="one")
    Path("list.txt").write_text("in5.npy\n\nin9.npy\n", encoding="utf-8")
    first, blank, last = command("predict", "one", "list.txt").out.splitlines()
    assert blank == ""
    for line, number in ((first, 5), (last, 9)):
        (prediction,) = opened.predict([feature_matrix(number)])
        assert np.array(json.loads(line)) == pytest.approx(prediction.output, rel=1e-4, abs=1e-4)
    assert "symbols" in refuse("predict", "one", "list.txt", "--nbest", "2")


@pytest.fixture
def type_lines(runs, command, monkeypatch):
    """Type lines through a pseudo-terminal, then Ctrl-D: the answer of ``attnx predict`` with these words."""
    controller, terminal = os.openpty()

    def type_and_predict(data: bytes, *words: str) -> Any:
        os.write(controller, data + b"\x04")
        with os.fdopen(os.dup(terminal), encoding="utf-8") as typed:
            monkeypatch.setattr(sys, "stdin", typed)
            return command("predict", *words)

    yield type_and_predict
    os.close(controller)
    os.close(terminal)


def test_a_typed_line_is_answered_with_its_attention(type_lines, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    answer = type_lines(b"dab\n\nkes\n", "one")
    assert answer.code == 0
    assert answer.err == "reading from the terminal, a line each; Ctrl-D ends\n"
    predictions = attnx.open_run("one").predict(["dab", "kes"], need_weights=True)
    lines = answer.out.splitlines()
    for prediction in predictions:
        output, head, *rows = (lines.pop(0) for _ in range(len(prediction.output) + 3))
        assert output == prediction.text
        assert head.split() == list(prediction.pair.source)
        assert [row.split()[0] for row in rows] == [*prediction.output, "</s>"]
        for row, weights in zip(rows, prediction.weights, strict=True):
            assert row.rstrip()[-1] == "█" or weights.max() < 0.9
        if lines:
            assert lines.pop(0) == ""  # of the empty line
    assert not lines


def test_without_a_terminal_to_read_there_are_no_weights(type_lines):
    """Of the N best, and of several runs, whose outputs go to a pipe."""
    answer = type_lines(b"dab\n", "one", "two", "--nbest", "2")
    (prediction,) = attnx.open_ensemble(["one", "two"]).predict(["dab"], nbest=2)
    ranked = enumerate((prediction, *prediction.alternatives), 1)
    assert answer.out.splitlines() == [f"1\t{rank}\t{item.score:.6f}\t{item.text}" for rank, item in ranked]


def test_a_typed_mistake_does_not_end_the_command(type_lines):
    answer = type_lines("daß\ndab\n".encode() + b"d\xffb\n", "one", "--unknown", "refuse")
    assert answer.code == 0
    assert answer.out == f"{attnx.open_run('one').predict(['dab'])[0].text}\n"
    unknown, invalid, count = answer.err.splitlines()[1:]
    assert unknown == "attnx: standard input:1: this run does not know 'ß'"
    assert invalid.startswith("attnx: standard input:3: byte 0xff at byte 2 of the line is not UTF-8")
    assert count == "attnx: 2 of 3 lines could not be read"


GRIDS: dict[str, tuple[np.ndarray[Any, Any], list[str], list[str], dict[str, int], list[str]]] = {
    # A Chinese character takes two cells, an accent of its own none, a space is seen, and what is long is cut.
    "display width": (
        np.array([[0.0, 1.0, 0.3, 0.6], [0.9, 0.1, 0.5, 0.8]]),
        ["字", "ab"],
        ["漢", "\u0301", "a" * 20, " "],
        {"width": 60},
        ["   漢 \u25cc\u0301 aaaaaaaaaaa… ␣", "字    █ ░░░░░░░░░░░░ ▒", "ab ██   ▒▒▒▒▒▒▒▒▒▒▒▒ ▓"],
    ),
    # Three cells for the labels and a space; then two cells a column, of which four fit into twelve.
    "wrapped": (np.eye(5)[:1], ["abc"], list("vwxyz"), {"width": 12}, ["    v w x y", "abc █", "    z", "abc"]),
    "decoder states behind a bar": (
        np.eye(3)[1:],
        ["B", "C"],
        ["a", "b", "B"],
        {"width": 40, "decoder_columns": 1},
        ["  a b│B", "B   █│", "C    │█"],
    ),
}


@pytest.mark.parametrize(("weights", "rows", "columns", "options", "lines"), GRIDS.values(), ids=GRIDS)
def test_a_grid_of_weights_is_aligned(weights, rows, columns, options, lines):
    assert list(heatmap(weights, rows, columns, **options)) == lines
