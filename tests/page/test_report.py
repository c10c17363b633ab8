"""The report of 300 runs in a real browser: on a desktop, on a phone, in dark mode, by keys."""

import json
import re
import runpy
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from attnx.reports.sweep.report import write_report
from tests.run_folder import write_run_folder

ROOT = Path(__file__).parents[2]
RUNS, FAILED, FAILED_SETTINGS = 300, 6, 2
SETTINGS = 98  # of two all three seeds have failed: (multiplicative, local, 0.008) and (mlp, history, 0.008)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"
PAPER = {"light": (255, 255, 255), "dark": (18, 22, 28)}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Of five scorers, four scopes, five learning rates and three seeds; every fiftieth run has failed."""
    made_up = runpy.run_path(str(ROOT / "benchmarks" / "report_load.py"))
    return write_report([made_up["write_runs"](tmp_path_factory.mktemp("sweeps"), RUNS)])[0]


@pytest.fixture(scope="module")
def embedded_data(page):
    """What is embedded in the page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert match
    return json.loads(match[1])


@pytest.fixture
def look(open_page, page):
    """Open the page."""
    return partial(open_page, page)


def column(browser: Any, name: str) -> list[str]:
    return browser.run(
        "const heads = [...document.querySelectorAll('#table thead th')];"
        "const at = heads.findIndex(e => e.dataset.column === arguments[0]);"
        "return [...document.querySelectorAll('#table tr.row')].map(e => e.cells[at].textContent.trim())",
        name)  # fmt: skip


def count_isolated(browser: Any) -> tuple[int, int, int]:
    """How many curves stand out, how many there are, and how many points of the scatter stand out."""
    count = (
        "return ['#curves .line.best', '#curves .line', '#scatter .mark'].map(e => document.querySelectorAll(e).length)"
    )
    best, lines, marks = browser.run(count)
    return best, lines, marks


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("desk", {"scheme": "light"}),
        ("dark", {"scheme": "dark"}),
        ("phone", {"width": 390, "height": 844, "phone": True, "scheme": "light"}),
        ("phone-dark", {"width": 390, "height": 844, "phone": True, "scheme": "dark"}),
    ],
)
def test_the_page_is_legible(look, name, window, tmp_path_factory):
    """The ground has its color and letters stand out from it; nothing is wider than the window, no letter is tiny."""
    browser = look(**window)
    image = browser.picture(tmp_path_factory.getbasetemp() / f"report-{name}.png") * 255
    assert image[2, 2] == pytest.approx(PAPER[window["scheme"]], abs=2)
    box = browser.box("#verdict p")
    words = image[int(box["top"]) : int(box["bottom"]), int(box["left"]) : int(box["right"])].mean(axis=-1)
    assert np.ptp(words) > 180
    assert browser.run("return document.documentElement.scrollWidth") <= browser.run("return window.innerWidth")
    sizes = browser.run(
        "return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && [...e.childNodes]"
        ".some(n => n.nodeType === 3 && n.data.trim()))"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))")  # fmt: skip
    assert min(sizes) >= 11
    browser.run("document.getElementById('learning').scrollIntoView()")
    browser.picture(tmp_path_factory.getbasetemp() / f"report-{name}-curves.png")


def test_the_page_starts_with_the_winner(look, embedded_data):
    browser = look()
    first, *_ = embedded_data["comparisons"][0]["metrics"][0]["verdict"]
    assert browser.texts("#verdict p")[0] == first.replace("**", "")
    assert browser.texts("#verdict strong")[0] == "additive, local, lr=0.002"
    assert browser.text("#counts").startswith(f"{RUNS} runs: {RUNS - FAILED} finished, {FAILED} failed.")
    assert browser.run("return Number(document.documentElement.dataset.drawn) > 0")


def test_the_table_is_sorted_by_any_column(look):
    browser = look()
    values = [float(text.split()[0]) for text in column(browser, "mean")]
    assert len(values) == SETTINGS
    assert values == sorted(values)
    for name in ("value:0", "value:2", "mean", "seeds", "behind", "p", "train_seconds", "peak_memory_mb"):
        browser.click(f"#table th[data-column='{name}'] button")
        up = column(browser, name)
        browser.press("enter")  # the heading kept the focus
        assert browser.run("return document.querySelector('#table [aria-sort]').ariaSort") == "descending"
        down = column(browser, name)
        assert sorted(up) == sorted(down)
        assert len(set(up)) == 1 or up[0] != down[0], name
    rates = column(browser, "value:2")
    browser.click("#table th[data-column='value:2'] button")
    assert [float(rate) for rate in column(browser, "value:2")] == sorted(map(float, rates))


