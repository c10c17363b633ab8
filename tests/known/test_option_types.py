"""The types of options: accepted values and their phrases."""

import ast
import math

import pytest

from attnx.registry.option_types import OptionType, parse_type, seconds


def read(annotation: str) -> OptionType:
    return parse_type(ast.parse(annotation, mode="eval").body)


@pytest.mark.parametrize(
    ("annotation", "accepted", "refused"),
    [
        ("int", [0, -3, 7, 2**63 - 1], [2**63, 1.0, "1", True, None, [1]]),
        ("float", [0.5, -3, 7, 10**300], [10**309, True, "1", math.nan, math.inf, None]),
        ("str", ["word", "", "3"], [3, None, True, ["word"]]),
        ("bool", [True, False], [0, 1, "true", None]),
        ("NonNegativeInt", [0, 1, 97], [-1, 1.0, True, "1", None]),
        ("PositiveInt", [1, 97], [0, -1, 1.0, True, None]),
        ("Width", [1, 97, 65_536], [0, 65_537, 2**31, 1.0, True, None]),
        ("Depth", [1, 97, 1024], [0, 1025, 2**63 - 1, 1.0, True, None]),
        ("StepCount", [0, 97, 65536], [-1, 65537, 2**63 - 1, 1.0, True, None]),
        ("LengthRatio", [0.5, 3, 1024], [0, -1, 1025, 1e8, True, None]),
        ("Probability", [0, 0.0, 0.999], [1, 1.0, -0.001, True, math.nan, "0.1"]),
        ("PositiveFloat", [1e-9, 3, 2.5], [0, 0.0, -1, True, math.inf, None]),
        ("NonNegativeFloat", [0, 0.0, 3, 2.5], [-1e-9, -1, True, math.nan, math.inf, "0", None]),
        (
            "Time",
            ["00:00:01", "00:04:00", "137:59:59"],
            ["00:00:00", "4:0", "00:60:00", "00:00:60", "1:2:3", 240, None],
        ),
        ("None", [None], [0, False, ""]),
        ("PositiveInt | None", [None, 3], [0, "3"]),
        ("int | str", [3, "three"], [None, 3.5]),
        ("Literal['now', 'next']", ["now", "next"], ["none", "Now", None, 1]),
        ("Literal['now']", ["now"], ["next", ["now"]]),
        ("Literal[1, 2]", [1, 2], [True, 1.0, 3, "1"]),
        ("Literal[True]", [True], [1, False]),
        ("Literal['now', 'next'] | None", ["now", None], ["none"]),
        ("list[PositiveInt]", [[1], [3, 5]], [[], [0], [1, -1], 3, (3, 5), None, [True], "3"]),
        ("Sequence[PositiveInt]", [[1], [3, 5]], [[], [0], 3, None]),
        ("list[Literal['a', 'b']]", [["a"], ["b", "a"]], [["c"], "a", []]),
        ("list[int] | None", [[0], None], [[None]]),
    ],
)
def test_a_type_accepts_its_values(annotation, accepted, refused):
    """A number is never taken for a truth value nor the other way round."""
    result = read(annotation)
    assert [value for value in accepted if not result.accepts(value)] == []
    assert [value for value in refused if result.accepts(value)] == []


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        ("float", 2, 2.0),
        ("PositiveFloat | None", 2, 2.0),
        ("PositiveFloat | None", None, None),
        ("Literal['length'] | float", 2, 2.0),
        ("list[Probability]", [0, 0.5], [0.0, 0.5]),
        ("int | float", 2, 2),
        ("int", 2, 2),
        ("Literal[2]", 2, 2),
        ("bool", True, True),
    ],
)
def test_a_whole_number_becomes_a_float_where_one_is_expected(annotation, value, expected):
    """Else torch makes a tensor of whole numbers of it."""
    converted = read(annotation).convert(value)
    assert (repr(converted), converted) == (repr(expected), expected)


def test_a_part_gets_a_copy_of_a_list():
    value = [{"name": "dot"}]
    converted = read("list[PartSpec]").convert(value)
    assert converted == value
    assert converted is not value
    assert converted[0] is not value[0]


@pytest.mark.parametrize(
    ("annotation", "phrase"),
    [
        ("NonNegativeInt", "a whole number, 0 or more"),
        ("NonNegativeFloat", "a number, 0 or more"),
        ("PositiveInt | None", "a whole number, 1 or more or null"),
        ("Literal['now', 'next']", "one of now, next"),
        ("list[PositiveInt]", "a list [...] that is not empty, each a whole number, 1 or more"),
        ("bool", "true or false"),
    ],
)
def test_a_type_has_a_phrase(annotation, phrase):
    assert read(annotation).phrase == phrase


@pytest.mark.parametrize(
    "annotation",
    ["dict", "Size", "dict[str, int]", "tuple[int]", "Tensor", "int & str", "list", "Literal[x]", "Optional[int]"],
)
def test_an_unknown_type_is_refused(annotation):
    """Anything else is refused: ``Size`` too, since what the model supplies has no default."""
    with pytest.raises(ValueError, match=r".") as refused:
        read(annotation)
    if annotation == "dict":  # the known ones are named
        message = str(refused.value)
        assert "an option cannot have the type dict" in message
        known = "int float str bool NonNegativeInt PositiveInt Probability PositiveFloat NonNegativeFloat Literal[...]"
        assert all(name in message for name in [*known.split(), "| None"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("00:04:00", 240), ("01:01:01", 3661), ("100:00:00", 360000), ("00:00:00", None), (240, None)],
)
def test_seconds(text, expected):
    assert seconds(text) == expected
