#!/usr/bin/env bash
# Runs tests with other versions than those of constraints.txt, in an environment that is deleted after, and prints what
# was tried:
#   bash benchmarks/versions.sh oldest                          the oldest versions that pyproject.toml admits
#   bash benchmarks/versions.sh newest 3.13                     the newest, with Python 3.13
#   bash benchmarks/versions.sh oldest 3.11 tests/laws          other tests than the chosen ones
# Needs uv and its variables: UV_TORCH_BACKEND=cpu takes the smaller builds of torch for CPUs, UV_PRERELEASE=allow takes
# what is not released yet, such as Hydra 1.4.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

which="${1:-}" python="${2:-3.11}" tests=("${@:3}")
case "$which" in
    oldest) resolution=lowest-direct ;;
    newest) resolution=highest ;;
    *) echo "versions.sh: say oldest or newest, not '$which'" >&2; exit 2 ;;
esac
((${#tests[@]})) || tests=(
    tests/known --ignore tests/known/test_gallery.py # which draws for the site
    tests/laws/test_compiled_steps.py
    tests/runs/test_{training,predict,pictures,wandb,compile}.py
    tests/runs/sweeps/test_{search,report}.py
)

away="$(mktemp -d)"
trap 'rm -rf "$away"' EXIT
uv venv -q --python "$python" "$away/venv"
export VIRTUAL_ENV="$away/venv"
uv pip install -q --resolution "$resolution" -r pyproject.toml --extra optuna --extra slurm --extra translation \
    'pytest>=9.0' 'hypothesis>=6.150'
uv pip install -q --no-deps -e .

# Old packages warn of what is deprecated since.
result=passed
"$away/venv/bin/python" -m pytest -q -p no:cacheprovider -W ignore "${tests[@]}" || result=FAILED
printf '%s: %s versions, %s\n' "$result" "$which" "$("$away/venv/bin/python" --version)"
names='torch|lightning|hydra-core|omegaconf|torchmetrics|wandb|matplotlib|numpy|scipy|rapidfuzz|rich|pyyaml|optuna|submitit'
uv pip freeze | grep -E "^($names)==" | paste -sd ' '
[[ "$result" == passed ]]
