"""The task ``classification`` and its model: the reader, the metrics and one answer by hand, and mistakes."""

import math
from pathlib import Path

import pytest
import torch

from attnx import registry
from attnx.attention import QueryContext, build
from attnx.config.compose import compose
from attnx.data.batches import Batch
from attnx.data.vocabulary import EOS, SEP, STOP, Vocabulary
from attnx.errors import UserError
from attnx.laws.small import small_config, small_model
from attnx.metrics.labels import Accuracy, MacroF1
from attnx.nn.contracts import EncoderOutput
from attnx.tasks.classification import Classification, Columns, read_labeled_texts, split_words_and_marks
from attnx.tasks.loss import token_loss

TEXTS = ["it rains", "the sun shines! now", "rain, rain", "sun. sun", "what rain?", "a sunny day", "it is wet", "dry"]
LABELS = ["wet", "dry"]


def write_texts(path: Path, count: int = 80) -> str:
    lines = [f"{number} {TEXTS[number % 8]}\t{LABELS[number % 2]}\n" for number in range(count)]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def test_a_sentence_ends_with_a_full_stop():
    assert split_words_and_marks("Why?!  No.") == ("why", "!", "?", ".", "no", ".")
    assert split_words_and_marks("Pay £1,000.50 to Mr X", lower=False) == ("Pay", "£", "1,000.50", "to", "Mr", "X", ".")
    assert split_words_and_marks(" ") == ()


def test_a_word_keeps_its_combining_marks():
    """In any script and Unicode form; a variation selector stays with its emoji's side."""
    assert split_words_and_marks("हिन्दी भाषा cafe\u0301's") == ("हिन्दी", "भाषा", "cafe\u0301's", ".")
    assert split_words_and_marks("\u2764\ufe0flove") == ("\u2764", "\ufe0f", "love", ".")


def test_either_column_may_be_the_label(tmp_path):
    (tmp_path / "first.tsv").write_text("Very good\tA day.\n\n", encoding="utf-8")
    (tmp_path / "last.tsv").write_text("A day.\tVery good\n", encoding="utf-8")
    first = read_labeled_texts(tmp_path / "first.tsv", Columns(label="first"))
    last = read_labeled_texts(tmp_path / "last.tsv")
    assert first == last
    assert (first[0].source, first[0].references) == (("a", "day", "."), (("Very good",),))


