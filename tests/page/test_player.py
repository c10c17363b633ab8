"""The player of a run's page in a real browser: keys, numbers of each step, beams, playing, and frames."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from attnx.reports.pages.decoding_trace import BeamNode, Candidate, ExampleTrace, HypothesisTrace, ReadTrace
from attnx.reports.pages.run_page import write_page
from attnx.runs.alignments import Alignment

END = "</s>"
OUTPUT = ["K", "AE", "T", END]
# Scores of four steps over "cat"; a window forbids the last position at the first step, the first at the last.
SCORES = np.array([[2.0, -1.0, 5.0], [0.5, 1.5, -0.25], [-3.0, -1.0, -2.0], [9.0, 0.0, 0.75]])
ALLOWED = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 1, 1]], dtype=bool)
# The root of 3² + 4² is 5, and the second query is at a right angle to the first.
QUERIES = np.array([[3.0, 4.0], [-4.0, 3.0], [1.0, 0.0], [-2.0, 0.0]])
CHANCES = [{"K": 0.5, "G": 0.25}, {"AE": 0.75, "AA": 0.125}, {"T": 0.625, "D": 0.25}, {END: 0.875, "S": 0.0625}]
# "AA" after "K" is pruned; "G" goes on to "AE" and is pruned with it.
BEAMS = [(-1, "K", 0.5), (-1, "G", 0.25), (0, "AE", 0.75), (0, "AA", 0.125), (1, "AE", 0.5), (2, "T", 0.625),
         (5, END, 0.875)]  # fmt: skip
PATH = (0, 2, 5, 6)


def softmax(scores: Any, allowed_mask: Any) -> Any:
    shares = np.exp(scores) * allowed_mask
    return shares / shares.sum(-1, keepdims=True)


WEIGHTS = softmax(SCORES, ALLOWED)


def read_of(scores: Any, allowed_mask: Any) -> ReadTrace:
    """The read of these heads (h, t, m), with the same queries and contexts in each."""
    vectors = np.broadcast_to(QUERIES, (len(scores), *QUERIES.shape)).astype(np.float32)
    return ReadTrace(vectors, scores, allowed_mask, softmax(scores, allowed_mask), None, vectors)


def trace_cat(hypotheses: Sequence[Alignment]) -> ExampleTrace | None:
    """The first example in one head, the second in two; the third was not saved with its source."""
    best = hypotheses[0]
    if best.output != tuple(OUTPUT):
        return None
    candidates = tuple(tuple(Candidate(*pair) for pair in step.items()) for step in CHANCES)
    scores, allowed = SCORES[None], ALLOWED[None]
    if best.heads is not None:
        scores, allowed = np.stack([SCORES, SCORES[::-1]]), np.stack([ALLOWED, ALLOWED[::-1]])
    nodes = tuple(BeamNode(parent, symbol, float(np.log(chance))) for parent, symbol, chance in BEAMS)
    return ExampleTrace((HypothesisTrace(read_of(scores, allowed), candidates),), nodes, (PATH,))


@pytest.fixture(scope="module")
def pages(tmp_path_factory, write_run, keep):
    home = tmp_path_factory.mktemp("player")
    run = write_run(home / "run", {"scorer": {"name": "additive"}, "normalizer": {"name": "softmax"}})
    keep(run, "000", "cat", OUTPUT, WEIGHTS)
    heads = np.stack([WEIGHTS, WEIGHTS[::-1]])
    keep(run, "001", "cat", OUTPUT, heads.mean(0), heads=heads)
    keep(run, "002", "dog", ["D", END], np.eye(2, 3))
    write_page([run], home / "traced.html", lambda folder: trace_cat)
    write_page([run], home / "saved.html")
    return home


@pytest.fixture
def see(open_page, pages):
    """Open a page at an example."""

    def show(name: str = "traced", example: int = 1, **window: Any) -> Any:
        return open_page(pages / f"{name}.html", f"#{example}", **window)

    return show


def labels(browser: Any, row: str) -> list[str]:
    """What a screen reader gets of the positions in a row of the player's table: "c, weight 0.953"."""
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.ariaLabel)"
    return browser.run(script, f".read-table [data-row='{row}'] td")


def numbers(browser: Any, row: str) -> list[float]:
    return [float(re.findall(r"-?\d+\.\d+", label)[0]) for label in labels(browser, row)]


