"""ListOps: values by hand, what is drawn, splits without a shared expression, and one line per mistake."""

from itertools import islice
from typing import Any

import pytest

from attnx.errors import UserError
from attnx.problems.listops import expressions
from attnx.problems.listops.expressions import OPERATORS, Shape, draw_expressions, evaluate
from attnx.problems.listops.listops import ListOps
from tests.refusal import refused

SMALL: dict[str, Any] = {"max_depth": 3, "max_args": 4, "min_length": 5, "max_length": 17}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7", 7),
        ("[MIN 4 3 8 ]", 3),
        ("[MAX 4 3 8 ]", 8),
        ("[SM 4 3 8 ]", 5),  # 15
        ("[MED 9 1 4 ]", 4),
        ("[MED 2 7 4 5 ]", 4),  # of 4 and 5: 4.5
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),  # the example of Nangia and Bowman
        ("[SM [MAX 1 [MED 8 8 2 ] ] [MIN 6 5 ] 9 ]", 2),  # 8 + 5 + 9 = 22
    ],
)
def test_a_value_by_hand(expression, value):
    assert evaluate(expression.split()) == value


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("[MAX 2 9", "'[MAX 2 9': 1 list without an end ]"),
        ("2 ]", "symbol 2 is the end ] of no list"),
        ("[MAX ]", "symbol 2 is the end ] [MAX without a value"),
        ("[MAX 2 10 ]", "symbol 3 is '10'; expected a digit, [MIN, [MAX, [MED, [SM or ]"),
        ("2 9", "'2 9': is not one digit or one list"),
        ("", "'': is not one digit or one list"),
    ],
)
def test_what_is_no_expression_is_refused(expression, problem):
    with refused(problem):
        ListOps(**SMALL).tokenize(expression)


def depth_and_args(symbols: tuple[str, ...]) -> tuple[int, set[int]]:
    """The depth, a digit being one deep, and the numbers of arguments."""
    depth, counts, open_lists = 1, set(), [0]
    for symbol in symbols:
        if symbol == "]":
            counts.add(open_lists.pop())
        else:
            depth = max(depth, len(open_lists) + (symbol in OPERATORS))
            open_lists[-1] += 1
            open_lists += [0] * (symbol in OPERATORS)
    return depth, counts


def test_expressions_have_the_shape_and_are_different():
    shape = Shape(**SMALL)
    drawn = list(islice(draw_expressions(shape, 3), 1009))
    shapes = [depth_and_args(symbols) for symbols in drawn]
    assert len(set(drawn)) == len(drawn)
    assert {len(symbols) for symbols in drawn} == set(range(5, 18))
    assert {depth for depth, _ in shapes} == {2, 3}
    assert set.union(*(counts for _, counts in shapes)) == {2, 3, 4}
    assert {symbol for symbols in drawn for symbol in symbols} == set(expressions.SYMBOLS)
    assert drawn == list(islice(draw_expressions(shape, 3), 1009))
    assert drawn != list(islice(draw_expressions(shape, 4), 1009))


def test_splits_share_no_expression_and_labels_are_values():
    task = ListOps(**SMALL, examples=211, num_held_out=53)
    data = task.load()
    rows = data.train_dataset()
    train = [tuple(data.source.decode(rows[index].source)) for index in range(len(rows))]
    held_out = [*data.pairs.valid, *data.pairs.test]
    assert len({*train, *(pair.source for pair in held_out)}) == 211 + 2 * 53
    for index, symbols in enumerate(train):
        assert data.target.decode(rows[index].target) == [str(evaluate(symbols))]
    for pair in held_out:
        assert pair.references == ((str(evaluate(pair.source)),),)


def test_more_examples_leave_the_held_out_ones():
    few, many = (ListOps(**SMALL, examples=examples, num_held_out=31) for examples in (17, 101))
    assert few.load().pairs.test == many.load().pairs.test == many.test_pairs()
    assert few.load().pairs.valid == many.load().pairs.valid


def test_a_note_has_the_share_of_the_most_frequent_value():
    task = ListOps(max_depth=2, max_args=2, min_length=4, max_length=4, examples=5, num_held_out=101)
    values = [pair.references[0][0] for pair in task.load().pairs.test]
    share = max(values.count(digit) for digit in "0123456789") / 101
    assert len(task.notes) == 1
    assert f"{share:.1%} of the test" in task.notes[0]


def test_too_few_different_expressions_are_an_error(monkeypatch):
    """Four operators and 100 pairs of digits."""
    monkeypatch.setattr(expressions, "MAX_DRAWS", 20_000)
    task = ListOps(max_depth=2, max_args=2, min_length=4, max_length=4, examples=1000)
    with pytest.raises(UserError, match=r"^only 400 different expressions of 4 to 4 symbols were found; lower"):
        task.load()
