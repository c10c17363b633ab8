"""Pictures of parts match the parts, and the page in docs/ is the one that the gallery writes."""

import functools
import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gallery.drawings import VECTORS, draw_reading, draw_step, draw_variant, variants_to_draw
from gallery.example import (
    ALLOWED_COUNT,
    FIT_STEPS,
    FIXED_SCORE,
    LONG_POSITION,
    PADDING,
    POSITIONS,
    REPEAT_STEP,
    REPEATED_STEP,
    RISING_SCORES,
    STATE_SIZE,
    STEPS,
    Reading,
    head_maps,
    read_example,
    rising_weights,
    row_weights,
    target_positions,
)
from gallery.markdown_page import EXAMPLE, markdown_page
from gallery.variants import PartVariant, drawable_parts
from matplotlib.figure import Figure
from matplotlib.image import imread
from numpy.typing import NDArray
from part_docs import formula_markdown

from attnx import registry
from attnx.reports.figures.panels import DPI, left_edges

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date(tmp_path, monkeypatch):
    shutil.copy(ROOT / "plugins" / "gaussian.py", tmp_path)
    monkeypatch.setenv("ATTNX_PLUGINS", str(tmp_path))
    choices = [choice for part in drawable_parts() for choice in variants_to_draw(part)]
    message = "docs/parts.md: out of date; in the repository's folder, run: python docs/_extensions/draw_parts.py"
    assert (ROOT / "docs" / "parts.md").read_text(encoding="utf-8") == markdown_page(choices), message
    pictures = list((ROOT / "docs" / "parts").iterdir())
    assert {file.name for file in pictures} == {choice.file for choice in choices}, message
    assert sum(file.stat().st_size for file in pictures) < 1_000_000


def test_a_formula_may_have_words():
    code, words_last, words_between = (
        formula_markdown(registry.describe(*part))
        for part in (("scorer", "dot"), ("normalizer", "monotonic"), ("query", "self_attentive"))
    )
    assert re.fullmatch("`[^`]+`", code)
    assert re.fullmatch("`[^`]+`; evaluation: [^`]+", words_last)
    assert words_between.startswith("`q = w`; in a classifier r of them, `q_i = w_i`, and `")


def test_choices_that_change_a_picture_are_shown():
    def drawn_options(kind: str, name: str) -> list[dict[str, Any]]:
        return [dict(choice.options) for choice in variants_to_draw(registry.describe(kind, name))]

    beside = [{"window": 1, option: value} for option, value in (("dilation", 2), ("sinks", 2), ("global_tokens", 1))]
    assert drawn_options("scope", "local") == [{}, *beside, {"center": "predictive"}]
    lists = {"heads": 2, "head_scopes": ["local", "global"]}
    assert drawn_options("attention", "standard") == [{"softcap": 3.0}, lists]
    assert drawn_options("scope", "history") == [{}, {"include_self": True}]
    assert drawn_options("scope", "global") == [{}]  # without the decoder's states include_self changes nothing
    assert drawn_options("scorer", "scaled") == [{}]
    assert drawn_options("query", "token") == [{}]


def test_the_page_describes_the_example_that_is_drawn():
    sentences = [
        f"Step {REPEAT_STEP} has the query of step {REPEATED_STEP}, and position {REPEAT_STEP} is almost equal to",
        f"The vector of position {LONG_POSITION} ",
        f"fitted for {FIT_STEPS}\n",
        f"a size of {STATE_SIZE}",
    ]
    assert [sentence for sentence in sentences if sentence not in EXAMPLE] == []
    assert (STEPS, POSITIONS, PADDING) == (10, 9, 2)  # written there in words


class TestTheExample:
    """What the page says of it."""

    def test_the_example_reads_its_targets(self):
        """Vectors of length 2.4 score 5.76 with themselves and exp(-1/2) times that with a neighbor: 1 to 0.10."""
        weights = read_example(scorer="dot").weights
        best = weights.argmax(axis=1)
        hard = {LONG_POSITION - 1, LONG_POSITION + 1, REPEAT_STEP}
        assert [step for step in range(STEPS) if best[step] != target_positions()[step]] == [REPEAT_STEP]
        assert all(weights[step].max() > 0.75 for step in range(STEPS) if step not in {*hard, REPEATED_STEP})
        assert (weights[:, POSITIONS:] == 0).all()

    def test_parts_without_history_repeat_their_weights(self):
        for scorer in ("dot", "additive"):
            weights = read_example(scorer=scorer).weights
            np.testing.assert_allclose(weights[REPEATED_STEP], weights[REPEAT_STEP], atol=1e-6)

    def test_windows_and_history_distinguish_equal_positions(self):
        for choice in ({"scope": "local"}, {"scorer": "location"}, {"scorer": "coverage"}, {"bias": "alibi"}):
            weights = read_example(**choice).weights
            assert weights[REPEATED_STEP].argmax() == REPEATED_STEP
            assert weights[REPEAT_STEP].argmax() == REPEAT_STEP

    def test_a_long_vector_attracts_inner_products_but_not_cosine(self):
        """Position 4's is half as long again as that of position 0; a cosine there is 1, and its strength 5."""
        dot, cosine = read_example(scorer="dot"), read_example(scorer=("cosine", {"learned": False}))
        assert dot.scores[LONG_POSITION, LONG_POSITION] == pytest.approx(1.5 * dot.scores[0, 0], rel=1e-5)
        assert cosine.scores[LONG_POSITION, LONG_POSITION] == pytest.approx(cosine.scores[0, 0], rel=1e-5) == 5.0

    def test_decoder_states_appear_step_by_step(self):
        earlier = np.tri(STEPS, STEPS, -1, dtype=np.bool_)
        alone = read_example(scope="history")
        assert (alone.decoder_states, len(alone.columns)) == (STEPS, STEPS)
        np.testing.assert_array_equal(alone.allowed_mask, earlier)
        assert (alone.weights[0] == 0).all()
        with_self = read_example(scope=("history", {"include_self": True}))
        np.testing.assert_array_equal(with_self.allowed_mask, earlier | np.eye(STEPS, dtype=np.bool_))
        both = read_example(scope="encoder_decoder")
        np.testing.assert_array_equal(both.allowed_mask[:, -STEPS:], earlier)
        assert both.allowed_mask[:, :POSITIONS].all()
        assert not both.allowed_mask[:, POSITIONS:-STEPS].any()

    def test_a_gain_is_shown_at_the_target(self):
        reading = read_example(scope=("local", {"center": "predictive", "window": 2}))
        steps = [step for step in range(STEPS) if step not in (REPEATED_STEP, REPEAT_STEP)]
        assert (abs(reading.gain.argmax(axis=1) - target_positions().numpy())[steps] <= 1).all()
        assert read_example(scope="local").gain is None

    def test_drawing_is_deterministic_and_keeps_the_random_state(self):
        state = torch.get_rng_state()
        first, second = read_example(scorer="additive"), read_example(scorer="additive")
        assert torch.equal(torch.get_rng_state(), state)
        np.testing.assert_array_equal(first.weights, second.weights)
        assert first.is_fitted
        assert not read_example(scorer="dot").is_fitted

    def test_normalizers_are_shown_next_to_softmax(self):
        weights = row_weights("softmax")
        assert weights[:ALLOWED_COUNT].sum() == pytest.approx(1)
        assert (weights[ALLOWED_COUNT:] == 0).all()
        rising, middle = rising_weights("softmax"), len(RISING_SCORES) // 2
        assert (RISING_SCORES[middle], rising[middle]) == pytest.approx((FIXED_SCORE, 0.5))
        assert (np.diff(rising) > 0).all()