def test_the_table_is_filtered_by_words_and_by_choices(look):
    browser = look()
    browser.write("#text", "mlp lr=0.008")
    assert browser.text("#count") == f"3 of {SETTINGS} settings"
    assert set(column(browser, "value:0")) == {"mlp"}
    browser.run("const e = document.getElementById('text'); e.value = ''; e.dispatchEvent(new Event('input'))")
    choose = (
        "const e = document.querySelector(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('change'))"
    )
    browser.run(choose, "select[data-key='1']", "=history")
    assert browser.text("#count") == f"24 of {SETTINGS} settings"
    browser.run(choose, "select[data-key='0']", "=dot")
    assert browser.text("#count") == f"5 of {SETTINGS} settings"
    browser.run(choose, "select[data-key='1']", "")
    assert browser.text("#count") == f"20 of {SETTINGS} settings"


def test_a_row_expands_to_its_runs_and_folders(look, page, embedded_data):
    browser = look()
    browser.run("document.querySelector('#table tr.row [aria-expanded]').focus()")
    browser.press("enter")
    place = embedded_data["comparisons"][0]["metrics"][0]["rows"][0]["setting"]
    runs = [embedded_data["runs"][number] for number in embedded_data["comparisons"][0]["settings"][place]["runs"]]
    assert browser.texts("tr.detail tbody td:nth-child(2)") == [f"{run['values']['test_per']:.2f}" for run in runs]
    links = browser.run("return [...document.querySelectorAll('tr.detail a')].map(e => e.getAttribute('href'))")
    assert [(page.parent / link / "run.json").is_file() for link in links] == [True] * 3
    browser.press("enter")
    assert browser.texts("tr.detail") == []


def test_a_row_isolates_its_setting_in_the_charts(look):
    browser = look()
    assert count_isolated(browser) == (18, RUNS - FAILED, 6)  # the six best, three seeds each
    browser.click("#table tr.row:nth-child(9) td:nth-child(4)")
    assert count_isolated(browser) == (3, RUNS - FAILED, 1)
    assert "9" in browser.texts("#curve-legend [aria-pressed='true']")[0]
    browser.press("escape")
    assert count_isolated(browser) == (18, RUNS - FAILED, 6)
    browser.run("document.querySelector('#curve-legend button').focus()")
    browser.press("enter")
    assert count_isolated(browser)[0] == 3
    assert browser.run("return document.activeElement.closest('#curve-legend') !== null")
    browser.press("enter")
    assert count_isolated(browser)[0] == 18


def test_a_pointer_shows_the_value_below(look, embedded_data):
    browser = look()
    shown = browser.run("return document.getElementById('tip').checkVisibility()")
    assert not shown
    tip = browser.tooltip("#table tr.row:nth-child(2) td.mean").split("\n")
    _, row, *_ = embedded_data["comparisons"][0]["metrics"][0]["rows"]
    name = embedded_data["comparisons"][0]["settings"][row["setting"]]["name"]
    assert tip[0] == name
    interval = f"95 % interval {row['interval'][0]:.2f} to {row['interval'][1]:.2f}"
    usual, scaled = f"{row['mean']:.2f}", f"{row['scale_mean']:.2f}"
    prefix = "" if usual == scaled else f"mean of logarithms {scaled}, "
    assert tip[1] == f"PER {usual} ± {row['sd']:.2f} (sd) over 3 seeds, {prefix}{interval}"
    assert [part.split(":")[0] for part in tip[2].split(", ")] == ["seed 1", "seed 2", "seed 3"]
    assert "95 % interval" in tip[3]
    browser.run("document.getElementById('costs').scrollIntoView()")
    tip = browser.tooltip("#scatter .mark:last-of-type circle")
    assert tip.startswith("additive, local, lr=0.002\nPER ")
    assert "training, s:" in tip


def test_steps_and_tests_are_listed(look):
    """Steps are a column also where they are alike; choices have an F-test, and so have two of them together.

    The errors of scorers and scopes add up, so on logarithms they interact.
    """
    browser = look()
    assert {*column(browser, "steps")} == {"2,000"}
    assert "steps" not in browser.texts("#cost option")
    assert [head.rpartition(", ")[2] for head in browser.texts("#cards h3")] == ["p < 0.001"] * 3
    (row,) = [row for row in browser.texts("#interactions tbody tr") if row.startswith("scorer by scope")]
    assert re.search(r"F\(12, \d+\) = \d+\.\d\d, p < 0\.001", row)
    note = browser.text("#effects-note")
    assert "Significant interactions after Holm's correction for 3: scorer by scope (p < 0.001)" in note
    tip = browser.tooltip("#cards .card:first-child .name:nth-child(4)")
    assert "behind the best value" in tip


