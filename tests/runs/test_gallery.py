"""Pictures of parts match the parts, and the page in docs/ is the one that the command writes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from numpy.typing import NDArray

import attnx
from attnx import registry
from attnx.cli.main import run as run_command
from attnx.errors import UserError
from attnx.gallery.drawings import (
    ALLOWED_COUNT,
    FIXED_SCORE,
    RISING_SCORES,
    VECTORS,
    Reading,
    draw_reading,
    draw_step,
    rising_weights,
    row_weights,
)
from attnx.gallery.markdown_page import EXAMPLE, markdown_page
from attnx.gallery.part_variant import PartVariant, formula_markdown
from attnx.gallery.pictures import (
    FIT_STEPS,
    LONG_POSITION,
    PADDING,
    POSITIONS,
    REPEAT_STEP,
    REPEATED_STEP,
    STATE_SIZE,
    STEPS,
    draw_variant,
    read_example,
    target_positions,
    variants_to_draw,
)
from attnx.gallery.select import drawable_parts, select_variants
from attnx.gallery.write import draw_parts
from attnx.reports.figures.grid_layout import DPI
from attnx.reports.figures.panels import left_edges

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"
PLUGIN = '''
from torch import nn
from attnx.registry import PositiveFloat, register

@register("scorer", "tripled")
class Tripled(nn.Module):
    """Three inner products."""

    requires_equal_dims = True

    def __init__(self, times: PositiveFloat = 3.0) -> None:
        super().__init__()
        self.times = times

    def project_keys(self, memory):
        return memory

    def project_queries(self, queries):
        return queries * self.times

    def score(self, queries, keys):
        return queries @ keys.mT
'''


@pytest.fixture
def plugins(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = work_folder / "mine"
    folder.mkdir()
    monkeypatch.setenv("ATTNX_PLUGINS", str(folder))
    return folder


def test_the_page_is_up_to_date(plugins: Path) -> None:
    shutil.copy(ROOT / "plugins" / "gaussian.py", plugins)
    choices = [choice for part in drawable_parts() for choice in variants_to_draw(part)]
    message = "docs/parts.md: out of date; in the repository's folder, run: attnx gallery --out docs"
    assert (ROOT / "docs" / "parts.md").read_text(encoding="utf-8") == markdown_page(choices), message
    pictures = list((ROOT / "docs" / "parts").iterdir())
    assert {file.name for file in pictures} == {choice.file for choice in choices}, message
    assert sum(file.stat().st_size for file in pictures) < 1_000_000


def test_a_part_is_drawn_to_the_given_file(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnx.gallery.pictures.FIT_STEPS", 1)
    assert draw_parts(["dot"], Path()) == [Path("parts/scorer-dot.png"), Path("parts/scorer-dot.html")]
    assert (work_folder / "parts" / "scorer-dot.png").read_bytes().startswith(PNG)
    knobs = ["scope.center=predictive", "scope.window=1"]
    assert draw_parts(["local", "scorer=dot", *knobs], Path("a/b")) == [
        Path("a/b/parts/scope-local-scope.center-predictive-scope.window-1.png"),
        Path("a/b/parts/scorer-dot.png"),
        Path("a/b/parts/scope-local-scope.center-predictive-scope.window-1.html"),
        Path("a/b/parts/scorer-dot.html"),
    ]
    assert not list(work_folder.rglob("*.md"))


def test_a_bias_is_named_as_it_is_typed(work_folder: Path) -> None:
    """A value of attention's knob: the word that draws it composes, with its knobs, too."""
    [plain] = select_variants(["attention.bias=relative"])
    [changed] = select_variants(["relative", "bias.max_distance=2"])
    assert [str(plain), str(changed)] == [
        "attention.bias=relative",
        "'attention.bias={name: relative, max_distance: 2}'",
    ]
    for variant in (plain, changed):
        bias = attnx.compose([str(variant).strip("'")])["attention"]["bias"]
        assert bias == (dict(changed.knobs, name="relative") if variant.knobs else "relative")
    typed = "'attention.bias={name: NAME, max_distance: VALUE}'"
    with pytest.raises(UserError, match=rf"attention\.bias is a value, .* {typed}"):
        attnx.compose(["attention.bias=relative", "attention.bias.max_distance=2"])


def test_a_formula_may_have_words() -> None:
    code, words_last, words_between = (
        formula_markdown(registry.describe(*part))
        for part in (("scorer", "dot"), ("normalizer", "monotonic"), ("query", "self_attentive"))
    )
    assert re.fullmatch("`[^`]+`", code)
    assert re.fullmatch("`[^`]+`; evaluation: [^`]+", words_last)
    assert words_between.startswith("`q = w`; in a classifier r of them, `q_i = w_i`, and `")


