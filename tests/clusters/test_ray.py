"""A sweep on a Ray cluster of this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attnx.runs.sweep import read_sweep

LAUNCHER = "hydra_plugins.hydra_ray_launcher"
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        not (importlib.util.find_spec("hydra_plugins") and importlib.util.find_spec(LAUNCHER)),
        reason="Ray is not installed: pip install -e '.[ray]' in an environment of its own",
    ),
]

# Ray listens on all networks, so this one has the loopback interface only; and Ray ends with its first process.
ISOLATED = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
START = """\
ip link set lo up
ray start --head --num-cpus=2 --include-dashboard=false --disable-usage-stats --temp-dir="$0" > ray.txt 2>&1
python -m attnx "$@"
"""


@pytest.fixture
def socket_folder() -> Iterator[str]:
    """A folder with a short path: those of Ray's sockets may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        yield folder


@pytest.mark.usefixtures("words")
def test_a_sweep_runs_on_a_cluster_of_ray(
    socket_folder: str, sized: Callable[..., list[str]], no_pictures_folder: str
) -> None:
    if subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a network of its own for Ray needs root")
    address = ["hydra.launcher.ray.init.address=auto", "+hydra.launcher.ray.init.object_store_memory=null"]
    sweep = ["-m", "hydra/launcher=ray", *address, *sized("scorer=dot,additive", "name=two")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*ISOLATED, "bash", "-e", "-c", START, socket_folder, *sweep],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": no_pictures_folder},
    )
    assert done.returncode == 0, done.stderr
    assert "Connecting to existing Ray cluster" in done.stderr
    assert done.stdout.splitlines()[-1] == "multirun/two/report.html"
    assert [job.status for job in read_sweep("multirun/two").jobs] == ["finished", "finished"]