def test_heads_are_shown_with_what_they_make_together():
    """The window of a head is of three positions around the step; a share of the second map is subtracted."""
    local, both, mean = head_maps(("standard", {"heads": 2, "head_scopes": ["local", "global"]})).values()
    distance = abs(np.arange(POSITIONS) - target_positions().numpy()[:, None])
    np.testing.assert_array_equal(local[:, :POSITIONS] > 0, distance <= 3)
    assert (both[:, :POSITIONS] > 0).all()
    np.testing.assert_allclose(mean, (local + both) / 2, rtol=1e-6)
    first, second, difference = head_maps("differential").values()
    share = (first - difference).sum() / second.sum()
    assert 0.1 < share < 0.3
    np.testing.assert_allclose(first - difference, share * second, atol=1e-6)


@functools.lru_cache(1)
def image_of(figure: Figure) -> NDArray[np.float64]:
    file = io.BytesIO()
    figure.savefig(file, dpi=DPI)
    file.seek(0)
    return imread(file)[..., :3]


def pixel(figure: Figure, axes: int, x: float, y: float) -> NDArray[np.float64]:
    """The color at a place of a panel, its own coordinates given."""
    image = image_of(figure)
    across, up = figure.axes[axes].transData.transform((x, y))
    return image[int(len(image) - up), int(across)]


def test_panels_show_scores_masks_and_weights():
    """Two steps over two source positions and three states; position 1 is forbidden to step 0."""
    scores = np.array([[0.0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
    weights = np.array([[1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1]])
    allowed_mask = np.ones((2, 5), dtype=np.bool_)
    allowed_mask[0, 1] = False
    reading = Reading(scores, allowed_mask, None, weights, ["0", "1", "0", "1", "2"], decoder_states=3)
    figure = draw_reading(reading, "scope=any", "")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["scores", "allowed", "weights"]
    lefts = left_edges(5, decoder_states=3)
    assert lefts[2] - lefts[1] > 1.3  # the halves stand apart
    assert np.diff(lefts)[[0, 2, 3]] == pytest.approx([1, 1, 1])

    def pixel_at(panel: int, row: int, column: int) -> NDArray[np.float64]:
        return pixel(figure, panel, lefts[column] + 0.3, row + 0.3)

    assert pixel_at(0, 0, 0).min() > 0.95
    assert pixel_at(0, 0, 4)[2] < 0.2  # brown
    assert [pixel_at(2, row, column).max() < 0.6 for row, column in [(0, 0), (1, 4)]] == [True, True]
    assert pixel_at(2, 1, 0).min() > 0.95
    red, green, _ = pixel_at(1, 1, 1)
    assert green > red + 0.1
    between = pixel(figure, 1, (lefts[1] + 1 + lefts[2]) / 2, 0.5)
    assert (between == 1).all()
    written = {text.get_text() for text in figure.axes[0].texts}
    assert {"source", "decoder states", "white 0.0, darkest 4.0"} <= written


@pytest.mark.parametrize("needs", VECTORS)
def test_the_selection_of_a_query_input_is_colored(needs):
    figure = draw_step(needs, "query=any")
    for name, vector in VECTORS.items():
        x, y = vector.position
        red, _, blue = pixel(figure, 0, x, y + 0.09)
        assert (blue - red > 0.3) == (name == needs), name


def test_every_part_can_be_drawn_at_a_page_width():
    """Nothing lies outside the picture."""
    for part in drawable_parts():
        if part.kind != "scorer" or part.name in ("dot", "concat"):
            figure = draw_variant(PartVariant(part))
            width, height = figure.get_size_inches() * DPI
            for axes in figure.axes:
                needed = axes.get_tightbbox()
                assert min(needed.x0, needed.y0) >= 0, part.name
                assert needed.x1 <= width + 1, part.name
                assert needed.y1 <= height + 1, part.name
