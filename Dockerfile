# The manager's image: `make image IMAGE=REGISTRY/ome-manager:TAG`. Only what the manager needs; no shell tools are added.
FROM python:3.11-slim AS build
WORKDIR /build
COPY locks/manager.txt ./
RUN python -m venv /opt/ome && /opt/ome/bin/pip install --no-cache-dir --require-hashes -r manager.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
RUN /opt/ome/bin/pip install --no-cache-dir --no-deps . && /opt/ome/bin/python -m compileall -q /opt/ome

FROM python:3.11-slim
COPY --from=build /opt/ome /opt/ome
USER 65532:65532
ENTRYPOINT ["/opt/ome/bin/ome", "manager"]