def test_keys_step_through_the_saved_weights(see):
    browser = see()
    browser.run("document.getElementById('player').focus()")
    assert browser.text("#step-name") == "step 1 of 4"
    for key, step in [("right", 1), ("end", 3), ("right", 3), ("left", 2), ("home", 0), ("left", 0), ("right", 1)]:
        browser.press(key)
        assert browser.text("#step-name") == f"step {step + 1} of 4"
        assert numbers(browser, "weight") == pytest.approx(WEIGHTS[step], abs=5e-4)
        assert browser.texts(".written .now") == [OUTPUT[step]]
        assert browser.run("return document.querySelector('.map tr.picked').dataset.row") == str(step)
    assert browser.text("#place") == "1 of 3"  # arrow keys did not go on to the next example
    browser.click(".output .symbol:nth-child(3)")
    assert browser.text("#step-name") == "step 3 of 4"


def test_weights_are_the_softmax_of_allowed_scores(see):
    browser = see()
    for step in range(4):
        browser.run("goTo(arguments[0])", step)
        forbidden = [label.endswith("forbidden") for label in labels(browser, "score")]
        assert forbidden == (~ALLOWED[step]).tolist()
        scores = np.array(numbers(browser, "score"))
        assert scores == pytest.approx(SCORES[step])
        assert numbers(browser, "weight") == pytest.approx(softmax(scores, ~np.array(forbidden)), abs=1e-3)
        hatched = "return [...document.querySelectorAll(\"[data-row='weight'] td\")].map(e => getComputedStyle(e)"
        images = browser.run(f"{hatched}.backgroundImage)")
        assert ["repeating" in image for image in images] == forbidden
    assert browser.texts(".panel .note") == ["Hatched: forbidden, or not there yet."]


def test_vectors_and_candidates_are_those_of_the_step(see):
    browser = see()
    assert browser.texts(".stage small")[1:3] == ["what the decoder asks with", "2 numbers, norm 5.00"]
    assert browser.texts(".candidates li:not(.empty)") == ["K 0.500 chosen", "G 0.250"]
    browser.run("goTo(1)")
    assert browser.texts(".stage small")[2] == "2 numbers, norm 5.00, cosine 0.00 to the step before"
    assert browser.texts(".candidates li:not(.empty)") == ["AE 0.750 chosen", "AA 0.125"]
    left_half, right_half = browser.run(
        "const c = document.querySelector('canvas.numbers').getContext('2d').getImageData(0, 0, 2, 1).data;"
        "return [[...c.slice(0, 3)], [...c.slice(4, 7)]]")  # fmt: skip
    assert left_half[0] > left_half[2]  # -4 is orange
    assert right_half[2] > right_half[0]  # 3 is blue


def test_the_winner_among_the_beams_is_the_output(see):
    browser = see()
    symbols = "return [...document.querySelectorAll(arguments[0])].map(e => e.dataset.symbol)"
    assert browser.run(symbols, ".beam-tree .node.on-path") == OUTPUT
    assert browser.run(symbols, ".beam-tree .node:has(.winner)") == [END]
    assert browser.run(symbols, ".beam-tree .node.pruned") == ["AA", "AE"]
    visible = "return [...document.querySelectorAll('.beam-tree .node')].filter(e => getComputedStyle(e).visibility"
    counts = []
    for step in range(4):
        browser.run("goTo(arguments[0])", step)
        counts.append(browser.run(f"{visible} === 'visible').length"))
    assert counts == [2, 5, 6, 7]
    edges = "return [...document.querySelectorAll('.beam-tree .edge')].map(e => Number(e.getAttribute('stroke-width')))"
    assert browser.run(edges) == pytest.approx(
        [0.75 + 7 * chance for parent, _, chance in BEAMS if parent >= 0], abs=0.01
    )


def test_playing_goes_on_to_the_last_step(see):
    browser = see()
    assert browser.text("#play") == "▶ Play"
    browser.hold_clock()
    browser.run("const e = document.getElementById('speed'); e.value = '4'")
    browser.run("document.getElementById('player').focus()")
    browser.press(" ")
    assert browser.text("#play") == "❚❚ Pause"
    for step in (2, 3, 4):
        assert browser.text("#step-name") == f"step {step} of 4"
        assert browser.fire_timers() == ([250] if step < 4 else [])
    assert browser.text("#play") == "▶ Play"
    browser.click("#play")  # from the start again
    browser.press("escape")
    browser.press("home")
    assert browser.text("#play") == "▶ Play"
    assert browser.fire_timers() == []