@pytest.mark.parametrize(
    ("texts", "content", "problem"),
    [
        (1, "good day\n", r":1: 1 column; expected a text, a tab and its label"),
        (1, "a\tb\nc\td\te\n", r":2: 3 columns; .* the line is 'c\\td\\te'"),
        (1, "a\tb\tc\n", r"3 columns; .*; pairs of texts need task\.texts=2"),
        (1, "\tb\n", r":1: the text is empty"),
        (1, "a\t\n", r":1: the label is empty"),
        (1, "text\tlabel\n", r"holds no texts"),
        (1, "\ntext\tlabel\n", r"holds no texts"),
        (1, "\n", r"holds no texts"),
        (2, "a\tb\tc\na\tb\n", r":2: 2 columns; expected two texts and their label, .*task\.texts=2"),
        (2, "a\tb\tc\td\n", r":1: 4 columns; expected two texts"),
        (2, "\tb\tc\n", r":1: the first text is empty"),
        (2, "a\t \tc\n", r":1: the second text is empty"),
        (2, "a\tb\t\n", r":1: the label is empty"),
        (2, "Premise\tHypothesis\tgold_label\n", r"holds no texts"),
        (2, "", r"holds no texts"),
    ],
)
def test_a_bad_line_is_named(tmp_path, texts, content, problem):
    (tmp_path / "bad.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=rf"bad\.tsv.*{problem}"):
        read_labeled_texts(tmp_path / "bad.tsv", Columns(texts))


@pytest.mark.parametrize("label", ["first", "last"])
def test_two_texts_are_one_sequence(tmp_path, label):
    """No text has the separator as a symbol, not even one that spells it."""
    texts = "It rains. Why?\t<sep> it"
    line = f"wet\t{texts}\n" if label == "first" else f"{texts}\twet\n"
    (tmp_path / "pairs.tsv").write_text(line, encoding="utf-8")
    (pair,) = read_labeled_texts(tmp_path / "pairs.tsv", Columns(2, label))
    assert pair.source == ("it", "rains", ".", "why", "?", ".", "<sep>", "<", "sep", ">", "it", ".")
    assert pair.references == (("wet",),)


def test_pairs_with_the_same_first_text_stay_together(tmp_path):
    lines = [f"{TEXTS[n % 8].capitalize()} {n // 4}\t{TEXTS[n % 5]} {n}\t{LABELS[n % 2]}\n" for n in range(160)]
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    task = Classification(train=str(tmp_path / "pairs.tsv"), texts=2, min_count=1)
    data = task.load()
    assert isinstance(data.source, Vocabulary)
    assert (data.source.symbols[STOP], data.source.symbols[SEP]) == (".", "<sep>")
    assert data.source.encode(data.pairs.train[0].source).count(SEP) == 1
    parts = [{pair.source[: pair.source.index("<sep>")] for pair in part} for part in data.pairs]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert all(parts)
    cased = Classification(train=str(tmp_path / "pairs.tsv"), texts=2, lower=False).load()
    assert [[pair.identity for pair in part] for part in cased.pairs] == [
        [pair.source for pair in part] for part in data.pairs
    ]
    assert task.tokenize("Rain\tsun!") == ("rain", ".", "<sep>", "sun", "!", ".")
    for text, problem in {"rain": "1 column; expected two texts", "a\tb\tc": "3 columns", "a\t ": "empty text"}.items():
        with pytest.raises(UserError, match=problem):
            task.tokenize(text)


def test_rare_words_are_unknown_and_the_full_stop_comes_first(tmp_path):
    task = Classification(train=write_texts(tmp_path / "texts.tsv"), holdout=0.1)
    data = task.load()
    assert isinstance(data.target, type(data.source))
    assert data.source.symbols[STOP] == "."
    assert "rain" in data.source.symbols
    assert "17" not in data.source.symbols  # it occurs once
    assert data.target.symbols[4:] == ("dry", "wet")
    assert sum(map(len, data.pairs)) == 80
    assert task.tokenize("Rain!") == ("rain", "!", ".")
    (tmp_path / "few.tsv").write_text("a b b\twet\na c\tdry\n", encoding="utf-8")
    files = dict.fromkeys(("train", "valid", "test"), str(tmp_path / "few.tsv"))
    assert Classification(**files, min_count=2).load().source.symbols[4:] == (".", "a", "b")


def test_labels_must_be_learnable(tmp_path):
    train = write_texts(tmp_path / "texts.tsv")
    (tmp_path / "other.tsv").write_text("a day\twet\na day\twett\n", encoding="utf-8")
    (tmp_path / "same.tsv").write_text("".join(f"{n}\twet\n" for n in range(50)), encoding="utf-8")
    with pytest.raises(UserError, match=r"other\.tsv:2: .* lacks the label 'wett'; did you mean wet\?"):
        Classification(train=train, test=str(tmp_path / "other.tsv")).load()
    with pytest.raises(UserError, match="every text has the label 'wet'"):
        Classification(train=str(tmp_path / "same.tsv")).load()


def test_measures_by_hand():
    """Labels a to e: 4 of 7 are right; F1 is 2/3 of a, 1/2 of b, 2/3 of c, 1 of d, and e does not occur.

    An output without a label is a miss of a and no error of another label.
    """
    predictions = [["a"], ["b"], ["b"], [], ["c"], ["c", "c"], ["d"]]
    references = [[["a"]], [["b"]], [["c"]], [["a"]], [["c"]], [["b"]], [["d"]]]
    accuracy, f1 = Accuracy("abcde"), MacroF1("abcde")
    for metric in (accuracy, f1):
        metric.update([], [])  # of a tag that a batch does not have
        metric.update(predictions[:2], references[:2])
        metric.update(predictions[2:], references[2:])
    assert accuracy.compute().item() == pytest.approx(100 * 4 / 7)
    assert accuracy.proportions() == {"": [(4, 7)]}
    assert f1.compute().item() == pytest.approx(100 * (2 / 3 + 1 / 2 + 2 / 3 + 1) / 4)


def test_one_label_by_hand():
    """Attention over two states h = (1, 0) and (0, 1) with q = h_2 and scores q . h: weights 1 / (1 + e), e / (1 + e).

    The readout is the context, and the logit of label 1 is ln 3 times its second entry.
    """
    config = small_config(
        model={"name": "classifier", "embedding_dim": 2},
        scorer="dot",
        encoder={"hidden_size": 2, "bidirectional": False, "cell": "rnn"},
        readout={"inputs": ["context"], "tanh": False},
    )
    model = small_model(config).eval()
    states = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    model.source_encoder.encoder.forward = lambda *args: EncoderOutput([states], ((states[:, 1],),))
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.zero_()
        model.output.weight[4 + 1, 1] = math.log(3)
    output = model(torch.tensor([[7, 8]]), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[1]]), need_weights=True)
    weight = math.e / (1 + math.e)
    assert output.weights[0, 0].tolist() == pytest.approx([1 - weight, weight])
    state = model.init_state(torch.tensor([[7, 8]]), torch.ones(1, 2, dtype=torch.bool))
    labels = 17 - 4
    assert state.log_probs[0, 5].exp().item() == pytest.approx(3**weight / (3**weight + labels - 1))