def test_without_a_name_the_gallery_is_drawn(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [registry.describe("query", "token"), registry.describe("scope", "history")]
    monkeypatch.setattr("attnx.gallery.select.drawable_parts", lambda: parts)
    written = draw_parts([], Path())
    assert [file.name for file in written] == [
        "query-token.png",
        "scope-history.png",
        "scope-history-scope.include_self-true.png",
        "parts.md",
        "parts.html",
    ]
    text = written[-2].read_text()
    assert all(f"](parts/{file.name})" in text for file in written[:-2])
    assert text.index("### history") < text.index("### token")  # scopes before query inputs, whatever came first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["locl"], "no part or kind 'locl'; did you mean local"),
        (["adam"], "'adam' is of the kind optimizer; only parts of scorer, .* are drawn"),
        (["scope.window=1"], "scope.window=1: name the part of this knob, too"),
        (["dot", "scope.window=1"], "scope.window=1: name the part of this knob, too"),
        (["dot", "local", "scope.windw=1"], "no knob 'windw'; did you mean window"),
        (["local", "scope.window=1,2"], "scope.window=1,2 means several runs, which attnx -m trains"),
        (["local", "scope.window=-1"], "scope.window=-1: expected a whole number, 0 or more"),
        (["dot", "--out", "taken"], "--out taken: taken is a file"),
        (["dot", "--out", ""], "--out needs a value"),
        (["dot", "--out="], "--out needs a value"),
        (["dot", "--page", "away/dot.html"], r"--page away/dot\.html: no such folder"),
        (["dot", "--page", "dot.html", "--out", "pictures"], "--out.*--page|--page.*--out"),
        (["locl", "--page", "local.html"], "no part or kind 'locl'"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(work_folder: Path, words: list[str], message: str) -> None:
    (work_folder / "taken").write_text("")
    with pytest.raises(UserError, match=message):
        run_command(["gallery", *words])
    assert [file.name for file in work_folder.iterdir()] == ["taken"]


def test_a_page_starts_at_the_knobs_of_the_command(work_folder: Path) -> None:
    run_command(["gallery", "softmax", "normalizer.temperature=0.42", "--page", "soft.html"])
    written = re.search(r'id="data">(.*?)</script>', Path("soft.html").read_text(encoding="utf-8"))
    assert written
    (dial,) = json.loads(written[1])["parts"][0]["dials"]
    assert (dial["values"][dial["start"]], dial["default"]) == ("0.42", "1.0")


def test_a_plug_in_is_drawn(plugins: Path) -> None:
    (plugins / "tripled.py").write_text(PLUGIN)
    assert draw_parts(["tripled", "scorer.times=2"], Path()) == [
        Path(f"parts/scorer-tripled-scorer.times-2.{ending}") for ending in ("png", "html")
    ]
    np.testing.assert_allclose(
        read_example(scorer=("tripled", {"times": 2.0})).scores,
        2 * read_example(scorer="dot").scores,
        rtol=1e-5,
    )
    assert "plug-in tripled.py" in markdown_page([PartVariant(registry.describe("scorer", "tripled"))])


def test_an_undeclared_query_input_is_reported(plugins: Path) -> None:
    (plugins / "vague.py").write_text(PLUGIN.replace('"scorer", "tripled"', '"query", "vague"'))
    with pytest.raises(UserError, match=r"vague\.py:\d+: .* must declare needs"):
        draw_parts(["vague"], Path())


def test_list_shows_how_to_draw_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["list", "local"])
    assert "attnx gallery local" in capsys.readouterr().out
    run_command(["list", "adam"])
    assert "attnx gallery" not in capsys.readouterr().out


def test_the_command_prints_its_output(command: Callable[..., Any]) -> None:
    answer = command("gallery", "token")
    assert (answer.code, answer.out.strip()) == (0, "parts/query-token.png\nparts/query-token.html")
    assert command("gallery", "tokn").code == 2


def test_a_folder_that_cannot_be_written_is_a_mistake(command: Callable[..., Any], work_folder: Path) -> None:
    (work_folder / "file").write_text("")
    answer = command("gallery", "dot", "--out", "file/pictures")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.strip().endswith("cannot write (Not a directory); make it writable, then the same again")


def test_choices_that_change_a_picture_are_shown() -> None:
    def drawn_knobs(kind: str, name: str) -> list[dict[str, Any]]:
        return [dict(choice.knobs) for choice in variants_to_draw(registry.describe(kind, name))]

    assert drawn_knobs("scope", "local") == [{}, {"center": "predictive"}]
    assert drawn_knobs("scope", "history") == [{}, {"include_self": True}]
    assert drawn_knobs("scope", "global") == [{}]  # without the decoder's states include_self changes nothing
    assert drawn_knobs("scorer", "scaled") == [{}]
    assert drawn_knobs("query", "token") == [{}]


def test_the_page_describes_the_example_that_is_drawn() -> None:
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

    def test_the_example_reads_its_targets(self) -> None:
        """Vectors of length 2.4 score 5.76 with themselves and exp(-1/2) times that with a neighbor: 1 to 0.10."""
        weights = read_example(scorer="dot").weights
        best = weights.argmax(axis=1)
        hard = {LONG_POSITION - 1, LONG_POSITION + 1, REPEAT_STEP}
        assert [step for step in range(STEPS) if best[step] != target_positions()[step]] == [REPEAT_STEP]
        assert all(weights[step].max() > 0.75 for step in range(STEPS) if step not in {*hard, REPEATED_STEP})
        assert (weights[:, POSITIONS:] == 0).all()

    def test_parts_without_history_repeat_their_weights(self) -> None:
        for scorer in ("dot", "additive"):
            weights = read_example(scorer=scorer).weights
            np.testing.assert_allclose(weights[REPEATED_STEP], weights[REPEAT_STEP], atol=1e-6)

    def test_windows_and_history_distinguish_equal_positions(self) -> None:
        for choice in ({"scope": "local"}, {"scorer": "location"}, {"scorer": "coverage"}, {"bias": "alibi"}):
            weights = read_example(**choice).weights  # type: ignore[arg-type]
            assert weights[REPEATED_STEP].argmax() == REPEATED_STEP
            assert weights[REPEAT_STEP].argmax() == REPEAT_STEP

    def test_a_long_vector_attracts_inner_products_but_not_cosine(self) -> None:
        """Position 4's is half as long again as that of position 0; a cosine there is 1, and its strength 5."""
        dot, cosine = read_example(scorer="dot"), read_example(scorer=("cosine", {"learned": False}))
        assert dot.scores[LONG_POSITION, LONG_POSITION] == pytest.approx(1.5 * dot.scores[0, 0], rel=1e-5)
        assert cosine.scores[LONG_POSITION, LONG_POSITION] == pytest.approx(cosine.scores[0, 0], rel=1e-5) == 5.0

    def test_decoder_states_appear_step_by_step(self) -> None:
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

    def test_a_gain_is_shown_at_the_target(self) -> None:
        reading = read_example(scope=("local", {"center": "predictive", "window": 2}))
        assert reading.gain is not None
        steps = [step for step in range(STEPS) if step not in (REPEATED_STEP, REPEAT_STEP)]
        assert (abs(reading.gain.argmax(axis=1) - target_positions().numpy())[steps] <= 1).all()
        assert read_example(scope="local").gain is None

    def test_drawing_is_deterministic_and_keeps_the_random_state(self) -> None:
        import torch

        state = torch.get_rng_state()
        first, second = read_example(scorer="additive"), read_example(scorer="additive")
        assert torch.equal(torch.get_rng_state(), state)
        np.testing.assert_array_equal(first.weights, second.weights)
        assert first.is_fitted
        assert not read_example(scorer="dot").is_fitted

    def test_normalizers_are_shown_next_to_softmax(self) -> None:
        weights = row_weights("softmax")
        assert weights[:ALLOWED_COUNT].sum() == pytest.approx(1)
        assert (weights[ALLOWED_COUNT:] == 0).all()
        rising, middle = rising_weights("softmax"), len(RISING_SCORES) // 2
        assert (RISING_SCORES[middle], rising[middle]) == pytest.approx((FIXED_SCORE, 0.5))
        assert (np.diff(rising) > 0).all()


def pixel(figure: Figure, axes: int, x: float, y: float, tmp_path: Path) -> NDArray[np.float64]:
    """The color at a place of a panel, its own coordinates given."""
    figure.savefig(tmp_path / "a.png", dpi=DPI)
    image = imread(tmp_path / "a.png")[..., :3]
    across, up = figure.axes[axes].transData.transform((x, y))
    return image[int(len(image) - up), int(across)]


def test_panels_show_scores_masks_and_weights(tmp_path: Path) -> None:
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
        return pixel(figure, panel, lefts[column] + 0.3, row + 0.3, tmp_path)

    assert pixel_at(0, 0, 0).min() > 0.95
    assert pixel_at(0, 0, 4)[2] < 0.2  # brown
    assert [pixel_at(2, row, column).max() < 0.6 for row, column in [(0, 0), (1, 4)]] == [True, True]
    assert pixel_at(2, 1, 0).min() > 0.95
    red, green, _ = pixel_at(1, 1, 1)
    assert green > red + 0.1
    between = pixel(figure, 1, (lefts[1] + 1 + lefts[2]) / 2, 0.5, tmp_path)
    assert (between == 1).all()
    written = {text.get_text() for text in figure.axes[0].texts}
    assert {"source", "decoder states", "white 0.0, darkest 4.0"} <= written


@pytest.mark.parametrize("needs", VECTORS)
def test_the_selection_of_a_query_input_is_colored(needs: str, tmp_path: Path) -> None:
    figure = draw_step(needs, "query=any")
    for name, vector in VECTORS.items():
        x, y = vector.position
        red, _, blue = pixel(figure, 0, x, y + 0.09, tmp_path)
        assert (blue - red > 0.3) == (name == needs), name


def test_every_part_can_be_drawn_at_a_page_width(tmp_path: Path) -> None:
    """Nothing lies outside the picture."""
    for part in drawable_parts():
        if part.kind != "scorer" or part.name in ("dot", "concat"):
            figure = draw_variant(PartVariant(part))
            width, height = figure.get_size_inches() * DPI
            for axes in figure.axes:
                needed = axes.get_tightbbox()
                assert needed is not None
                assert min(needed.x0, needed.y0) >= 0, part.name
                assert needed.x1 <= width + 1, part.name
                assert needed.y1 <= height + 1, part.name