def test_a_head_has_its_own_scores(see):
    browser = see(example=2)
    assert browser.texts(".panel .note") == [
        "These weights are the mean over heads; choose a head for its query, scores and context."
    ]
    assert browser.texts(".read-table tbody th") == ["weight"]
    browser.click("[data-menu='player-head'] option:nth-child(3)")
    assert numbers(browser, "score") == pytest.approx(SCORES[3])
    assert browser.texts("[data-menu='head'] option:checked") == ["head 2"]


def test_saved_weights_are_played_without_a_trace(see):
    browser = see(example=3)
    assert browser.texts(".panel .note") == ["Only saved weights: its source was not saved with them."]
    browser = see("saved")
    assert browser.texts(".panel .note")[0].startswith("Only saved weights: attnx page ")
    browser.run("goTo(2)")
    assert numbers(browser, "weight") == pytest.approx(WEIGHTS[2], abs=5e-4)
    assert browser.texts(".stage strong") == ["output", "weights"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_player_fits_a_phone(see, scheme, tmp_path_factory):
    browser = see(width=375, height=812, scheme=scheme, phone=True)
    browser.run("goTo(1); document.getElementById('player').scrollIntoView()")
    browser.picture(tmp_path_factory.getbasetemp() / f"player-phone-{scheme}.png")
    assert browser.run("return [document.documentElement.scrollWidth, window.innerWidth]") == [375, 375]
    sizes = "return [...document.querySelectorAll('.player button, .player input, .player select')]"
    assert min(browser.run(f"{sizes}.map(e => e.getBoundingClientRect().height)")) >= 28
    ring = "return getComputedStyle(document.activeElement).outlineStyle"
    browser.run("document.getElementById('back').focus()")
    browser.press("tab")
    assert browser.run("return document.activeElement.id") == "play"
    assert browser.run(ring) == "solid"


NUM_EXAMPLES, POSITIONS, STEPS, WIDTH, BEAM_SIZE = 60, 11, 13, 256, 5
PLAY_ALL = """\
return (async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const played = [];
  let longest = 0, last = await frame();
  for (let example = 0; example < data.examples.length; example += 1) {
    choose(example);
    for (const step of example % 6 ? [0, stepCount() - 1] : Array(stepCount()).keys()) {
      goTo(step);
      const now = await frame();
      longest = Math.max(longest, now - last);
      last = now;
    }
    played.push(document.getElementById("step-name").textContent);
  }
  return [played, longest];
})()
"""


def trace_at_random(hypotheses: Sequence[Alignment]) -> ExampleTrace:
    random = np.random.default_rng(len(hypotheses[0].output))
    vectors = random.normal(size=(1, STEPS, WIDTH)).astype(np.float32)
    scores = random.normal(size=(1, STEPS, POSITIONS)).astype(np.float32)
    weights = hypotheses[0].weights[None]
    read = ReadTrace(vectors, scores, np.ones_like(scores, dtype=bool), weights, None, vectors)
    candidates = tuple((Candidate(symbol, 0.5), *[Candidate("S", 0.1)] * 4) for symbol in hypotheses[0].output)
    nodes = tuple(
        BeamNode(index - BEAM_SIZE if index >= BEAM_SIZE else -1, "S", -0.7) for index in range(STEPS * BEAM_SIZE)
    )
    path = tuple(range(0, STEPS * BEAM_SIZE, BEAM_SIZE))
    return ExampleTrace((HypothesisTrace(read, candidates),), nodes, (path,))


def test_sixty_examples_are_played(browser, tmp_path, write_run, keep, record_property):
    """A step every frame, all of every sixth example and the first and the last of the others.

    The longest time between two frames is recorded, and shown by ``pytest -s``.
    """
    run = write_run(tmp_path / "run")
    weights = np.full((STEPS, POSITIONS), 1 / POSITIONS)
    for index in range(NUM_EXAMPLES):
        keep(run, f"{index:03d}", "a" * POSITIONS, [*"b" * (STEPS - 1), END], weights)
    page = write_page([run], None, lambda folder: trace_at_random)
    assert page.stat().st_size < 3e6
    browser.go(page)
    played, longest = browser.run(PLAY_ALL)
    assert played == [f"step {STEPS} of {STEPS}"] * NUM_EXAMPLES
    record_property("longest_frame_ms", longest)
    print(f"\n{page.stat().st_size / 1e6:.2f} MB, {NUM_EXAMPLES} examples, longest frame {longest:.0f} ms")
