"""Pictures of runs, pixel by pixel: large weights are dark, small ones light."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.reports.figures.curves import draw_curves
from attnx.reports.figures.heatmaps import (
    DEFAULT_OPTIONS,
    DPI,
    MAX_HEAD_PANELS,
    PictureOptions,
    choose_fonts,
    draw_alignments,
    draw_heads,
    draw_means,
    save_figure,
)
from attnx.runs.alignments import Alignment, read_alignment, without_end
from attnx.runs.layout import ALIGNMENTS, METRICS
from tests.run_folder import write_run_folder

PNG = b"\x89PNG\r\n\x1a\n"
NO_FONT_HAS_IT = "\U000e0fff"


def save(path: Path, source: list[str], output: list[str], **fields: Any) -> Path:
    """Save an alignment whose step i reads source symbol 2i (wrap round) and nothing else."""
    weights = np.zeros((len(output), len(source)), dtype=np.float32)
    weights[np.arange(len(output)), 2 * np.arange(len(output)) % len(source)] = 1
    arrays = {"weights": weights, "reference": np.array(output)} | fields
    arrays["is_right"] = without_end(output) == without_end(arrays["reference"].tolist())
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, source=np.array(source), output=np.array(output), **arrays)
    return path


UNMARKED = PictureOptions(marks=False)  # the lines of the hatch are darker than a weight of 0


def draw_alignment(npz: Path, picture: Path, options: PictureOptions = DEFAULT_OPTIONS) -> None:
    save_figure(draw_heads(read_alignment(npz), options=options), picture)


def axes_of(npz: Path, source: list[str], output: list[str], **fields: Any) -> Any:
    """The axes of the map of an alignment, which is saved."""
    return draw_means([read_alignment(save(npz, source, output, **fields))]).axes[0]


def cells(npz: Path, png: Path, options: PictureOptions = DEFAULT_OPTIONS) -> NDArray[np.float64]:
    """Return the brightness (t, s), 0 to 1, in each cell of the picture, a little off center."""
    image = imread(png)[..., :3].mean(axis=-1)
    figure = draw_means([read_alignment(npz)], options)
    assert image.shape == pytest.approx(figure.get_size_inches()[::-1] * DPI, abs=1)
    steps, symbols = np.load(npz)["weights"].shape
    rows, columns = np.mgrid[:steps, :symbols] + 0.3
    x, y = figure.axes[0].transData.transform(np.stack([columns.ravel(), rows.ravel()], axis=-1)).T
    return image[(image.shape[0] - y).astype(int), x.astype(int)].reshape(steps, symbols)


@pytest.fixture
def word(tmp_path):
    return save(tmp_path / "word.npz", [*"photo", "</s>"], ["F", "OW", "T", "OW", "</s>"])


def test_large_weights_are_dark_and_small_ones_light(word, tmp_path):
    """And what is between is between; nothing is clipped at the edges."""
    png = tmp_path / "word.png"
    draw_alignment(word, png, UNMARKED)
    assert png.read_bytes().startswith(PNG)
    weights = np.load(word)["weights"]
    brightness = cells(word, png, UNMARKED)
    assert brightness[weights == 1].max() < 0.3
    assert brightness[weights == 0].min() > 0.97
    ramp = save(tmp_path / "ramp.npz", list("abcdefg"), ["A"], weights=np.linspace(0, 1, 7, dtype=np.float32)[None])
    draw_alignment(ramp, tmp_path / "ramp.png")
    assert (np.diff(cells(ramp, tmp_path / "ramp.png")[0]) < 0).all()
    draw_alignment(word, png)
    image = imread(png)[..., :3]
    assert all((edge == 1).all() for edge in (image[:3], image[-3:], image[:, :3], image[:, -3:]))
    assert (image < 0.5).any()


def test_cells_are_square_and_symbols_in_reading_order(word):
    axes = draw_means([read_alignment(word)]).axes[0]
    box = axes.get_window_extent()
    assert box.width / 6 == pytest.approx(box.height / 5)
    assert [label.get_text() for label in axes.get_xticklabels()] == [*"photo", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["F", "OW", "T", "OW", "</s>"]
    across = [label.get_window_extent() for label in axes.get_xticklabels()]
    down = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(first.x0 < second.x0 for first, second in pairwise(across))
    assert all(first.y0 > second.y0 for first, second in pairwise(down))
    assert min(label.y0 for label in across) > box.y1
    assert max(label.x1 for label in down) < box.x0
    assert axes.get_title(loc="left") == "photo → F OW T OW"


def test_a_wrong_word_is_marked_and_its_reference_shown(tmp_path):
    """An empty output is an empty set, and numbers are separated."""
    axes = axes_of(tmp_path / "a.npz", list("cat"), ["K", "AA", "T"], reference=np.array(["K", "AE", "T", "</s>"]))
    assert axes.get_title(loc="left").endswith("✗")
    assert axes.get_xlabel() == "reference: K AE T"
    axes = axes_of(tmp_path / "b.npz", list("cat"), ["K", "AE", "</s>"], reference=np.array(["K", "AE"]))
    assert "✗" not in axes.get_title(loc="left")
    assert axes.get_xlabel() == ""
    axes = axes_of(tmp_path / "c.npz", list("12"), ["</s>"], reference=np.array(["2", "1"]))
    assert (axes.get_title(loc="left"), axes.get_xlabel()) == ("1 2 → ∅ ✗", "reference: 2 1")


def test_the_cross_follows_the_last_word_and_is_never_clipped(tmp_path):
    """A title of one column too many for a line, and one of too many lines."""
    for source in (["abcdefghij"] * 2, ["abcdefghij"] * 59):
        axes = axes_of(tmp_path / "a.npz", source, ["xyz", "</s>"], reference=np.array(["x"]))
        *_, last = axes.get_title(loc="left").split("\n")
        assert last.endswith(" ✗")
        assert len(last) > len(" ✗")


def test_the_color_bar_fits_next_to_one_row(tmp_path):
    npz = save(tmp_path / "a.npz", list("abc"), ["</s>"])
    figure = draw_means([read_alignment(npz)])
    figure.canvas.draw()
    _, bar = figure.axes
    boxes = sorted((label.get_window_extent() for label in bar.get_yticklabels()), key=lambda box: box.y0)
    assert all(below.y1 < above.y0 for below, above in pairwise(boxes))


@pytest.mark.parametrize(
    ("weight", "top"), [(1.0, 1.0), (0.1, 1.0), (0.087, 0.09), (0.0213, 0.03), (0.03, 0.03), (0.0, 1.0)]
)
def test_faint_weights_have_their_own_scale(weight, top, tmp_path):
    """Read evenly from seventy steps, all would be white on a scale that ends at 1."""
    weights = np.full((2, 3), weight, dtype=np.float32)
    figure = draw_means([read_alignment(save(tmp_path / "a.npz", list("abc"), list("AB"), weights=weights))])
    panel, bar = figure.axes
    assert panel.collections[0].norm.vmax == pytest.approx(top)
    assert bar.get_yticks() == pytest.approx([0, top / 2, top])


def test_a_legend_explains_the_hatch():
    plain = Alignment(np.full((2, 3), 1 / 3, np.float32), tuple("abc"), tuple("AB"), tuple("AB"))
    assert draw_means([plain]).legends == []
    figure = draw_means([plain._replace(weights=np.eye(2, 3, dtype=np.float32))])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["hatched: a weight of exactly 0"]
    figure.canvas.draw()
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert all(axes.get_tightbbox().y0 >= box.y1 - 1 for axes in figure.axes)  # below all that it explains


DECODER_STATES = {
    "source": ["c", "a", "K", "AE", "T"],
    "output": ["K", "AE", "T"],
    "weights": np.array([[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 1, 0]], dtype=np.float32),
    "num_decoder_states": np.array(3),
}


def places(axes: Any, column: float, row: float, height: int) -> tuple[int, int]:
    x, y = axes.transData.transform((column, row))
    return int(height - y), int(x)


def test_decoder_states_are_separated_and_labeled(tmp_path):
    npz = save(tmp_path / "a.npz", **DECODER_STATES)
    draw_alignment(npz, tmp_path / "a.png", UNMARKED)
    axes = draw_means([read_alignment(npz)], UNMARKED).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "a", "K", "AE", "T"]
    assert axes.get_title(loc="left") == "ca → K AE T"
    centers = axes.get_xticks()
    assert np.diff(centers)[[0, 2, 3]] == pytest.approx([1, 1, 1])
    assert centers[2] - centers[1] > 1.3
    image = imread(tmp_path / "a.png")[..., :3].mean(axis=-1)
    for (row, column), weight in np.ndenumerate(DECODER_STATES["weights"]):
        brightness = image[places(axes, centers[column] + 0.2, row + 0.3, len(image))]
        assert brightness < 0.3 if weight == 1 else brightness > 0.97 if weight == 0 else 0.3 < brightness < 0.8
    gap = places(axes, (centers[1] + centers[2]) / 2, 1.5, len(image))
    assert (image[gap[0] - 30 : gap[0] + 30, gap[1]] == 1).all()  # no cell, no line
    below = {text.get_text(): axes.transData.inverted().transform(text.get_window_extent())[0] for text in axes.texts}
    assert set(below) == {"source", "decoder states"}
    assert below["source"][0] == pytest.approx(0, abs=0.1)
    assert below["decoder states"][0] == pytest.approx(centers[2] - 0.5, abs=0.1)
    assert min(row for _, row in below.values()) > 3


def test_decoder_states_without_source_have_no_source_label(tmp_path):
    fields = {"num_decoder_states": np.array(2), "reference": np.array(["OW", "T"])}
    weights = np.array([[0, 0], [1, 0]], dtype=np.float32)
    axes = axes_of(tmp_path / "a.npz", ["OW", "</s>"], ["OW", "</s>"], weights=weights, **fields)
    assert axes.get_title(loc="left") == "OW ✗"
    assert [text.get_text() for text in axes.texts] == ["decoder states"]
    assert axes.get_xticks() == pytest.approx([0.5, 1.5])
    assert axes.get_xlabel() == "reference: OW T"
    assert not axes.xaxis.label.get_window_extent().overlaps(axes.texts[0].get_window_extent())


HEADS = np.array([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 1, 0]]], dtype=np.float32)


def heads(path: Path, **fields: Any) -> Path:
    weights = HEADS.mean(0)
    return save(path, ["c", "a", "t"], ["K", "AE"], weights=weights, heads=HEADS, **fields)


def test_each_head_has_a_panel_next_to_the_mean(tmp_path):
    npz = heads(tmp_path / "a.npz")
    draw_alignment(npz, tmp_path / "a.png")
    figure = draw_heads(read_alignment(npz))
    image = imread(tmp_path / "a.png")[..., :3].mean(axis=-1)
    *panels, _ = figure.axes
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["cat \u2192 K AE\nmean of 3 heads", "head 1", "head 2", "head 3"]
    for axes, weights in zip(panels, [HEADS.mean(0), *HEADS], strict=True):
        for (row, column), weight in np.ndenumerate(weights):
            brightness = image[places(axes, column + 0.3, row + 0.3, len(image))]
            expected = (0.97, 1) if weight == 0 else (0, 0.3) if weight == 1 else (0.3, 0.97)
            assert expected[0] <= brightness <= expected[1], (axes.get_title(loc="left"), row, column)


def test_of_many_heads_the_first_have_panels():
    many = np.broadcast_to(HEADS[0], (MAX_HEAD_PANELS + 1, *HEADS[0].shape))
    figure = draw_heads(Alignment(HEADS[0], ("c", "a", "t"), ("K", "AE"), ("K", "AE"), heads=many))
    titles = [axes.get_title(loc="left") for axes in figure.axes[:-1]]
    assert titles[0].endswith("mean of 25 heads; the first 24 follow")
    assert titles[1:] == [f"head {number}" for number in range(1, 25)]


def test_heads_of_several_sites_are_labeled_by_site(tmp_path):
    npz = heads(tmp_path / "a.npz", sites=np.array(["layer 1", "layer 1", "layer 2"]))
    assert list(read_alignment(npz).views) == ["mean", "layer 1, head 1", "layer 1, head 2", "layer 2"]
    titles = [axes.get_title(loc="left") for axes in draw_heads(read_alignment(npz)).axes[1:-1]]
    assert titles == ["layer 1, head 1", "layer 1, head 2", "layer 2"]
    with pytest.raises(UserError, match=r"sites is \(2,\)"):
        read_alignment(heads(tmp_path / "b.npz", sites=np.array(["layer 1", "layer 2"])))


def run_folder(folder: Path, **scope: Any) -> Path:
    return write_run_folder(folder, {"scope": {"name": "local", **scope}, "normalizer": {"name": "softmax"}})


def test_every_hypothesis_is_drawn_with_its_own_weights(tmp_path):
    save(tmp_path / ALIGNMENTS / "000.npz", list("abc"), ["A", "B"], score=np.array(-0.5))
    save(tmp_path / ALIGNMENTS / "000-2.npz", list("abc"), ["C"], weights=np.array([[0, 1, 0]]), score=np.array(-2.25))
    save(tmp_path / ALIGNMENTS / "001.npz", list("de"), ["D"])
    save(tmp_path / ALIGNMENTS / "000-10.npz", list("abc"), ["J"])
    written = [path.name for path in draw_alignments(tmp_path)]
    assert written == ["000.png", "000-2.png", "000-10.png", "001.png", "alignments.png"]
    titles = {path.name: said_in(path) for path in draw_alignments(tmp_path, "svg")}
    assert titles["000-2.svg"].index("abc → C") < titles["000-2.svg"].index("hypothesis 2 of 3, score -2.25")
    assert "hypothesis" not in titles["001.svg"]
    assert "score" not in titles["000-10.svg"]  # it has none
    image = imread(tmp_path / ALIGNMENTS / "000-2.png")[..., :3].mean(axis=-1)
    axes = draw_means([read_alignment(tmp_path / ALIGNMENTS / "000-2.npz")]).axes[0]
    darkness = [image[places(axes, column + 0.3, 0.3, len(image) - 1)] for column in range(3)]
    assert np.argmin(darkness) == 1
    assert all((tmp_path / ALIGNMENTS / name).read_bytes().startswith(PNG) for name in written[:-1])
    assert (tmp_path / written[-1]).read_bytes().startswith(PNG)


def hatched(axes: Any, image: NDArray[np.float64], rows: int, columns: int) -> NDArray[np.bool_]:
    """Which cells (t, m) of a picture have lines in their middle, where others have one color."""
    mask = np.zeros((rows, columns), dtype=np.bool_)
    for row, column in np.ndindex(rows, columns):
        y, x = places(axes, axes.get_xticks()[column], row + 0.5, len(image))
        mask[row, column] = np.ptp(image[y - 9 : y + 9, x - 9 : x + 9].mean(axis=-1)) > 0.05
    return mask


def test_what_a_window_forbids_is_hatched(tmp_path):
    """Four steps over five positions, one position to either side: 0-1, 0-2, 1-3 and 2-4."""
    folder = run_folder(tmp_path / "run")
    allowed = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]], dtype=bool)
    weights = (allowed / allowed.sum(1, keepdims=True)).astype(np.float32)
    npz = save(folder / ALIGNMENTS / "000.npz", list("abcde"), list("ABCD"), weights=weights)
    png, _ = draw_alignments(folder)
    figure = draw_means([read_alignment(npz)])
    assert hatched(figure.axes[0], imread(png)[..., :3], 4, 5).tolist() == (~allowed).tolist()
    png, _ = draw_alignments(folder, options=UNMARKED)
    figure = draw_means([read_alignment(npz)], options=UNMARKED)
    assert not hatched(figure.axes[0], imread(png)[..., :3], 4, 5).any()


def test_what_a_history_forbids_is_hatched(tmp_path):
    """A step reads the source, and the states before it."""
    weights = np.tril(np.ones((4, 6)), 1) / np.arange(2, 6)[:, None]
    npz = save(tmp_path / "a.npz", [*"xyABCD"], [*"ABCD"], weights=weights, num_decoder_states=np.array(4))
    draw_alignment(npz, tmp_path / "a.png")
    axes = draw_means([read_alignment(npz)]).axes[0]
    assert hatched(axes, imread(tmp_path / "a.png")[..., :3], 4, 6).tolist() == (weights == 0).tolist()


@pytest.mark.parametrize("states", [0, 103])
def test_a_long_text_is_drawn_in_part_with_every_label(states):
    """Six maps of 103 steps on a page that a screen shows; each row and column that is drawn has its symbol."""
    words = tuple(f"word{number}" for number in range(103))
    weights = np.tril(np.full((103, 103), 0.01), -1)
    weights[:21, 53:60] += 0.1 * (not states)  # without decoder states the columns that are read most are shown
    figure = draw_means([Alignment(weights, words, words, words, num_decoder_states=states)] * 6)
    assert max(figure.get_size_inches()) * DPI < 2700
    assert overlapping(figure) == []
    *panels, _ = figure.axes
    for axes in panels:
        rows, columns = (
            [label.get_text() for label in labels] for labels in (axes.get_yticklabels(), axes.get_xticklabels())
        )
        assert rows == list(words[:21])
        assert axes.get_ylim() == (21, 0)
        first = words.index(columns[0])
        assert columns == list(words[first : first + 21])
        assert first == 0 if states else first + 21 >= 60 > 53 >= first
        assert axes.get_title(loc="left").endswith("21 of 103 steps, 21 of 103 positions")


def test_axes_have_titles(tmp_path):
    encoder = {"encoder": np.eye(3)[None], "encoder_sites": np.array(["layer 1"])}
    npz = save(tmp_path / "a.npz", list("cat"), ["K", "AE", "T"], **encoder)
    axes = draw_means([read_alignment(npz)]).axes[0]
    assert (axes.get_ylabel(), [text.get_text() for text in axes.texts]) == ("output", ["source"])
    axes = draw_heads(read_alignment(npz).self_attention["encoder"], stream="encoder").axes[0]
    assert (axes.get_ylabel(), [text.get_text() for text in axes.texts]) == ("source", ["source"])


def test_panels_can_be_equal_and_without_marks(tmp_path):
    short = read_alignment(save(tmp_path / "a.npz", list("ab"), ["A"], reference=np.array(["B"])))
    long = read_alignment(save(tmp_path / "b.npz", list("abcdefg"), list("ABCDE")))
    figure = draw_means([short, long], options=PictureOptions(marks=False, equal_panels=True))
    first, second, _ = (axes.get_window_extent() for axes in figure.axes)
    assert (first.width, first.height) == pytest.approx((second.width, second.height))
    assert figure.axes[0].get_title(loc="left") == "ab → A"
    assert figure.axes[0].get_xlabel() == ""
    first, second, _ = (axes.get_window_extent() for axes in draw_means([short, long]).axes)
    assert first.width < second.width / 3


@pytest.mark.parametrize(
    "source",
    [
        list("фотографія"),
        ["t͡ʃ", "ɹ", "ʰ", "\u0303"],
        ["$\\nothing$", "_^", "\\frac", "%"],
        list("日本 \t"),
        [NO_FONT_HAS_IT],
    ],
    ids=["cyrillic", "ipa", "maths", "spaces", "no font"],
)
def test_any_symbol_can_be_drawn(source, tmp_path):
    """Missing glyphs would warn, and warnings are errors."""
    npz = save(tmp_path / "a.npz", source, ["A", NO_FONT_HAS_IT, "</s>"])
    draw_alignment(npz, tmp_path / "a.png")
    assert cells(npz, tmp_path / "a.png").min() < 0.3


def test_unprintable_characters_are_shown_by_code():
    lettering = choose_fonts(f"aʃф \t{NO_FONT_HAS_IT}")
    assert lettering.display("aʃф") == "aʃф"
    assert lettering.display(" ") == "␣"
    assert lettering.display("\t") == "U+0009"
    assert lettering.display(f"a{NO_FONT_HAS_IT}") == "aU+E0FFF"
    assert lettering.display("\u0303") == "◌\u0303"


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Texts of a picture whose inked boxes overlap."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [
        (item, second)
        for place, (item, box) in enumerate(boxes)
        for second, against in boxes[:place]
        if min(box.x1, against.x1) - max(box.x0, against.x0) > 1
        and min(box.y1, against.y1) - max(box.y0, against.y0) > 1
    ]


@pytest.mark.parametrize(
    ("source", "output", "num_own_states"),
    [
        ([f"word{number}" for number in range(211)], [f"Wort{number}" for number in range(151)], 0),
        (list("pneumonoultramicroscopic"), [*["AH"] * 31, "</s>"], 0),
        (["donaudampfschifffahrtsgesellschaftskapitän"] * 7, ["supercalifragilisticexpialidocious"] * 5, 0),
        ([f"w{number}" for number in range(97)], [f"W{number}" for number in range(89)], 89),
    ],
    ids=["hundreds of words", "a long word", "long symbols", "decoder states"],
)
def test_no_texts_overlap_whatever_the_length(source, output, num_own_states):
    columns = (*source, *output[:num_own_states])
    weights = np.zeros((len(output), len(columns)), dtype=np.float32)
    alignment = Alignment(weights, columns, tuple(output), (*output, "more"), num_decoder_states=num_own_states)
    figure = draw_heads(alignment)
    assert overlapping(figure) == []
    width, height = figure.get_size_inches()
    assert width < 30 > height  # however long, a picture ends
    labels = [*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels()]
    assert min(float(label.get_fontsize()) for label in labels) >= 8
    assert len(figure.axes[0].get_yticklabels()) >= min(len(output), 30)
    assert figure.axes[0].get_xticklabels()[0].get_text()[:4] == columns[0][:4]


def said_in(svg: Path) -> str:
    """The texts of a picture, which an SVG holds as comments beside their outlines."""
    text = svg.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"<!-- (.*?) -->", text))


def test_svg_output_is_equal_and_reproducible(word, tmp_path):
    draw_alignment(word, tmp_path / "a.svg")
    draw_alignment(word, tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    figure = draw_means([read_alignment(word)])
    assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(figure.get_size_inches()[0] * 72)
    fills = re.findall(r"fill: #([0-9a-f]{6})", text)
    assert fills.count("08306b") >= 5  # a cell of weight 1 in each of five rows
    assert "photo → F OW T OW" in said_in(tmp_path / "a.svg")


def test_a_run_can_be_drawn_again_as_svg(tmp_path, command, refuse):
    folder = run_folder(tmp_path / "run", window=1)
    save(folder / ALIGNMENTS / "000.npz", list("abc"), ["A"])
    answer = command("plot", str(folder), "--format", "svg")
    assert (answer.code, answer.out.split()) == (0, [f"{folder}/alignments/000.svg", f"{folder}/alignments.svg"])
    assert command("plot", str(folder)).out.split()[-1].endswith("alignments.png")
    for words, message in [
        ((), "attnx plot needs RUN"),
        ((str(folder), "--format", "gif"), "--format gif: expected one of png, svg, pdf"),
        ((str(tmp_path),), "not a run folder"),
        ((str(run_folder(tmp_path / "bare")),), "has no alignments"),
    ]:
        assert message in refuse("plot", *words)


def test_a_run_can_be_drawn_for_a_paper(tmp_path, command):
    """The same bytes each time, with its curves, and without marks if asked for."""
    folder = run_folder(tmp_path / "run", window=1)
    save(folder / ALIGNMENTS / "000.npz", list("abc"), ["A"], reference=np.array(["B"]))
    (folder / METRICS).write_text("step,train_loss,valid_loss\n1,3,2\n2,2,1\n")
    answer = command("plot", str(folder), "--format", "pdf")
    drawn = [folder / ALIGNMENTS / "000.pdf", folder / "alignments.pdf", folder / "curves.pdf"]
    assert (answer.code, answer.out.split()) == (0, list(map(str, drawn)))
    contents = [path.read_bytes() for path in drawn]
    assert all(content.startswith(b"%PDF") for content in contents)
    assert command("plot", str(folder), "--format", "pdf").code == 0
    assert [path.read_bytes() for path in drawn] == contents
    for words, is_marked in (((), True), (("--no-marks", "--equal-panels"), False)):
        assert command("plot", str(folder), "--format", "svg", *words).code == 0
        assert ("reference: B" in said_in(folder / "alignments.svg")) is is_marked
        assert ("hatched" in said_in(folder / "alignments.svg")) is is_marked


def test_twelve_alignments_are_drawn_from_short_to_long(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: Path(path).touch())
    for number in range(34):
        save(tmp_path / ALIGNMENTS / f"{number:03d}.npz", ["a"] * (number + 1), ["A"])
    written = [path.stem for path in draw_alignments(tmp_path)]
    assert written == [*(f"{3 * number:03d}" for number in range(12)), "alignments"]


def has_font(text: str) -> bool:
    return not choose_fonts(text).missing


SCRIPTS = {
    "devanagari": ["न", "म", "स", "्", "त", "े", "नमस्ते"],
    "ideographs": ["日", "本", "語", "漢字"],
    "arabic": ["س", "ل", "م", "سلام"],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_drawn_by_a_font_that_has_it(script, tmp_path):
    """Glyphs that a font lacks would warn, and warnings are errors."""
    symbols = SCRIPTS[script]
    if not has_font("".join(symbols)):
        pytest.skip(f"no installed font has {script} (Debian: fonts-noto-core, fonts-noto-cjk)")
    npz = save(tmp_path / "a.npz", symbols, [*symbols, "</s>"])
    draw_alignment(npz, tmp_path / "a.png")
    figure = draw_means([read_alignment(npz)])
    assert [label.get_text().removeprefix("◌") for label in figure.axes[0].get_xticklabels()] == symbols
    assert overlapping(figure) == []
    inked = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    image = imread(tmp_path / "a.png")[..., :3].mean(axis=-1)
    pixels = [image[len(image) - int(b.y1) : len(image) - int(b.y0), int(b.x0) : int(b.x1) + 1] for b in inked]
    assert all((part < 0.6).any() for part in pixels)


def test_a_right_to_left_title_keeps_its_arrow(tmp_path):
    """Whatever the scripts, what was read stands at the left of the arrow: a mark on either side keeps them apart."""
    title = axes_of(tmp_path / "a.npz", ["שלום", "עולם"], ["שלום", "רב"]).get_title(loc="left")
    mark = "\u200e"
    assert title == f"{mark}שלום עולם{mark} → {mark}שלום רב{mark}"
    assert mark not in axes_of(tmp_path / "b.npz", ["ab", "c"], ["d"]).get_title(loc="left")


def test_missing_glyphs_are_reported_in_one_line(tmp_path, capsys, monkeypatch):
    """With no font but the first one, whatever is installed."""
    for fonts in ("_listed_fonts", "_unlisted_fonts"):
        monkeypatch.setattr(f"attnx.reports.figures.fonts.{fonts}", dict)
    npz = save(tmp_path / ALIGNMENTS / "000.npz", ["日", "a"], list("本語文字"))
    draw_alignments(tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert "no installed font has U+5B57 CJK UNIFIED IDEOGRAPH-5B57, " in line
    assert "and 2 more" in line
    labels = draw_means([read_alignment(npz)]).axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == ["U+65E5", "a"]
    save(npz, ["a"], ["b"])
    draw_alignments(tmp_path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("source", "rotations"), [(["international", "a", "understanding"], [90, 90, 90]), (["a", "</s>"], [0, 90])]
)
def test_wide_labels_turn_instead_of_overlapping(source, rotations, tmp_path):
    labels = axes_of(tmp_path / "a.npz", source, ["x"]).get_xticklabels()
    assert [label.get_rotation() for label in labels] == rotations


def test_every_alignment_is_drawn_with_six_per_page(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: Path(path).touch())
    for number in range(7):
        save(tmp_path / ALIGNMENTS / f"{number:03d}.npz", list("abcdefghijk")[: 3 + number], ["A", "B", "C"])
    pictures = draw_alignments(tmp_path)
    assert [path.stem for path in pictures] == [*(f"{number:03d}" for number in range(7)), "alignments"]
    assert pictures[-1] == tmp_path / "alignments.png"
    page = draw_means([read_alignment(path) for path in sorted((tmp_path / ALIGNMENTS).glob("*.npz"))[:6]])
    *panels, _ = page.axes
    assert len(panels) == 6
    sizes = {round(axes.get_window_extent().width / (3 + number), 3) for number, axes in enumerate(panels)}
    assert len(sizes) == 1  # one size of cell on the whole page
    needs = [axes.get_tightbbox() for axes in page.axes]
    assert not any(item.overlaps(second) for i, item in enumerate(needs) for second in needs[:i] if item and second)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": np.zeros((2, 3))}, r"weights is \(2, 3\) where output and source make it \(2, 5\)"),
        ({"num_decoder_states": np.ones(2)}, r"num_decoder_states is \(2,\)"),
        ({"num_decoder_states": np.array(6)}, r"6 of its 5 columns cannot be decoder states"),
    ],
)
def test_inconsistent_shapes_are_refused(fields, message, tmp_path):
    """And no picture is drawn; without alignments there is none, either."""
    assert draw_alignments(tmp_path) == []
    npz = save(tmp_path / "a.npz", list("abcde"), list("AB"), **fields)
    with pytest.raises(UserError, match=message):
        draw_alignment(npz, tmp_path / "a.png")
    assert not [*tmp_path.glob("*.png")]


def test_an_invalid_alignment_file_is_refused(tmp_path):
    (tmp_path / "text.npz").write_text("no array")
    with pytest.raises(UserError, match=r"text\.npz: is damaged, or no file of NumPy's arrays"):
        read_alignment(tmp_path / "text.npz")
    np.savez(tmp_path / "lacking.npz", weights=np.zeros((2, 3)), output=np.array(["a", "b"]))
    with pytest.raises(UserError, match="lacks reference, source"):
        read_alignment(tmp_path / "lacking.npz")


def test_curves_are_drawn(tmp_path):
    rows = [f"{step},{3 / step},," for step in range(1, 60)] + [f"{step},,{2 / step},{90 / step}" for step in (20, 40)]
    (tmp_path / METRICS).write_text("\n".join(["step,train_loss,valid_loss,valid_per", *rows]))
    path = draw_curves(tmp_path)
    assert path == tmp_path / "curves.png"
    assert path.read_bytes().startswith(PNG)
    image = imread(path)[..., :3]
    halves = np.array_split(image, 2, axis=1)
    dark_blue = [((half[..., 2] > 0.5) & (half[..., 0] < 0.2)).sum() for half in halves]
    assert min(dark_blue) > 100  # validation loss on the left, PER on the right


@pytest.mark.parametrize(
    ("monitor", "columns", "title", "labels"),
    [
        ("valid_per", "valid_per,valid_wer", "validation, %", ["PER"]),
        ("valid_per_macro", "valid_per_macro,valid_wer_macro,valid_per_fra", "validation, %", ["PER macro"]),
        ("valid_bleu", "valid_bleu,valid_chrf,valid_ter", "validation", ["BLEU"]),
        ("valid_mse", "valid_mse,valid_mae,valid_naive_mse", "validation", ["MSE"]),
        ("valid_loss", "valid_perplexity,valid_accuracy,valid_tour_length", "validation, %", ["accuracy"]),
    ],
)
def test_curves_show_the_validation_metric_of_any_task(monitor, columns, title, labels, tmp_path, monkeypatch):
    drawn: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: drawn.append(figure) or path.touch())
    row = ",".join("0.5" for _ in columns.split(","))
    curve = f"step,train_loss,valid_loss,{columns}\n1,3,2,{row}\n2,2,1,{row}\n"
    write_run_folder(tmp_path, curve=curve, monitor=monitor)
    assert draw_curves(tmp_path) is not None
    loss, metrics = drawn[0].axes
    assert [text.get_text() for text in loss.get_legend().get_texts()] == ["train", "valid"]
    assert (loss.get_ylabel(), metrics.get_ylabel()) == ("loss", title)
    assert {axes.get_xlabel() for axes in (loss, metrics)} == {"step"}
    assert all(float(tick).is_integer() for axes in (loss, metrics) for tick in axes.get_xticks())
    assert [text.get_text() for text in metrics.get_legend().get_texts()] == labels
    for axes in (loss, metrics):  # no point at the edge
        low, high = axes.get_ylim()
        assert low == 0
        assert max(line.get_ydata().max() for line in axes.lines) < high
