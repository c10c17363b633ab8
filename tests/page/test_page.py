"""The page of a run in a real browser: content, pointer, keys, and colors."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnx.cli.main import run as command
from attnx.errors import UserError
from attnx.reports.pages.html_template import embedded_json
from attnx.reports.pages.run_page import write_page
from attnx.runs.layout import RESULTS

END = "</s>"
LETTERS = "supercalifragilisticexpialidociousantidises"
PHONES = [*"SUPRKALAFRAJALISTIKEKSPI"]
HOSTILE = ["</script><script>document.title='taken'</script>", "<img src=x onerror=alert(1)>", "&amp;", "\u2028"]
ARABIC = ["\u0633", "\u0644", "\u0627", "\u0645"]
# The colors of weights 0, 0.2 and 1, as css/js and the PNG pictures state them.
LIGHT = {0.0: (255, 255, 255), 0.2: (219, 233, 246), 1.0: (8, 48, 107)}
DARK = {0.0: (18, 22, 28), 0.2: (23, 48, 74), 1.0: (230, 244, 255)}
CAT = [[1, 0, 0], [0.2, 0.6, 0.2], [0, 0.123, 0.877], [0, 0, 1]]


def fill(folder: Path, keep: Callable[..., Path]) -> Path:
    """A word that is right, with a second hypothesis and two heads, one that is wrong, hostile and foreign symbols."""
    heads = np.array([CAT, CAT])
    heads[0, 1], heads[1, 1] = [0.4, 0.6, 0], [0, 0.6, 0.4]
    keep(folder, "000", "cat", ["K", "AE", "T", END], CAT, heads=heads, score=-0.25)
    second = {"reference": ["K", "AE", "T", END], "score": -1.5}
    keep(folder, "000-2", "cat", ["S", "AH", END], [[0, 0, 1], [0, 1, 0], [1, 0, 0]], **second)
    keep(folder, "001", "dog", ["D", "AO", "K", END], np.eye(4, 3), reference=["D", "AO", "G", END])
    keep(folder, "002", HOSTILE, [*HOSTILE[:2], END], np.eye(3, 4))
    keep(folder, "003", ARABIC, ["s", "l", "a", "m", END], np.eye(5, 4))
    keep(folder, "004", "日本", ["ni", "hon", END], np.eye(3, 5), num_decoder_states=3)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory, write_run, keep):
    home = tmp_path_factory.mktemp("home")
    fill(write_run(home / "first"), keep)
    second = write_run(home / "second", {"scope": {"name": "local", "center": "monotonic", "window": 1}})
    keep(second, "000", "cat", ["K", "AE", "T", END], [[0.5, 0.5, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]])
    long = write_run(home / "long")
    keep(long, "000", ["international"] * 97, ["zwischenstaatlich"] * 41, np.eye(41, 97))
    # A word of 43 letters, its phones; rows of numbers with faint weights; a continued text.
    word = write_run(home / "word")
    results = {"test_per": 6.75, "train_tokens_per_second": 17814.43}
    results |= {"train_seconds": 231.5, "test_scaled_error": 0.125}
    (word / RESULTS).write_text(json.dumps(results), encoding="utf-8")
    keep(word, "000", LETTERS, PHONES, np.eye(len(PHONES), len(LETTERS)), reference=PHONES[1:])
    numbers = write_run(home / "numbers")
    steps = {"name": "walk.csv", "is_numeric": True, "is_right": None}
    keep(numbers, "000", "0123", [*"0123"], np.full((4, 4), 0.0173), **steps)
    wrong = {**steps, "reference": [*"0123"], "is_right": False}
    keep(numbers, "001", "0123", [*"01234"], np.full((5, 4), 0.25), **wrong)
    continued = {"num_decoder_states": 3, "is_right": None, "reference": [*"ABX"]}
    keep(write_run(home / "text"), "000", "", [*"ABC"], np.eye(3), **continued)
    # More examples than a window has room for, and names of parts that are long words.
    parts = {"scorer": "activated_general", "scope": "encoder_decoder", "normalizer": "stepwise_monotonic"}
    many = write_run(home / "many", {kind: {"name": name} for kind, name in parts.items()})
    intervals = {"intervals": {"test_wer": [94.02, 100.0]}, "test_wer": 99.13}
    (many / RESULTS).write_text(json.dumps({**results, **intervals}), encoding="utf-8")
    for number in range(61):
        keep(many, f"{number:03d}", LETTERS[:17], PHONES[:13], np.eye(13, 17), reference=PHONES[: 12 + number % 2])
    pages = (["first"], ["first", "second"], ["long"], ["word"], ["numbers"], ["text"], ["many"], ["many", "word"])
    for names in pages:
        write_page([home / name for name in names], home / f"{'-'.join(names)}.html")
    return home


@pytest.fixture
def see(open_page, home):
    """Open a page at an example."""

    def show(name: str = "first", example: int = 1, **window: Any) -> Any:
        return open_page(home / f"{name}.html", f"#{example}", **window)

    return show


@pytest.mark.parametrize("width", [1280, 1920])
def test_a_long_word_is_fully_visible(see, width):
    """Of 43 letters none is cut, neither in the list nor in the map, and no letter of the heading meets the next."""
    browser = see("word", width=width)
    assert browser.texts("#examples .words")[0] == LETTERS
    cut = "return [...document.querySelectorAll(arguments[0])].filter(e => e.scrollWidth > e.clientWidth + 1"
    cut += " || (arguments[1] && e.scrollHeight > e.clientHeight + 1)).length"
    assert browser.run(cut, "#examples .words", True) == 0
    assert browser.run(cut, ".scroll", False) == 0
    heads = browser.boxes("thead th[data-column] span")
    assert len(heads) == len(LETTERS)
    assert all(left_edge[2] <= right[0] for left_edge, right in pairwise(heads))


def test_no_column_of_a_table_is_squeezed(see):
    """What a result is stands beside it on one line, however long what was run is."""
    browser = see("word")
    heights = [bottom - top for _, top, _, bottom in browser.boxes("#results tr")]
    assert len(heights) == 4
    assert max(heights) < 1.2 * min(heights)  # a line each
    assert browser.texts("#results tr:nth-child(1) > *") == ["test_per", "6.75", "% phone error rate"]
    assert browser.texts("#results tr:nth-child(2) td")[0] == "17,814.43"
    rows = browser.run("return [...document.querySelectorAll('#facts tr')].map(row => row.children.length)")
    assert set(rows) == {2}


def test_rows_of_numbers_are_wrong_only_by_their_count(see):
    browser = see("numbers")
    assert browser.text("#count") == "2 examples, 1 wrong"
    assert browser.texts("#examples .words") == ["walk.csv", "4 steps", "walk.csv", "5 steps"]
    assert browser.texts("#examples .mark") == ["✗ wrong:"]
    assert browser.text(".read") == "0 1 2 3"
    browser.click("#next")
    assert browser.text(".reference") == "reference\n4 steps"


def test_faint_weights_have_their_own_scale(see):
    browser = see("numbers")
    assert browser.text(".legend").split() == ["weight", "0", "0.02"]
    image = browser.picture() * 255
    assert image[in_the_middle(browser, cell(0, 0))].mean() < 120  # 0.0173 of 0.02
    browser.click("#next")
    assert browser.text("#top") == "1"
    assert browser.picture()[in_the_middle(browser, cell(0, 0))].mean() > 0.8  # 0.25 of 1


def test_continuations_are_neither_right_nor_wrong(see):
    browser = see("text")
    assert browser.text("#count") == "1 example"
    assert browser.texts("#examples .words") == ["ABC"]
    assert browser.run("return document.querySelectorAll('.mark, .reference').length") == 0
    assert not browser.run("return document.querySelector('.filters').checkVisibility()")
    assert browser.texts(".strip") == ["output ABC", "text ABX"]
    assert browser.texts("#statistics th") == ["examples", "steps", "entropy"]


def cell(row: int, column: int, article: int = 0) -> str:
    return f"[data-run='{article}'] tr[data-row='{row}'] td[data-column='{column}']"


def in_the_middle(browser: Any, selector: str) -> tuple[int, int]:
    box = browser.box(selector)
    return int((box["top"] + box["bottom"]) / 2), int((box["left"] + box["right"]) / 2)


@pytest.mark.parametrize(("scheme", "colors"), [("light", LIGHT), ("dark", DARK)])
def test_cells_have_the_colors_of_their_weights(see, scheme, colors):
    browser = see(scheme=scheme)
    image = browser.picture()
    brightness_by_weight = {}
    for (row, column), weight in np.ndenumerate(CAT):
        brightness_by_weight[row, column] = image[in_the_middle(browser, cell(row, column))] * 255
        if weight in colors:
            assert brightness_by_weight[row, column] == pytest.approx(colors[weight], abs=2), (row, column)
    darkness = [brightness_by_weight[place].mean() for place in [(0, 1), (2, 1), (1, 0), (1, 1), (2, 2), (0, 0)]]
    assert (np.diff(darkness) < 0).all() if scheme == "light" else (np.diff(darkness) > 0).all()


def test_the_color_scheme_changes_live(see):
    browser = see(scheme="light")
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(ground) == "rgb(255, 255, 255)"
    browser.emulate(scheme="dark")
    assert browser.run(ground) == "rgb(18, 22, 28)"
    assert browser.picture()[in_the_middle(browser, cell(0, 0))].mean() > 0.9
    assert browser.picture()[in_the_middle(browser, "main h2")].mean() < 0.9  # light letters on dark ground


def test_a_pointer_over_a_cell_shows_its_weight(see):
    browser = see()
    assert not browser.run("return document.getElementById('tip').checkVisibility()")
    assert browser.tooltip(cell(2, 1)) == "T read a: 0.123"
    tip, cell_box = browser.box("#tip"), browser.box(cell(2, 1))
    assert tip["bottom"] <= cell_box["top"] or tip["top"] >= cell_box["bottom"]  # it does not hide what it is about
    assert browser.texts(".map .met") == ["a", "T"]
    browser.hover("h1")
    assert not browser.run("return document.getElementById('tip').checkVisibility()")


@pytest.mark.parametrize("place", [".output .symbol:nth-child(2)", "tr[data-row='1'] th button"])
def test_a_click_on_an_output_symbol_shows_what_it_read(see, place):
    browser = see()
    browser.click(place)
    cells = "[...document.querySelectorAll('.map tbody td[data-column=\"0\"]')]"
    opacity = f"return {cells}.map(cell => getComputedStyle(cell).opacity)"
    assert [float(value) for value in browser.run(opacity)] == [0.3, 1, 0.3, 0.3]
    assert browser.text("#chosen") == "AE read a 0.600, c 0.200, t 0.200"
    image = browser.picture()
    corners = [(int(box[1]) + 2, int(box[0]) + 1) for box in browser.boxes(".read .symbol")]
    c, a, t = (image[corner] * 255 for corner in corners)
    assert c == pytest.approx(LIGHT[0.2], abs=3)
    assert t == pytest.approx(LIGHT[0.2], abs=3)
    assert a.mean() < c.mean() - 50  # 0.6 is darker than 0.2
    browser.click(place)
    assert browser.text("#chosen") == ""
    assert {float(value) for value in browser.run(opacity)} == {1}


def test_keys_move_through_a_map_and_select(see):
    browser = see()
    browser.run("document.querySelector('td[tabindex=\"0\"]').focus()")
    for key in ("right", "down", "down", "left", "right"):
        browser.press(key)
    assert browser.text("#tip") == "T read a: 0.123"
    assert browser.text("#place") == "1 of 5"  # arrows moved in the map, not among the examples
    browser.run("document.querySelector('.output .symbol').focus()")
    browser.press("enter")
    assert browser.text("#chosen") == "K read c 1.000"
    browser.press("escape")
    assert browser.text("#chosen") == ""


def test_examples_are_listed_with_marks_and_chosen_by_click_and_keys(see):
    browser = see()
    assert browser.text("#count") == "5 examples, 1 wrong"
    marks = browser.run("return [...document.querySelectorAll('#examples .mark')].map(mark => mark.textContent)")
    assert marks == ["✓correct: ", "✗wrong: ", *["✓correct: "] * 3]
    browser.click("#examples li:nth-child(2) button")
    assert browser.texts(".output .symbol") == ["D", "AO", "K", END]
    assert browser.text(".reference") == "reference\nD AO G"
    assert browser.text("#place") == "2 of 5"
    browser.click("h1")
    browser.press("left")
    assert browser.texts(".output .symbol") == ["K", "AE", "T", END]
    assert browser.run("return document.querySelectorAll('.reference').length") == 0
    browser.press("left")  # before the first there is none
    assert browser.text("#place") == "1 of 5"
    assert browser.run("return document.getElementById('previous').disabled")
    browser.click("#next")
    assert browser.texts("[aria-current='true'] .words") == ["dog", "D AO K"]
    browser.run("document.querySelector('#examples [aria-current]').focus()")
    browser.press("down")
    assert browser.text("#place") == "3 of 5"
    assert browser.run("return document.activeElement.dataset.example") == "2"


def test_examples_are_found_and_filtered(see):
    browser = see()
    browser.click("[data-filter='wrong']")
    assert browser.texts("#examples .words") == ["dog", "D AO K"]
    assert browser.text("#count") == "1 of 5 examples"
    browser.click("[data-filter='right']")
    assert browser.text("#count") == "4 of 5 examples"
    browser.click("[data-filter='all']")
    browser.write("#search", "K AE")
    assert browser.texts("#examples .words") == ["cat", "K AE T"]
    browser.write("#search", "x")
    assert browser.text("#count") == "0 of 5 examples"


def test_arrow_keys_in_the_search_box_move_its_cursor(see):
    browser = see(example=2)
    browser.click("#search")
    browser.press("left")
    assert browser.text("#place") == "2 of 5"
    browser.click("h1")
    browser.press("left")
    assert browser.text("#place") == "1 of 5"


def test_a_hypothesis_and_a_head_can_be_chosen(see):
    browser = see()
    assert browser.texts("[data-menu='hypothesis'] option") == ["1: K AE T (-0.25)", "2: S AH (-1.50)"]
    assert browser.texts("[data-menu='head'] option") == ["mean", "head 1", "head 2"]
    browser.click("[data-menu='head'] option:nth-child(3)")
    assert browser.tooltip(cell(1, 2)) == "AE read t: 0.400"
    browser.click("[data-menu='hypothesis'] option:nth-child(2)")
    assert browser.texts(".output .symbol") == ["S", "AH", END]
    assert browser.text(".reference") == "reference\nK AE T"
    assert browser.tooltip(cell(0, 2)) == "S read t: 1.000"
    assert browser.run("return document.querySelector('[data-menu=\"head\"]')") is None


def test_two_runs_are_shown_side_by_side(see):
    browser = see("first-second")
    assert browser.texts("article h3") == ["first", "second"]
    tables = browser.boxes("article .map tbody")
    assert tables[0][1] == pytest.approx(tables[1][1], abs=1)  # the same height
    assert tables[0][2] < tables[1][0]
    browser.click("[data-run='1'] .output .symbol:nth-child(3)")
    assert browser.text("#chosen") == "first: T read t 0.877, a 0.123\nsecond: T read a 1.000"
    assert browser.texts("#statistics tr:nth-child(1) td.number") == ["5", "1"]
    browser.click("#next")
    assert browser.texts("article .note")[-1] == "This run did not save this example."
    assert browser.texts("#examples li:nth-child(1) .mark") == ["✓ correct:", "✓ correct:"]


def test_weights_of_zero_are_hatched(see):
    """Step 0 reads positions 0 and 1 of three."""
    browser = see("first-second")
    image = browser.picture() * 255
    spans = []
    for column in range(3):
        box = browser.box(cell(0, column, article=1))
        inner = image[int(box["top"]) + 4 : int(box["bottom"]) - 4, int(box["left"]) + 4 : int(box["right"]) - 4]
        spans.append(bool(np.ptp(inner.mean(axis=-1)) > 10))
    assert spans == [False, False, True]
    assert browser.texts("[data-run='1'] .note") == ["Hatched: a weight of exactly 0."]


def test_decoder_states_are_separated(see):
    browser = see(example=5)
    assert browser.texts(".captions th") == ["", "source", "", "decoder states"]
    lefts = [browser.box(cell(0, column))["left"] for column in range(5)]
    width = lefts[1] - lefts[0]
    assert np.diff(lefts) == pytest.approx([width, np.diff(lefts)[1], width, width])
    assert lefts[2] - lefts[1] > width + 8


@pytest.mark.parametrize(("name", "example"), [("first", 1), ("first", 3), ("first-second", 1), ("long", 1)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(see, name, example, scheme):
    browser = see(name, example, width=360, height=740, scheme=scheme, phone=True)
    browser.click("tbody th button")
    assert browser.run("return [document.documentElement.scrollWidth, window.innerWidth]") == [360, 360]
    outside = "[...document.querySelectorAll('main *, nav *, header *')].filter("
    outside += "e => !e.closest('.scroll, [role=region], .hidden') && e.getBoundingClientRect().right > 361)"
    outside = f"return {outside}.map(e => e.outerHTML.slice(0, 80))"
    assert browser.run(outside) == []
    sizes = "return [...document.querySelectorAll('button, input, select')].filter(e => !e.closest('.map'))"
    assert min(browser.run(f"{sizes}.map(e => e.getBoundingClientRect().height)")) >= 28
    first = browser.box("tbody th button")
    browser.run("document.querySelector('.scroll').scrollLeft = 200")
    assert browser.box("tbody th button") == first  # the names of the rows stay in sight


@pytest.mark.parametrize("width", [1280, 375])
def test_the_page_ends_below_its_last_line(see, width):
    browser = see("many", width=width, phone=width == 375)
    tail = "document.documentElement.scrollHeight - document.querySelector('footer').getBoundingClientRect().bottom"
    assert browser.run(f"return {tail} - window.scrollY") < 80


@pytest.mark.parametrize("name", ["many", "many-word"])
def test_a_phone_breaks_no_word_of_a_table_and_cuts_no_number(see, name):
    """A word may end at an underscore, an equals sign, a comma or a slash."""
    browser = see(name, width=375, height=740, phone=True)
    words = browser.run(
        "const all = [], range = document.createRange();"
        "for (const cell of document.querySelectorAll('.plain th, .plain td')) {"
        "  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);"
        "  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\d.]+/gu)) {"
        "    range.setStart(texts.currentNode, word.index);"
        "    range.setEnd(texts.currentNode, word.index + word[0].length);"
        "    all.push([word[0], new Set([...range.getClientRects()].map(box => Math.round(box.top))).size]);"
        "  }"
        "} return all")  # fmt: skip
    assert {"normalizer", "monotonic", "activated", "tokens"} <= {word for word, _ in words}
    assert [word for word, lines in words if lines != 1] == []
    assert browser.run("return [...document.querySelectorAll('.wide')].every(e => e.scrollWidth <= e.clientWidth)")


def test_the_player_is_a_few_stops_of_tab_away(see):
    """The list of examples, the output and the map are a stop each; arrow keys go on within them."""
    browser = see("many", example=59)
    stops = []
    while not stops or stops[-1] != "play":
        browser.press("tab")
        stops.append(browser.run("const e = document.activeElement; return e.id || e.className || e.tagName"))
        assert len(stops) < 20
    assert browser.run("return document.querySelectorAll('#examples [tabindex=\"0\"]').length") == 1
    browser.run("document.querySelector('.output [tabindex=\"0\"]').focus()")
    for key in ("right", "right", "left", "enter"):
        browser.press(key)
    assert browser.text("#chosen") == "U read u 1.000"
    assert browser.text("#place") == "59 of 61"


def test_both_text_directions_are_shown_correctly(see):
    browser = see(example=4)
    read = [box[0] for box in browser.boxes(".read .symbol")]
    assert read == sorted(read, reverse=True)
    wrote = [box[0] for box in browser.boxes(".output .symbol")]
    assert wrote == sorted(wrote)
    columns = [browser.box(cell(0, column))["left"] for column in range(4)]
    assert columns == sorted(columns)  # positions count from the left in every map
    assert browser.texts("thead th[data-column]") == ARABIC


def test_hostile_symbols_are_text(see):
    browser = see(example=3)
    assert browser.run("return document.title") == "first"
    assert browser.run("return document.querySelectorAll('img').length") == 0
    shown = browser.run("return [...document.querySelectorAll('.read .symbol')].map(e => e.textContent)")
    assert shown == [symbol.replace(" ", "␣") for symbol in HOSTILE]
    assert browser.tooltip(cell(0, 0)).startswith("</script><script>")


def test_a_screen_reader_gets_every_value(see):
    browser = see()
    browser.protocol("Accessibility.enable")
    tree = browser.protocol("Accessibility.getFullAXTree")["nodes"]
    labels = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
    assert ("gridcell", "T read a, weight 0.123") in labels
    assert {("columnheader", "c"), ("button", "Next example"), ("searchbox", "Find"), ("navigation", "Examples")} <= {
        *labels
    }
    assert ("button", "wrong: dog D AO K") in labels
    acting = ("button", "searchbox", "combobox", "grid", "gridcell")
    assert [role for role, name in labels if role in acting and not name] == []


def test_the_page_loads_nothing(see, home):
    """The policy works, and the browser requests only the file itself."""
    browser = see()
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    assert browser.run("return document.querySelector('meta[http-equiv]').content").startswith(policy)
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert {url.partition("#")[0] for url in sent} <= {(home / "first.html").as_uri(), "data:,", "about:blank"}
    assert (home / "first.html").as_uri() in {url.partition("#")[0] for url in sent}
    assert browser.run("return fetch('data:,a').then(() => 'got', () => 'refused')") == "refused"
    assert any("Content Security Policy" in entry["message"] for entry in browser.log("browser"))


class Scripts(HTMLParser):
    """What the script elements of a page hold, read as a browser does: up to the first end tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.contents: list[str] = []
        self._within = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._within = False

    def handle_data(self, data: str) -> None:
        if self._within:
            self.contents.append(data)


