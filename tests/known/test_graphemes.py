"""Grapheme splitting: Unicode's examples, and jamo by the arithmetic of its chapter on Hangul."""

import unicodedata

import pytest

from attnx.data.graphemes import split_graphemes


@pytest.mark.parametrize(
    ("text", "as_is", "nfc", "nfd", "jamo"),
    [
        ("", "", "", "", ""),
        ("abc", "abc", "abc", "abc", "abc"),
        # e with circumflex and acute, as one letter and as three; both are Vietnamese.
        ("\u1ebf", "\u1ebf", "\u1ebf", "e\u0302\u0301", "\u1ebf"),
        ("e\u0302\u0301", "e\u0302\u0301", "\u1ebf", "e\u0302\u0301", "\u1ebf"),
        # The unit of length and the letter are one character in any form but its own.
        ("\u212b", "\u212b", "\u00c5", "A\u030a", "\u00c5"),
        # Hiragana ga: ka with a voicing mark.
        ("\u304c", "\u304c", "\u304c", "\u304b\u3099", "\u304c"),
        # Devanagari qa is never composed (a composition exclusion).
        ("\u0958", "\u0958", "\u0915\u093c", "\u0915\u093c", "\u0915\u093c"),
        # A dot below comes before a dot above, whichever was typed first: s with both is one letter.
        ("s\u0307\u0323", "s\u0307\u0323", "\u1e69", "s\u0323\u0307", "\u1e69"),
        # A syllable, then an accented letter.
        ("\uac01\u00e9", "\uac01\u00e9", "\uac01\u00e9", "\u1100\u1161\u11a8e\u0301", "\u1100\u1161\u11a8\u00e9"),
        # A syllable without a final and a final apart are one syllable.
        ("\uac00\u11a8", "\uac00\u11a8", "\uac01", "\u1100\u1161\u11a8", "\u1100\u1161\u11a8"),
    ],
)
def test_by_hand(text, as_is, nfc, nfd, jamo):
    assert split_graphemes(text, "as_is") == tuple(as_is)
    assert split_graphemes(text, "nfc") == tuple(nfc)
    assert split_graphemes(text, "nfd") == tuple(nfd)
    assert split_graphemes(text, "jamo") == tuple(jamo)


@pytest.mark.parametrize("writing", ["nfd", "jamo"])
def test_every_syllable_is_decomposed(writing):
    """Syllables are numbered from U+AC00 by 19 leads, 21 vowels and 28 tails, the first tail being none."""
    for number in range(19 * 21 * 28):
        lead, vowel, tail = number // (21 * 28), number // 28 % 21, number % 28
        jamo = [chr(0x1100 + lead), chr(0x1161 + vowel), *([chr(0x11A7 + tail)] if tail else [])]
        assert split_graphemes(chr(0xAC00 + number), writing) == tuple(jamo)


@pytest.mark.parametrize("neighbor", ["\uabff", "\ud7a4", "\u3131", "\uffa1"])
def test_other_characters_are_not_decomposed(neighbor):
    """The code points before the first and after the last syllable, and jamo of older standards, stay whole."""
    assert split_graphemes(neighbor, "jamo") == split_graphemes(neighbor, "nfd") == (neighbor,)


@pytest.mark.parametrize("writing", ["nfc", "nfd", "jamo"])
def test_decomposed_input_gives_the_same_graphemes(writing):
    """Words that look the same are cut alike, and no form loses anything."""
    word = "\ud55c\uae00 \u1ebft \u304c\u0958 a"
    typed = [word, *(unicodedata.normalize(form, word) for form in ("NFC", "NFD"))]
    assert len(set(typed)) == 3
    result = {split_graphemes(text, writing) for text in typed}
    assert len(result) == 1
    assert unicodedata.normalize("NFC", "".join(result.pop())) == unicodedata.normalize("NFC", word)
