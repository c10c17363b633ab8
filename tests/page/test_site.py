"""The documentation in a real browser, as CONTRIBUTING.md builds it: weight, search, widths, colors, accessibility."""

import json
import os
import re
import shutil
import subprocess
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("ATTNX_TEST_SITE", ROOT / "build" / "site"))
AXE = "axe-core@4.14.1"
HOME_BYTES, PHONE = 300_000, 375
PAGES = ["index", "start", "parts", "moving-parts", "performance", "runs", "decisions/README"]
PAGES += ["reference/commands/index", "reference/choices/scorer", "reference/packages/attnx.attention"]
CHECKED = ["index", "runs", "parts", "moving-parts", "reference/packages/attnx.attention"]
CHECKED += [f"tutorials/{file.stem}" for file in sorted(ROOT.glob("docs/tutorials/*-*.md"))[:1]]

pytestmark = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="build/site is not there: CONTRIBUTING.md")


class QuietHandler(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each on the terminal."""

    def log_message(self, *words: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address():
    """The site, served on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def open_page(browser: Any, address: str) -> None:
    browser.go(SITE / "index.html")
    browser.send("POST", "/url", {"url": "about:blank"})
    for kind in ("browser", "performance"):
        browser.log(kind)
    browser.send("POST", "/url", {"url": address})


def network_events(browser: Any, method: str) -> list[dict[str, Any]]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    return [message["params"] for message in messages if message["method"] == f"Network.{method}"]


def test_home_is_light(browser, address):
    """All its requests together, from an empty cache."""
    browser.protocol("Network.setCacheDisabled", cacheDisabled=True)
    open_page(browser, f"{address}/index.html")
    loaded = [event["encodedDataLength"] for event in network_events(browser, "loadingFinished")]
    assert len(loaded) > 3
    assert sum(loaded) < HOME_BYTES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone_and_loads_only_its_own_files(browser, page):
    browser.emulate(width=PHONE, height=800, phone=True)
    browser.go(SITE / f"{page}.html")
    widths = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert widths == [PHONE, PHONE]
    assert browser.log("browser") == []
    urls = [event["request"]["url"] for event in network_events(browser, "requestWillBeSent")]
    assert [url for url in urls if not url.startswith(("file:", "data:", "about:"))] == []


def test_the_gallery_leads_to_every_part_that_moves(browser):
    """Each link of parts.html shows the part that its section is about, and the frame is the page itself."""
    browser.go(SITE / "parts.html")
    links = browser.run(
        "return [...document.querySelectorAll('a[href*=\"moving-parts\"]')].map(a => [a.hash, a.closest('section').id])"
    )
    assert browser.run("return document.querySelector('iframe').src") == (SITE / "moving-parts.html").as_uri()
    browser.go(SITE / "moving-parts.html")
    addresses = browser.run("return [...document.querySelectorAll('nav a')].map(a => a.hash)")
    assert sorted(address for address, _ in links) == sorted(addresses)
    assert all(address.partition("=")[2].replace("_", "-") == section for address, section in links)


def test_search_finds_a_part_without_a_server(browser):
    browser.go(SITE / "search.html", "?q=coverage")
    for _ in range(50):  # results appear by and by
        links = browser.run("return [...document.querySelectorAll('#search-results li a')].map(a => a.href)")
        if any(link.endswith("reference/choices/scorer.html#coverage") for link in links[:9]):
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"found {links[:9]}")
    assert browser.log("browser") == []


@pytest.mark.parametrize("words", ["coverage", "attention", "beam"])
def test_search_finds_guides_before_modules_and_decisions(browser, words):
    browser.go(SITE / "search.html", f"?q={words}")
    links: list[str] = []
    for _ in range(50):  # results appear by and by
        time.sleep(0.1)
        last, links = (
            links,
            browser.run("return [...document.querySelectorAll('#search-results li a')].map(a => a.href)"),
        )
        if links and links == last:
            break
    kinds = ["internals" if re.search("/decisions/|/reference/packages/", link) else "guide" for link in links]
    assert "guide" in kinds[:5]
    assert {"guide", "internals"} <= set(kinds)
    assert "internals" not in kinds[:5]


def test_a_command_is_seen_to_its_end(browser):
    browser.go(SITE / "index.html")
    boxes = browser.run(
        "return [...document.querySelectorAll('.highlight-sh pre')]"
        ".map(e => [e.innerText, e.scrollWidth - e.clientWidth])"
    )
    assert any("+scope=local" in text for text, _ in boxes)
    assert [text for text, cut in boxes if cut > 0] == []


def test_the_reference_leads_to_what_it_lists(browser):
    browser.go(SITE / "reference.html")
    links = browser.run("return [...document.querySelectorAll('article td a')].map(a => a.getAttribute('href'))")
    assert {f"reference/{name}/index.html" for name in ("commands", "choices", "python")} <= set(links)
    browser.go(SITE / "reference" / "choices" / "index.html")
    links = browser.run("return [...document.querySelectorAll('article td a')].map(a => a.getAttribute('href'))")
    assert {"scorer.html#additive", "scope.html#local", "optimizer.html#adam"} <= set(links)


def test_no_number_of_a_table_is_parted_from_its_unit(browser):
    browser.go(SITE / "which-attention.html")
    heights = browser.run(
        "const all = [...document.querySelectorAll('td')].filter(e => /^[+-]\\d+.%$/.test(e.innerText));"
        "return all.map(e => { const r = document.createRange(); r.selectNodeContents(e);"
        " return r.getBoundingClientRect().height; })"
    )
    assert len(heights) > 100
    assert max(heights) < 30  # a line
    assert browser.run("return document.documentElement.scrollHeight") < 25_000


def test_the_frame_of_the_gallery_hides_nothing(browser):
    browser.go(SITE / "moving-parts.html")
    browser.emulate(width=736)
    right = (
        "return Math.max(...[...document.querySelectorAll('#panels svg')].map(e => e.getBoundingClientRect().right))"
    )
    assert 300 < browser.run(right) <= 736
    browser.emulate()
    browser.go(SITE / "parts.html")
    browser.run("document.querySelector('iframe').scrollIntoView()")
    for _ in range(50):  # it is loaded when it is seen
        if (height := browser.run("return document.querySelector('iframe').clientHeight")) != 768:
            break
        time.sleep(0.1)
    assert height > 900


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The source of axe-core, the checker of accessibility."""
    if not shutil.which("npm"):
        pytest.skip("needs npm, which installs axe-core")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), AXE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"npm cannot install {AXE}: {done.stderr.strip()[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", CHECKED)
def test_a_page_has_no_serious_fault_of_accessibility(browser, axe, page, scheme):
    browser.emulate(scheme=scheme)
    browser.go(SITE / f"{page}.html")
    assert browser.run("return Boolean(document.querySelector('h1'))")
    browser.run(axe)
    check = "const done = arguments[0]; axe.run().then(result => done(result.violations))"
    violations = browser.send("POST", "/execute/async", {"script": check, "args": []})
    serious = {
        violation["id"]: [node["target"] for node in violation["nodes"]][:3]
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    }
    assert not serious