def test_rows_and_their_penalty_by_hand():
    """Lin et al. 2017, equations 5 to 8, on H = ((0, 0), (ln 3, 0)) as tanh leaves it, and w_1 = (1, 0), w_2 = (0, 1).

    Scores (0, ln 3) and (0, 0), so A = ((1/4, 3/4), (1/2, 1/2)) and A A^T - I = ((-3/8, 1/2), (1/2, -1/2)).
    """
    scorer = registry.build("scorer", ("tanh_dot", {"bias": False}), query_size=2, memory_size=2)
    query = registry.build("query", ("self_attentive", {"size": 2, "rows": 2, "penalty": 2.0}))
    with torch.no_grad():
        query.vectors.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
        scorer.memory.weight.copy_(torch.eye(2))
    states = torch.tensor([[[0.0, 0.0], [math.atanh(math.log(3) / 2), 0.0]]])
    attention = build(scorer=scorer, query_size=2, memory_size=2)
    queries = query(QueryContext(states[..., :0]))
    output = attention(queries, attention.make_memory(states), need_weights=True)
    torch.testing.assert_close(output.weights, torch.tensor([[[1 / 4, 3 / 4], [1 / 2, 1 / 2]]]))
    terms = query.penalty(output.weights)
    torch.testing.assert_close(terms, 2 * torch.tensor([[9 / 64 + 1 / 4, 1 / 4 + 1 / 4]]))


def test_the_penalty_of_rows_joins_the_loss():
    """Once for each text, though a target has two steps; contexts of rows are side by side."""
    config = small_config(
        model={"name": "classifier"},
        scorer="tanh_dot",
        query={"self_attentive": {"rows": 3, "size": 5, "penalty": 1.5}, "current_state": {}},
    )
    model = small_model(config)
    source, target = torch.tensor([[7, 8, 9], [5, 6, 0]]), torch.tensor([[5, EOS], [6, EOS]])
    output = model(source, source > 0, target, need_weights=True)
    weights = output.weights[:, :, 0]
    expected = 1.5 * (weights @ weights.mT - torch.eye(3)).square().sum()
    batch = Batch(source, source > 0, target, target > 0, torch.arange(2), torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(token_loss(model, batch).penalty, expected)
    assert model.readout.join[0].in_features == 22 + 3 * 22


def test_the_penalty_of_rows_is_the_mean_of_the_heads():
    """So its factor means the same with any number of heads."""
    query = {"self_attentive": {"rows": 3, "size": 5, "penalty": 1.5}}
    model = small_model(small_config(model={"name": "classifier"}, attention=("standard", {"heads": 2}), query=query))
    source, target = torch.tensor([[7, 8, 9], [5, 6, 0]]), torch.tensor([[5, EOS], [6, EOS]])
    output = model(source, source > 0, target, need_weights=True)
    weights = output.weights.reshape(2, 2, 3, 3)  # rows and heads of each text
    grams = weights @ weights.mT - torch.eye(3)
    torch.testing.assert_close(output.penalty.sum(), 1.5 * grams.square().sum() / 2)


def test_a_query_without_a_classifier_has_one_row():
    assert compose(["+query=self_attentive"])["query"]["self_attentive"]["rows"] == 1
