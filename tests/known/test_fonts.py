"""Text in figures: line breaks, direction, and the font of every script."""

import pytest

from attnx.reports.figures.fonts import choose_fonts, is_right_to_left, shorten, wrap


@pytest.mark.parametrize(
    ("text", "width", "lines", "ending", "broken"),
    [
        ("one two three", 7, 3, "", "one two\nthree"),
        ("one two three", 7, 1, "", "one tw…"),
        ("abcdefghij", 4, 3, "", "abcd\nefgh\nij"),
        ("a bcdefg", 4, 3, "", "a\nbcde\nfg"),
        ("日本語の文", 4, 3, "", "日本\n語の\n文"),
        ("日", 1, 1, "", "日"),
        ("", 5, 1, "", ""),
        ("one two", 9, 2, " !", "one two !"),
        ("one two", 8, 2, " !", "one\ntwo !"),
        ("one two", 8, 1, " !", "one t… !"),
        ("abcdefgh", 8, 2, " !", "abcdef\ngh !"),
        ("one two three four", 9, 2, " !", "one two\nthree … !"),
        ("", 5, 1, " !", " !"),
    ],
)
def test_lines_break_at_spaces_and_keep_their_ending(text, width, lines, ending, broken):
    assert wrap(text, width, lines, ending) == broken


def test_a_long_text_ends_in_an_ellipsis():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
    assert shorten("日本語文", 6) == "日本…"  # three would leave no room for it


@pytest.mark.parametrize(
    ("text", "turned"),
    [("abc", False), ("שלום", True), ("12 سلام", True), ("a שלום", False), ("12", False), ("日", False)],
)
def test_the_first_letter_decides_the_direction(text, turned):
    assert is_right_to_left(text) is turned


@pytest.mark.parametrize(
    ("text", "alone", "shown"), [("a\u0303b", "\u0303", "◌\u0303"), ("a\u200cb", "\u200d", "U+200D")]
)
def test_what_joins_letters_is_kept_inside_words_and_named_alone(text, alone, shown):
    fonts = choose_fonts(text + alone)
    assert (fonts.display(text), fonts.display(alone)) == (text, shown)


def test_missing_glyphs_are_reported_briefly():
    assert choose_fonts("abc").warning == ""
    assert choose_fonts("\t").warning == ""  # it prints nothing in any font
    unseen = "".join(map(chr, range(0x1FBF0 + 10, 0x1FBF0 + 14)))  # unassigned
    assert choose_fonts(unseen).warning == ""
    message = choose_fonts("\U0001e7ff\U0001e4d0").warning
    if message:
        assert "\n" not in message
        assert message.startswith("no installed font has U+1E")


def test_ideographs_use_the_font_of_the_language():
    if choose_fonts("日").missing or choose_fonts("한").missing:
        pytest.skip("no installed font has ideographs (Debian: fonts-noto-cjk)")
    families = [choose_fonts(text).families[1] for text in ("日本の", "한국漢", "汉字")]
    if not all(family.startswith("Noto Sans CJK") for family in families):
        pytest.skip(f"other fonts than Noto: {families}")
    assert families == ["Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK SC"]
