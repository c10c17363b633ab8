# The README's two commands, each in an image of its own. The build installs, the run trains or tests.
#
#   docker build -t attnx . && docker run --name first attnx && docker cp first:/home/attnx/multirun .
#   docker build -t attnx-test --target test . && docker run --rm attnx-test
#
# Arguments of "docker run attnx" replace the choices: docker run attnx scorer=dot seed=3
# For CPUs only: --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

FROM python:3.11-slim AS source
# The compiler builds attnx's C kernels when a run starts.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 attnx
USER 1000
WORKDIR /home/attnx
COPY --chown=1000 . .
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1

FROM source AS test
RUN python3.11 -m venv .venv && .venv/bin/pip install -q --no-compile -c constraints.txt -e '.[test]'
ENTRYPOINT [".venv/bin/python", "-m", "pytest"]
CMD ["-q", "-n", "3", "--dist", "loadfile"]

FROM source AS main
RUN python3.11 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e .
ENTRYPOINT [".venv/bin/attnx"]
CMD ["+scorer=additive", "+scope=local"]