def test_another_metric_is_another_ranking(look, embedded_data):
    browser = look()
    assert browser.texts("#metric option") == ["PER", "WER", "PER in validation, best"]
    wer = browser.texts("#metric option").index("WER")
    browser.run(
        "const e = document.getElementById('metric'); e.value = arguments[0]; e.dispatchEvent(new Event('change'))",
        wer,
    )
    assert browser.texts("#verdict p")[0] == embedded_data["comparisons"][0]["metrics"][wer]["verdict"][0].replace(
        "**", ""
    )
    assert browser.text("#table th[data-column='mean']").startswith("WER")


def test_two_choices_are_shown_as_a_grid(look, embedded_data):
    browser = look()
    comparison = embedded_data["comparisons"][0]
    means = {row["setting"]: row["mean"] for row in comparison["metrics"][0]["rows"]}
    result = [
        means[place]
        for place, setting in enumerate(comparison["settings"])
        if setting["values"][:2] == ["dot", "local"]
    ]
    column_index = browser.texts("#grid thead th").index("local")
    row = next(text for text in browser.texts("#grid tbody tr") if text.startswith("dot"))
    assert row.split()[column_index] == f"{fmean(result):.2f}"
    browser.run("const e = document.getElementById('along'); e.value = '2'; e.dispatchEvent(new Event('change'))")
    assert browser.texts("#grid thead th")[1:] == ["0.0005", "0.001", "0.002", "0.004", "0.008"]


def test_the_best_runs_show_the_same_example(look, embedded_data):
    browser = look()
    maps = embedded_data["comparisons"][0]["maps"]
    assert len(browser.texts("#pictures figure")) == len(maps["settings"]) == 4
    browser.click("#examples button:first-child")
    example = maps["examples"][0]
    cells = len(example["source"]) * len(example["maps"][0]["output"])
    assert browser.run("return document.querySelectorAll('#pictures figure:first-child rect').length") == cells
    tip = f"A read a: {example['maps'][0]['weights'][0] / 1000:.3f}"
    assert browser.tooltip("#pictures figure:first-child rect") == tip


def test_failed_jobs_are_listed_with_their_logs(look, page):
    browser = look()
    lines = browser.texts("#failures tbody tr")
    assert len(lines) == FAILED_SETTINGS
    assert all(
        "failed with 3 seeds (1, 2, 3) RuntimeError: the loss is not finite at step 37" in line for line in lines
    )
    logs = browser.run(
        "return [...document.querySelectorAll('#failures td:last-child a')].map(e => e.getAttribute('href'))"
    )
    assert [(page.parent / log).is_file() for log in logs] == [True] * FAILED


def write_small(folder: Path, values: dict[tuple[str, int], float], fingerprints: dict[str, str]) -> Path:
    """Runs by scorer and seed with so much PER, each trained on the data of its scorer's fingerprint."""
    for number, ((scorer, seed), value) in enumerate(values.items()):
        write_run_folder(
            folder / str(number),
            {"seed": seed, "scorer": {"name": scorer}},
            {"test_per": value, "test_examples": 3, "train_seconds": 2 + number},
            curve=f"step,valid_per\n5,{value + 2}\n10,{value}\n",
            created=str(number),
            fingerprint=fingerprints[scorer],
        )
    return write_report([folder])[0]


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """Two scorers of nearly the same mean, 10 and 10.5, with a wide and a narrow spread; their data differ, too."""
    values = {("dot", 1): 4.0, ("dot", 2): 16.0, ("mlp", 1): 10.25, ("mlp", 2): 10.75}
    return write_small(tmp_path_factory.mktemp("spread") / "all", values, {"dot": "5e01" * 4, "mlp": "77aa" * 4})


