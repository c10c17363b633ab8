"""The page of parts that move: every part has its pictures, and its options move them to the part's own numbers."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gallery.example import read_example, row_weights
from gallery.moving_page import moving_page
from gallery.variants import MOVING_KINDS, PartVariant, alternatives, drawable_parts

from attnx import registry

ROOT = Path(__file__).parents[2]
MAX_PAGE_BYTES = 1_500_000
PLUGIN = '''
"""A plug-in."""
from attnx.attention.scorers.dot import Dot
from attnx.errors import UserError
from attnx.registry import NonNegativeFloat, register

@register("scorer", "raised")
class Raised(Dot):
    """Inner products </script><b>raised</b> by a power of at most 5.

    Formula: ``score(q, m) = (q . m)^power``
    Source: none, https://example.org/raised
    """

    def __init__(self, power: NonNegativeFloat = 1.0, signed: bool = False) -> None:
        super().__init__()
        if power > 5:
            raise UserError(f"scorer.power={power}: at most 5")
        self.power, self.signed = power, signed

    def score(self, queries, keys):
        return super().score(queries, keys).abs() ** self.power
'''
ACTIVE = "document.activeElement"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of all parts, of the repository's plug-in and of another, with parameters fitted for one step."""
    folder = tmp_path_factory.mktemp("gallery")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "raised.py").write_text(PLUGIN)
    shutil.copy(ROOT / "plugins" / "gaussian.py", plugins)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNX_PLUGINS", str(plugins))
        patch.setattr("gallery.example.FIT_STEPS", 1)
        (folder / "parts.html").write_text(moving_page(), encoding="utf-8")
        yield folder / "parts.html"


@pytest.fixture
def see(open_page, page):
    """Open the page at a part."""
    return lambda part, **window: open_page(page, f"#{part}", **window)


def animations(page: Path) -> dict[str, Any]:
    """The animation of every part, by its override."""
    text = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert text
    return {f"{part['choice']}={part['name']}": part for part in json.loads(text[1])["parts"]}


def focus(browser: Any, dial: str) -> None:
    browser.run("document.querySelector(arguments[0]).focus()", f"[data-dial={dial}]")


def dial_value(browser: Any, dial: str) -> str:
    return browser.run(
        "return document.querySelector(arguments[0]).closest('.dial').querySelector('output').innerText",
        f"[data-dial={dial}]",
    )


def weights(browser: Any) -> list[float]:
    """The weights that are written beside the picture, and above its bars."""
    written = re.search(r"eights: ([\d. ]+);", browser.text("#readout"))
    assert written
    return list(map(float, written[1].split()))


def test_every_part_has_a_frame_for_every_value_of_its_options(page):
    parts, pages = drawable_parts(MOVING_KINDS), animations(page)
    assert list(pages) == [str(PartVariant(part)) for part in parts]
    assert page.stat().st_size < MAX_PAGE_BYTES
    for part in parts:
        animation = pages[str(PartVariant(part))]
        combinations = [tuple(map(int, key.split(","))) for key in animation["frames"] if key]
        fixed = part.declarations.get("for_models", ())
        assert [dial["name"] for dial in animation["dials"]] == [
            option.name for option in part.options if option.name not in fixed
        ]
        for axis, dial in enumerate(animation["dials"]):
            assert {combination[axis] for combination in combinations} == set(range(len(dial["values"])))
            assert dial["values"][dial["start"]] == dial["default"]
        assert set(animation["frames"].values()) == set(range(len(animation["pictures"])))
        for variant in alternatives(part):
            key, text = str(variant).split()[1].split("=")
            assert text in next(dial["values"] for dial in animation["dials"] if dial["key"] == key)


def test_pictures_hold_the_numbers_of_the_parts(page):
    animation = animations(page)["scope=local"]
    combination = [
        dial["values"].index(text)
        for dial, text in zip(animation["dials"], ["monotonic", "1", "1", "0", "0", "[encoder]", "false"], strict=True)
    ]
    picture = animation["pictures"][animation["frames"][",".join(map(str, combination))]]
    reading = read_example(scope=("local", {"window": 1}))
    np.testing.assert_allclose(np.array(picture["weights"]) / 1000, reading.weights, atol=0.0005)
    np.testing.assert_allclose(np.array(picture["scores"]) / 100, reading.scores, atol=0.005)
    assert picture["allowed"] == ["".join(map(str, row)) for row in reading.allowed_mask.astype(int)]


