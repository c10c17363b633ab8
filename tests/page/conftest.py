"""Chromium without a window, driven over the WebDriver protocol; and written run folders."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from attnx.runs.layout import ALIGNMENTS
from tests.run_folder import write_run_folder

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1"]
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015", "escape": "\ue00c", "enter": "\ue007"}
KEYS |= {"tab": "\ue004", "home": "\ue011", "end": "\ue010"}
PAINTED = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"  # a key that comes before is dropped
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key under which the protocol hands out elements
DRIVERS = ("chromedriver", "/usr/lib/chromium/chromedriver")
SECONDS = 600  # only for what would never end
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Browser:
    """One window: opens a page, says what a person would see in it, and does what a person would do."""

    def __init__(self, address: str, browser: str, profile: Path) -> None:
        self.address = address
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        logged = {"goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        timeouts = {"script": 1000 * SECONDS, "pageLoad": 1000 * SECONDS}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "timeouts": timeouts, **logged}
        session = self.send("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self.address = f"{address}/{session['sessionId']}"

    def send(self, method: str, path: str, content: Any = None) -> Any:
        body = json.dumps(content).encode() if content is not None else None
        request = urllib.request.Request(
            f"{self.address}{path}", body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with self._open(request, timeout=SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None

    def close(self) -> None:
        self.send("DELETE", "")

    def protocol(self, command: str, **params: Any) -> Any:
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def emulate(self, width: int = 1280, height: int = 900, scheme: str = "light", phone: bool = False) -> None:
        self.protocol(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        self.protocol("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def go(self, page: Path, fragment: str = "") -> None:
        self.send("POST", "/url", {"url": "about:blank"})
        self.log("browser")
        self.log("performance")
        self.send("POST", "/url", {"url": page.as_uri() + fragment})
        self.send("POST", "/execute/async", {"script": PAINTED, "args": []})

    def log(self, kind: str) -> list[dict[str, Any]]:
        return self.send("POST", "/se/log", {"type": kind})

    def run(self, script: str, *words: Any) -> Any:
        return self.send("POST", "/execute/sync", {"script": script, "args": list(words)})

    def find(self, selector: str) -> str:
        return self.send("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        self.send("POST", f"/element/{self.find(selector)}/click", {})

    def write(self, selector: str, text: str) -> None:
        self.send("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def hover(self, selector: str) -> None:
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.find(selector)}}
        self.send("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def tooltip(self, selector: str) -> str:
        """The tooltip over an element.

        A page that scrolls late takes the tip away: this points again until there is one.
        """
        for _ in range(20):
            self.hover(selector)
            if tip := self.text("#tip"):
                return tip
            self.hover("body")  # a tip shows only when the pointer enters
            time.sleep(0.1)
        return ""

    def press(self, key: str) -> None:
        value = KEYS.get(key, key)
        actions = [{"type": kind, "value": value} for kind in ("keyDown", "keyUp")]
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def hold_clock(self) -> None:
        """Keep the page's timers from firing by themselves, so that a slow machine misses no step of a page."""
        self.run(
            "window.timers = new Map(); let last = 0;"
            "const keep = (repeats) => (act, delay) => { timers.set(++last, {act, delay, repeats}); return last; };"
            "window.setTimeout = keep(false); window.setInterval = keep(true);"
            "window.clearTimeout = window.clearInterval = (id) => timers.delete(id);"
        )

    def fire_timers(self) -> list[float]:
        """Fire each timer of a page whose clock is held, once; return the delays they had, in milliseconds."""
        return self.run(
            "const due = [...timers];"
            "for (const [id, {act, repeats}] of due) { if (!repeats) timers.delete(id); act(); }"
            "return due.map(([, {delay}]) => delay)"
        )

    def text(self, selector: str) -> str:
        """What can be read in an element: its visible text."""
        return self.send("GET", f"/element/{self.find(selector)}/text")

    def texts(self, selector: str) -> list[str]:
        """What can be read in each element, all on one line."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.replace(/\\s+/g, ' ').trim())"
        )
        return self.run(script, selector)

    def box(self, selector: str) -> dict[str, float]:
        return self.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return {left: b.left, top: b.top, right: b.right, bottom: b.bottom}", selector)  # fmt: skip

    def boxes(self, selector: str) -> list[list[float]]:
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect())"
            ".map(b => [b.left, b.top, b.right, b.bottom])", selector)  # fmt: skip

    def picture(self, path: Path | None = None) -> NDArray[np.float64]:
        """What the window shows, (height, width, 3), from 0 to 1; also saved if a path is given."""
        content = base64.b64decode(self.send("GET", "/screenshot"))
        if path is not None:
            path.write_bytes(content)
        return imread(BytesIO(content), format="png")[..., :3]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """The browser; tests that need it are skipped where it is not installed."""
    browser, driver = (next(filter(None, map(shutil.which, names)), None) for names in (BROWSERS, DRIVERS))
    if not browser or not driver:
        pytest.skip("needs Chromium and its WebDriver (Debian: chromium, chromium-driver)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        window = Browser(f"http://127.0.0.1:{port}/session", browser, tmp_path_factory.mktemp("profile"))
        yield window
        window.close()
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"chromedriver ended with {process.returncode}")


@pytest.fixture
def browser(chromium):
    """The browser as on a desk: a wide window, light."""
    chromium.emulate()
    return chromium


@pytest.fixture
def open_page(browser):
    """Open a page: ``open_page(file, fragment, **window)``; it may log no error, and load nothing but itself."""
    pages: set[str] = set()

    def show(page: Path, fragment: str = "", **window: Any) -> Browser:
        pages.add(page.as_uri())
        browser.emulate(**window)
        browser.go(page, fragment)
        return browser

    yield show
    assert browser.log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert {url.partition("#")[0] for url in sent} <= {*pages, "data:,", "about:blank"}


@pytest.fixture(scope="session")
def write_run():
    """Write a run folder by hand: ``write_run(folder, config)``."""

    def write(folder: Path, config: dict[str, Any] | None = None) -> Path:
        (folder / ALIGNMENTS).mkdir(parents=True)
        info = {"name": folder.name, "command": "attnx +scorer=additive"}
        return write_run_folder(folder, config or {"scorer": {"name": "additive"}}, **info)

    return write


@pytest.fixture(scope="session")
def keep():
    """Keep an alignment in a run folder: ``keep(folder, "000", symbols read, symbols written, weights)``."""

    def write(
        folder: Path, name: str, read: Sequence[str], wrote: Sequence[str], weights: Any, /, **fields: Any
    ) -> Path:
        num_own_states = int(fields.get("num_decoder_states", 0))
        columns = [*read, *wrote[:num_own_states]]
        reference = list(fields.get("reference", wrote))
        fields = {"reference": reference, "is_right": list(wrote) == reference, **fields}
        arrays = {key: np.array(value) for key, value in fields.items() if value is not None}
        arrays |= {
            "weights": np.array(weights, dtype=np.float32),
            "source": np.array(columns),
            "output": np.array(wrote),
        }
        path = folder / ALIGNMENTS / f"{name}.npz"
        np.savez(path, **arrays)
        return path

    return write
