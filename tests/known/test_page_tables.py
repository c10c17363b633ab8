"""The tables of a page that studies write."""

import pytest

from studies.page_tables import replace_tables

PAGE = "a\n\n<!-- one -->\n\nold\n\n<!-- end -->\n\nb\n\n<!-- two -->\n<!-- end -->\n\nc\n"


def test_each_table_stands_in_its_place():
    """Also where there was none."""
    expected = "a\n\n<!-- one -->\n\nnew\n\n<!-- end -->\n\nb\n\n<!-- two -->\n\nfirst\n\n<!-- end -->\n\nc\n"
    assert replace_tables(PAGE, {"one": "new", "two": "first"}) == expected


def test_a_table_without_a_place_is_refused():
    with pytest.raises(ValueError, match="no place for three"):
        replace_tables(PAGE, {"three": "new"})
