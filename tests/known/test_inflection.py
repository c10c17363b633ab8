"""Inflection: tables in any order of columns, bundles of features, splits by lemma, and one line per mistake."""

from pathlib import Path

import pytest

from attnx.errors import UserError
from attnx.tasks.inflection import UNIMORPH, Inflection, read_inflections
from tests.refusal import refused

ROWS = [("ev", "evlerden", "N;ABL;PL"), ("ev", "eve", "N;DAT;SG"), ("gitmek", "gitti", "V;IND;3;SG;PST")]


def write(path: Path, *places: int, first: str = "") -> Path:
    """A table of lemma, form and features in the order of these places."""
    lines = ["\t".join(row[place] for place in places or (0, 1, 2)) for row in ROWS]
    path.write_text("\n".join([*([first] if first else []), *lines, ""]), encoding="utf-8")
    return path


def test_any_order_of_columns_is_read(tmp_path):
    """By default the order of UniMorph; by number or by name any other, with what else there is."""
    expected = read_inflections(write(tmp_path / "first.tsv"), UNIMORPH, "split", [])
    assert expected[1].source == ("[N]", "[DAT]", "[SG]", "e", "v")
    assert expected[1].references == (("e", "v", "e"),)
    assert len(expected) == 3
    swapped = write(tmp_path / "second.tsv", 0, 2, 1)
    assert read_inflections(swapped, ["1", "2", "3"], "split", []) == expected
    named = write(tmp_path / "third.tsv", 2, 0, 1, 0, first="MSD\tLemma\tform\tword")
    assert read_inflections(named, ["Lemma", "MSD", "form"], "split", []) == expected
    notes: list[str] = []
    assert read_inflections(named, ["2", "1", "3"], "split", notes) == expected
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("bundles", "symbols"),
    [
        ("split", ("[N]", "[ABL]", "[PL]", "[PSS]", "[2]", "[SG]", "[DEF]")),
        ("composite", ("[N]", "[ABL(PL;PSS(2,SG))]", "[DEF]")),
        ("whole", ("[N;ABL(PL;PSS(2,SG));DEF]",)),
    ],
)
def test_a_bundle_becomes_source_symbols(bundles, symbols):
    task = Inflection(features=bundles)
    assert task.tokenize("ev\tN;ABL(PL;PSS(2,SG));DEF") == (*symbols, "e", "v")


def test_several_forms_are_references(tmp_path):
    """Of capitals, as features are."""
    path = tmp_path / "table.tsv"
    path.write_text("DREAM\tDREAMED\tV;PST\n\nDREAM\tDREAMT\tV;PST\n", encoding="utf-8")
    (pair,) = read_inflections(path, UNIMORPH, "split", [])
    assert ["".join(form) for form in pair.references] == ["DREAMED", "DREAMT"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("ev\teve", "2 columns, so there is no column 3"),
        ("\teve\tN;DAT;SG", "the lemma is empty in"),
        ("ev\t\tN;DAT;SG", "the form is empty in"),
        ("ev\teve\t;", "the features are empty in"),
    ],
)
def test_a_bad_line_is_reported_with_its_place(line, problem, tmp_path):
    path = write(tmp_path / "table.tsv")
    path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"^{path}:4: {problem}"):
        read_inflections(path, UNIMORPH, "split", [])


@pytest.mark.parametrize(
    ("places", "what", "columns"),
    [((0, 2, 1), "the form 'N;ABL;PL'", "1,2,3"), ((2, 1, 0), "the lemma 'N;ABL;PL'", "3,1,2")],
)
def test_features_in_another_column_are_refused(places, what, columns, tmp_path):
    """In 21 of 22 lines."""
    path = write(tmp_path / "table.tsv", *places)
    path.write_text(7 * path.read_text(encoding="utf-8") + "ev\teve\tevde\n", encoding="utf-8")
    with refused(f"{path}:1: {what} looks like features...task.columns=[{columns}]"):
        read_inflections(path, UNIMORPH, "split", [])
    if columns == "1,2,3":
        assert len(read_inflections(path, columns.split(","), "split", [])) == 3 + 1


def test_columns_are_three():
    with pytest.raises(UserError, match=r"^task.columns=\[1,2\]: name three, those of the lemma, the features and"):
        Inflection(columns=[1, 2])


def test_what_is_no_lemma_with_features_is_refused():
    task = Inflection()
    for text, problem in (
        ("ev", "1 column; expected a lemma"),
        ("ev\t", "features are empty"),
        ("\tN", "lemma is empty"),
    ):
        with pytest.raises(UserError, match=problem):
            task.tokenize(text)


def test_a_held_out_split_shares_no_lemma(tmp_path):
    path = tmp_path / "table.tsv"
    lines = [f"{number * 7919}x\t{number}y{case}\tN;{case}" for number in range(211) for case in ("DAT", "ABL", "GEN")]
    path.write_text("\n".join(lines), encoding="utf-8")
    data = Inflection(train=str(path), holdout=0.1).load()
    lemmas = [{"".join(pair.source[2:]) for pair in part} for part in data.pairs]
    assert sum(map(len, lemmas)) == len(set.union(*lemmas)) == 211
    assert all(len(part) == 3 * len(names) for part, names in zip(data.pairs, lemmas, strict=True))


def test_a_task_reads_its_splits_and_counts_shared_sources(tmp_path):
    path = str(write(tmp_path / "table.tsv"))
    task = Inflection(train=path, valid=path, test=path)
    data = task.load()
    assert data.pairs.test == task.test_pairs() == data.pairs.train
    assert sum("3 of 3 sources" in note for note in task.notes) == 2
    assert task.detokenize(["e", "v", "e"]) == "eve"


def test_the_metrics_by_hand():
    """Of two forms one is right; the other has a wrong letter."""
    forms, references = [list("eve"), list("gitmi")], [[tuple("eve")], [tuple("gitti"), tuple("gitmekti")]]
    values = {}
    for name, metric in Inflection().metrics(()).items():
        metric.update(forms, references)
        values[name] = metric.compute().item()
    assert values == {"accuracy": 50.0, "edit_distance": 0.5}
