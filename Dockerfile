# The keepstone server, with PostgreSQL and Redis: docker build --tag keepstone .
# Every package is checked by its hash; nothing is compiled, and nothing of the build stage but two folders is in the image.

# `make image-digests` writes the digest of today into .env; --build-arg takes it from anywhere.
ARG PYTHON_IMAGE=python:3.13-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY requirements/run.txt requirements/deploy.txt ./requirements/
RUN python -m venv /opt/keepstone \
    && /opt/keepstone/bin/python -m pip install --no-cache-dir --require-hashes --requirement requirements/deploy.txt \
    && python -m pip install --no-cache-dir --require-hashes --requirement requirements/run.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/keepstone/bin/python -m pip install --no-cache-dir --no-deps --no-index --find-links /wheels keepstone \
    && /opt/keepstone/bin/python -m pip uninstall --yes pip \
    && mkdir /data

FROM ${PYTHON_IMAGE}
ENV PATH=/opt/keepstone/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KEEPSTONE_DB=/data/keepstone.db
COPY --from=build --chown=root:root /opt/keepstone /opt/keepstone
COPY --from=build --chown=10001:10001 /data /data
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8700
# The store answers, and the server takes requests.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8700/readyz', timeout=5)"]
ENTRYPOINT ["keepstone"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8700"]