def test_bars_match_their_values_and_stay_within_the_plot(browser, spread):
    """A bar goes as far above its mean as below: neither end is cut off by the edge.

    Intervals of choices are symmetric on logarithms, so the upper half is longer.
    """
    browser.go(spread)
    lines = browser.run(
        "return [...document.querySelectorAll('#scatter .mark')].map(mark => {"
        "const at = (e, name) => Number(e.getAttribute(name)), line = mark.querySelector('line');"
        "return [at(line, 'y1'), at(mark.querySelector('circle'), 'cy'), at(line, 'y2')]})"
    )
    assert len(lines) == 2
    for low, middle, high in lines:
        assert low - middle == pytest.approx(middle - high, abs=0.1)
    strips = (
        "return [...document.querySelectorAll(arguments[0])].map(strip => {"
        "const at = (e, name) => parseFloat(e.getAttribute(name)), bar = strip.querySelector('.bar');"
        "return bar && [at(bar, 'x1'), at(strip.querySelector('.mid'), 'cx'), at(bar, 'x2')]}).filter(Boolean)"
    )
    settings, choices = (browser.run(strips, f"{where} .strip") for where in ("#table", "#cards"))
    assert len(settings) == len(choices) == 2
    for low, middle, high in settings:
        assert middle - low == pytest.approx(high - middle, abs=0.1)
    for low, middle, high in choices:
        assert 0 < middle - low < high - middle
    assert browser.run("return document.querySelectorAll('.beyond').length") == 0


def test_what_lies_beyond_the_axis_has_an_arrow(browser, tmp_path):
    """One scorer of eight is far behind. Its interval begins ahead of the best, which is said in words."""
    values = {(f"s{n}", seed): 10.0 + 0.1 * n + 0.5 * seed for n in range(7) for seed in (1, 2)}
    values |= {("far", 1): 40.0, ("far", 2): 90.0}
    fingerprints = dict.fromkeys([*(f"s{n}" for n in range(7)), "far"], "5e01" * 4)
    browser.go(write_small(tmp_path / "all", values, fingerprints))
    arrows = "return [...document.querySelectorAll('#table tr.row')].map(e => e.querySelectorAll('.beyond').length)"
    assert browser.run(arrows) == [*[0] * 7, 1]
    tip = browser.tooltip("#table tr.row:nth-child(2) td.mean")
    assert re.search(r"0\.\d+ behind the best, 95 % interval \d\.\d+ ahead to \d\.\d+ behind, p = ", tip)


def test_axes_are_titled_with_their_units(browser, spread):
    browser.go(spread)
    titles = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    assert browser.run(titles, "#curves .title") == ["step", "PER in validation, %"]
    assert browser.run(titles, "#scatter .title") == ["training, s", "PER, %"]
    for plot in ("#curves", "#scatter"):  # and no number stands on them
        texts = browser.boxes(f"{plot} text:not(.title)")
        for left_edge, top, right, bottom in browser.boxes(f"{plot} .title"):
            assert all(x0 >= right or x1 <= left_edge or y0 >= bottom or y1 <= top for x0, y0, x1, y1 in texts)


def test_training_data_have_readable_names(browser, spread):
    browser.go(spread)
    assert browser.texts("#table th button")[2:4] == ["scorer", "training data"]
    assert {*column(browser, "value:1")} == {"data 1", "data 2"}
    assert "5e01" not in browser.text("body")
    assert "5e01" not in spread.with_suffix(".md").read_text(encoding="utf-8")


def test_singular_forms_are_used(browser, tmp_path):
    browser.go(write_small(tmp_path / "one", {("dot", 1): 7.0}, {"dot": "5e01" * 4}))
    assert browser.text("#counts").startswith("1 run: 1 finished.")
    assert browser.text("#count") == "1 setting"
    message = (tmp_path / "one" / "report.md").read_text(encoding="utf-8")
    assert "1 run: 1 finished." in message
    assert "5e01" not in message + browser.text("body")


def test_text_of_runs_is_escaped(browser, tmp_path):
    for number, scorer in enumerate((HOSTILE, "**dot** `x`")):
        config, scores = {"seed": 1, "scorer": {"name": scorer}}, {"test_per": 7.0 + number, "test_examples": 3}
        write_run_folder(tmp_path / "all" / f"run {number} #?%", config, scores, name=HOSTILE)
    write_run_folder(tmp_path / "all" / "failed", status="failed", error=HOSTILE)
    browser.go(write_report([tmp_path / "all"])[0])
    assert browser.log("browser") == []
    assert browser.run("return document.title") == "all: report"
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.text("#failures")
    assert column(browser, "value:0") == [HOSTILE, "**dot** `x`"]
    browser.click("#table tr.row [aria-expanded]")
    link = browser.run("return document.querySelector('tr.detail a').href")
    assert link == (tmp_path / "all" / "run 0 #?%").as_uri() + "/"