def test_a_slider_moves_weights_to_those_of_the_part(see):
    browser = see("normalizer=softmax")
    assert weights(browser) == pytest.approx(row_weights("softmax"), abs=0.0006)
    focus(browser, "temperature")
    for key in ("left", "left", "left"):
        browser.press(key)
    temperature = float(dial_value(browser, "temperature"))
    assert temperature < 0.5
    exact = row_weights(("softmax", {"temperature": temperature}))
    assert weights(browser) == [round(weight, 3) for weight in exact]
    bars = browser.run(
        "return [...document.querySelectorAll('#panels .panel:first-child text')].map(e => e.textContent)"
    )
    assert [f"{weight:.3f}" for weight in exact[:7]] == [text for text in bars if re.fullmatch(r"\d\.\d{3}", text)]
    assert browser.text("#command") == f"attnx normalizer=softmax normalizer.temperature={temperature}"


def test_a_plug_in_moves_too_and_its_text_is_text(see):
    """A power above 5 is refused by the plug-in, so that the slider ends below."""
    browser = see("scorer=raised")
    assert browser.text("#summary") == "Inner products </script><b>raised</b> by a power of at most 5."
    focus(browser, "power")
    for _ in range(20):
        browser.press("right")
    assert dial_value(browser, "power") == "5.0"
    expected = read_example(scorer=("raised", {"power": 5.0})).weights[3]
    assert weights(browser) == pytest.approx(expected, abs=0.0006)
    note = (
        "return document.getElementById(document.querySelector('[data-dial=signed]').getAttribute('aria-describedby')"
    )
    assert "changes nothing" in browser.run(f"{note}).innerText")


def test_a_combination_that_a_part_refuses_shows_its_message(see):
    browser = see("normalizer=entmax")
    browser.click("[data-dial=learned]")
    focus(browser, "alpha")
    for _ in range(10):
        browser.press("right")
    assert dial_value(browser, "alpha") == "2.0"
    assert "an alpha that is learned starts between 1.01 and 2" in browser.text("#refused")
    browser.click("[data-dial=learned]")
    assert weights(browser) == pytest.approx(row_weights("sparsemax"), abs=0.0006)


def test_play_sweeps_an_option_until_it_is_pressed_again(see):
    """With reduced motion a press is one step."""
    browser = see("scope=local")
    browser.hold_clock()
    button = "#dials .dial:nth-child(2) .play"
    browser.run("document.querySelector(arguments[0]).focus()", button)
    browser.press("enter")
    assert browser.run(f"return {ACTIVE}.getAttribute('aria-pressed')") == "true"
    assert dial_value(browser, "window") == "4"
    assert len(browser.fire_timers()) == 1
    assert dial_value(browser, "window") == "5"
    browser.press("enter")
    assert browser.fire_timers() == []
    assert dial_value(browser, "window") == "5"
    browser.protocol("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    browser.press("enter")
    assert browser.fire_timers() == []
    assert dial_value(browser, "window") == "6"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(see, page, scheme):
    browser = see("scorer=mlp", width=375, height=740, scheme=scheme, phone=True)
    for address in animations(page):
        browser.run("location.hash = arguments[0]", address)
        assert browser.text("#name") == address.partition("=")[2]
        assert browser.run("return [document.documentElement.scrollWidth, window.innerWidth]") == [375, 375], address
        assert browser.run("return document.querySelector('#panels svg').getBoundingClientRect().width") > 240


def test_parts_are_reached_by_keyboard_with_a_visible_focus(see):
    browser = see("scorer=dot")
    browser.press("tab")
    assert browser.run(f"return {ACTIVE}.getAttribute('href')") == f"#{PartVariant(drawable_parts()[0])}"
    assert browser.run(f"return getComputedStyle({ACTIVE}).outlineStyle") == "solid"
    browser.press("enter")
    assert browser.text("#name") == drawable_parts()[0].name
    names = browser.run(
        "return [...document.querySelectorAll('button, input, select, svg[role]')].filter(e => e.offsetParent !== null)"
        ".map(e => e.getAttribute('aria-label') || (e.labels && e.labels.length && e.labels[0].innerText))"
    )
    assert names
    assert all(names)


def test_grids_stay_within_what_a_part_takes(page):
    def values(override: str, option: str) -> list[str]:
        return next(dial["values"] for dial in animations(page)[override]["dials"] if dial["name"] == option)

    assert values("normalizer=entmax", "alpha") == [f"{1 + tenth / 10}" for tenth in range(1, 11)]
    assert values("scope=local", "window") == list(map(str, range(8)))
    assert values("scorer=raised", "power")[0] == "0.0"
    assert values("scope=global", "sources") == ["[encoder]", "[decoder]", "[encoder,decoder]"]
    bias = list(map(float, values("normalizer=sigmoid", "bias")))
    assert (min(bias), max(bias), registry.describe("normalizer", "sigmoid").options[0].default) == (-5, 5, 0)
