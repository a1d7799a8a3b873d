# The microcell command and the location service.
#
#   docker build -t microcell .
#   docker run --rm --user "$(id -u)" -v "$PWD:/data" microcell anonymize people.csv -s schema.toml -k 5 -o people_k5.csv
#   docker run -p 8000:8000 -v locations:/data -e MICROCELL_LOCATIONS_KEY microcell locations serve --host 0.0.0.0

FROM python:3.13-slim AS build
RUN pip install --no-cache-dir uv
WORKDIR /source
COPY . .
RUN uv venv /opt/microcell \
    && uv pip install --no-cache --python /opt/microcell --constraint requirements.lock ".[report,excel,stat,locations]"
# Kernels are compiled for the processor of this machine. On another one, the first run compiles
# them again, so any user may write to the folder.
ENV NUMBA_CACHE_DIR=/opt/microcell/kernels
RUN /opt/microcell/bin/microcell compile && chmod -R a+rwX /opt/microcell/kernels

FROM python:3.13-slim
COPY --from=build /opt/microcell /opt/microcell
ENV PATH=/opt/microcell/bin:$PATH \
    NUMBA_CACHE_DIR=/opt/microcell/kernels \
    PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --create-home microcell && install -d -o microcell -g microcell /data
USER 10001
WORKDIR /data
EXPOSE 8000
ENTRYPOINT ["microcell"]
CMD ["--help"]
