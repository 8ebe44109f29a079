# The server and one bundle: docker build --build-arg BUNDLE=my-bundle -t frontdesk .
# docs/deploy.md says how to run it. Not for Alpine: onnxruntime has no wheels for musl.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY edge edge
COPY export export
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# The image gets no pip; the wheel is named by its file, so that no other frontdesk can come in its place.
RUN python -m venv --without-pip /venv \
 && pip --python /venv/bin/python install --no-cache-dir "$(echo /wheels/frontdesk-*.whl)[server]"

FROM python:${PYTHON}-slim
ARG BUNDLE=models/demo
COPY --from=build /venv /venv
COPY ${BUNDLE} /bundle
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    FRONTDESK_BUNDLE=/bundle \
    FRONTDESK_HOST=0.0.0.0
# A frontdesk.toml that is mounted here is read.
WORKDIR /app
# By number, for platforms that must see that it is not root.
USER 10001:10001
EXPOSE 8080
# Liveness, not readiness: a server whose bundle is bad still forwards, and must not be ended for it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD python -c "\
import http.client; \
asked = http.client.HTTPConnection('127.0.0.1', ${FRONTDESK_PORT:-${PORT:-8080}}, timeout=2); \
asked.request('GET', '/health/liveness'); \
exit(asked.getresponse().status != 200)"
ENTRYPOINT ["frontdesk"]
CMD ["serve"]
