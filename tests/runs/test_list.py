"""``attnx list``: one line per choice, a kind with its options, one choice in full, at any width."""

import re

import pytest

from attnx.cli.commands.list_ import UNPICKED
from attnx.config.groups import GROUPS, PART_GROUPS, group_choices
from attnx.registry import source_scan
from tests.runs.conftest import write_plug_in

WIDTHS = (60, 80, 120)


@pytest.fixture
def list_parts(command, monkeypatch):
    """The lines of ``attnx list`` at a width; of a pipe at none."""

    def list_lines(*words: str, width: int | None = None) -> list[str]:
        if width is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(width))
        answer = command("list", *words)
        assert (answer.code, answer.err) == (0, "")
        return str(answer.out).splitlines()

    return list_lines


def groups(lines: list[str]) -> dict[str, dict[str, str]]:
    """By kind, by name, what a line says."""
    result: dict[str, dict[str, str]] = {}
    for line in lines:
        if heading := re.match(r"(\w+): ", line):
            kind = result.setdefault(heading[1], {})
        elif row := re.match(r"  (\w+) +(\S.*)", line):
            kind[row[1]] = row[2]
    return result


@pytest.mark.parametrize("width", [None, 60])
def test_every_selectable_part_has_a_line(width, list_parts):
    lines = list_parts(width=width)
    shown = groups(lines[:-2])
    assert {kind: [*rows] for kind, rows in shown.items() if kind in GROUPS} == {
        kind: list(dict.fromkeys(group_choices(kind))) for kind in GROUPS
    }
    assert set(shown) == {*GROUPS, "tokenizer", "bias", "mixer"}
    assert not set(shown) & set(UNPICKED)
    assert len(lines) == len(shown) + sum(map(len, shown.values())) + 2


def test_a_line_is_complete_in_a_pipe_and_cut_in_a_terminal(list_parts):
    complete = groups(list_parts())
    parts = source_scan.catalog().parts
    for kind in PART_GROUPS:
        for name in (name for name in group_choices(kind) if (kind, name) in parts):
            assert complete[kind][name].endswith(re.sub("``", "", parts[kind, name].doc_line("Formula")))
    for width in WIDTHS:
        lines = list_parts(width=width)
        assert max(map(len, lines)) <= width
        for kind, rows in groups(lines).items():
            for name, text in rows.items():
                if text != complete[kind][name]:
                    assert text.endswith("…")
                    assert (complete[kind][name] + " ").startswith(text.removesuffix("…"))
                    assert text.removesuffix("…")[-1:] in ("", " ")


def test_a_plug_in_is_marked(list_parts):
    head = "from attnx.attention.scorers.dot import Dot\nfrom attnx.registry import register\n"
    write_plug_in("mine", f'{head}@register("scorer", "mine")\nclass Mine(Dot):\n    """Of mine."""\n')
    assert groups(list_parts())["scorer"]["mine"] == "(plug-in mine.py) Of mine."


@pytest.mark.parametrize("word", [*GROUPS, *UNPICKED, "local", "g2p", "standard", "bahdanau"])
def test_pages_are_wrapped_between_words(word, list_parts):
    """Only a link or another word that is longer than a line, and where a file is, stand out."""
    lines, complete = list_parts(word, width=60), list_parts(word, width=200)
    assert " ".join(lines).split() == " ".join(complete).split()
    for line in lines:
        assert len(line) <= 60 or re.search(r"\S+://\S+$|/\S+\.(py|yaml)\S*$|^ *\S+$", line), line


def test_a_kind_is_listed_with_formulas_and_options(list_parts):
    text = "\n".join(list_parts("scorer", width=80))
    for name in group_choices("scorer"):
        assert re.search(rf"^  {name} ", text, re.MULTILINE)
    assert "score(q, m) = v . tanh(W q + U m)" in text
    assert "scorer.hidden_size=128" in text
    assert "query.language_tag.embedding_dim=20" in "\n".join(list_parts("query"))


def test_one_part_is_listed_in_full(list_parts):
    text = "\n".join(list_parts("scope=local", width=80))
    assert text.startswith("scope=local\n")
    assert re.search(r"^  scope\.window=3  +a whole number, 0 or more$", text, re.MULTILINE)
    assert "scope.include_self=false" in text
    assert "\n    https://arxiv.org/abs/1508.04025" in text
    assert "attnx/attention/scopes/local.py" in text
    assert "``" not in text
    assert list_parts("local", width=80) == list_parts("scope", "local", width=80) == text.splitlines()


def test_a_name_of_several_kinds_lists_the_selectable_kind(list_parts):
    headings = [line for line in list_parts("history") if re.fullmatch(r"\w+=history", line)]
    assert headings == ["scope=history", "model=history"]
    assert list_parts("additive")[0] == "scorer=additive"


def test_a_recipe_is_listed_with_what_it_sets(list_parts):
    text = "\n".join(list_parts("bahdanau", width=80))
    assert text.startswith("recipe=bahdanau\nBahdanau et al. 2015, https://arxiv.org/abs/1409.0473")
    assert "  - override /scorer: additive" in text
    assert "recipe/bahdanau.yaml" in text


@pytest.mark.parametrize("width", [1, 10, 20])
def test_a_narrow_terminal_cuts_lines(list_parts, width):
    """Also within their first word."""
    assert list_parts(width=width)


@pytest.mark.parametrize(
    ("words", "first", "shown"),
    [
        (["KV cache"], "KV cache in attnx: model=transformer", "model=transformer"),
        (["general"], "general in attnx: scorer=multiplicative", "Formula: score(q, m) = q . W m"),
        (["luong"], "luong in attnx: scorer=multiplicative", "luong in attnx: recipe=luong_global"),
        (["scorer", "bahdanau"], "bahdanau in attnx: scorer=additive", "scorer=additive"),
        (["scope=sliding-window"], "sliding-window in attnx: scope=local", "scope=local"),
        (["label_smoothing"], "label_smoothing in attnx: task.label_smoothing", "task.label_smoothing=0.0: a number"),
        (["early_stopping"], "early_stopping in attnx: trainer.patience", "trainer.patience=null: a whole number"),
    ],
)
def test_a_word_of_others_shows_what_it_is_called_here(words, first, shown, list_parts):
    lines = list_parts(*words)
    assert lines[0] == first
    assert any(shown in line for line in lines[1:])