def test_the_embedded_data_are_complete(home, tmp_path):
    page = write_page([home / "first"], tmp_path / "page.html")
    scripts = Scripts(page.read_text(encoding="utf-8")).contents
    assert len(scripts) == 2
    saved = json.loads(scripts[0])
    assert [example["source"] for example in saved["examples"]] == [[*"cat"], [*"dog"], HOSTILE, ARABIC, [*"日本"]]
    best = saved["examples"][0]["runs"][0][0]
    assert best["views"][0]["weights"] == [1000, 0, 0, 200, 600, 200, 0, 123, 877, 0, 0, 1000]
    assert embedded_json("\ud800<") == '"\\ud800\\u003c"'  # half a character cannot be written as UTF-8


def test_the_page_references_no_other_file(home, tmp_path):
    page = write_page([home / "first", home / "second"], tmp_path / "page.html")
    text = page.read_text(encoding="utf-8").replace('"http://www.w3.org/2000/svg"', "")  # a name, no address
    assert re.findall(r"https?://|//[a-z]+\.", text) == []
    assert re.findall(r"<(?:link|script|img|iframe)[^>]*(?:src|href)=\"([^\"]*)", text) == ["data:,"]
    assert "{{" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "attnx page needs RUN; write attnx page RUN"),
        (["first", "second", "long"], "one run, or two side by side, not 3"),
        (["nowhere"], "nowhere: not a folder"),
        (["empty"], "empty: the run saved no alignments"),
        (["first", "--out", "no/page.html"], "--out no/page.html: no such folder"),
        (["first", "--out", "second"], "--out second: it is a folder"),
        (["first", "--uot", "a.html"], "unknown flag --uot; did you mean --out"),
        (["first", "second"], "two runs side by side need --out FILE"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(words, message, home, write_run, monkeypatch):
    monkeypatch.chdir(home)
    if not Path("empty").exists():
        write_run(home / "empty")
    files_before = sorted(home.rglob("*"))
    with pytest.raises(UserError, match=message):
        command(["page", *words])
    assert sorted(home.rglob("*")) == files_before


def test_the_command_writes_into_the_run_or_a_given_file(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    assert command(["page", "long"]) == 0
    assert "<title>long</title>" in Path("long/page.html").read_text(encoding="utf-8")
    assert command(["page", "first", "second", "--out", "both.html"]) == 0
    assert "<title>first and second</title>" in Path("both.html").read_text(encoding="utf-8")
    out, err = capsys.readouterr()
    assert out.split() == ["long/page.html", "both.html"]
    assert err.startswith("attnx: the player shows saved weights only: long")
    assert err.count("\n") == 3  # a line each
