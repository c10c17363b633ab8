"""A sweep ends with a report, whatever its jobs do, even if the report fails."""

from pathlib import Path

from tests.runs.conftest import results


def test_a_sweep_ends_with_its_report(sweep, moody, command):
    """Also with a failed job; the next time the report is rewritten or fails, and the sweep stays valid."""
    Path("fall").touch()
    answer = sweep("scorer=dot,moody", "name=two")
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "multirun/two/report.html"
    text = Path("multirun/two/report.md").read_text(encoding="utf-8")
    assert "2 runs: 1 finished, 1 failed." in text
    assert "- scorer=moody: failed: " in text
    assert "I have fallen over" in text
    assert results("multirun/two/0")["peak_memory_mb"] > 50

    Path("fall").unlink()
    Path("multirun/two/report.html").unlink()
    Path("multirun/two/report.html").mkdir()
    answer = command("resume", "multirun/two")
    assert answer.code == 0
    (line,) = answer.err.splitlines()
    assert line.startswith("attnx: the report could not be written: multirun/two/report.html: cannot be written (")
    assert "2 runs: 1 finished, 1 failed." in Path("multirun/two/report.md").read_text(encoding="utf-8")
