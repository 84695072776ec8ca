# One root file system, every component: python -m scheduler | webhook | gpucheck | fakegpu.
#
#   docker build -t gpu-scheduler:VERSION .
#   docker build -t gpu-scheduler-check:VERSION --target gpu-scheduler-check .
#
# The packages are the locked ones, each checked by its hash; what is needed to install them stays
# in the first stage. Nothing is written at run time: the root file system may be read-only, and any
# user may run it (65532 unless the pod says otherwise).
ARG PYTHON=python:3.11-slim
ARG GO=golang:1.26

# What the fake GPU operator puts into containers: one static program, for any image.
FROM ${GO} AS nvidia-smi
WORKDIR /source
COPY fakegpu/smi/nvidia-smi .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /nvidia-smi .

FROM ${PYTHON} AS build
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/gpu-scheduler
COPY requirements/runtime.txt requirements/
# No program but Python: what packages would like to be called by is left out. So are 36 MB of
# cel-expr-python that its main module contains too.
RUN pip --python /opt/gpu-scheduler/bin/python install --no-compile --require-hashes \
    -r requirements/runtime.txt \
  && find /opt/gpu-scheduler/bin -type f -delete \
  && rm -r /opt/gpu-scheduler/lib/python3*/site-packages/cel_expr_python/ext
# The compiler of the .proto files, for this stage's own Python; it does not reach the image.
COPY requirements/protoc.txt requirements/
RUN pip install --require-hashes -r requirements/protoc.txt
COPY scheduler scheduler
COPY webhook webhook
COPY gpucheck gpucheck
COPY fakegpu fakegpu
RUN python -m grpc_tools.protoc --proto_path=. --python_out=. fakegpu/kubelet/*.proto
# Our own folders are copied as they are: no build tool has to be trusted for that. Compiled here,
# because nothing can be written later; whatever the times of the files become on their way, what
# is compiled stays valid.
RUN site="$(/opt/gpu-scheduler/bin/python -c 'import site; print(site.getsitepackages()[0])')" \
  && rm -rf webhook/deploy webhook/scripts \
  && cp -r scheduler webhook gpucheck fakegpu "$site" \
  && /opt/gpu-scheduler/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    /opt/gpu-scheduler

FROM ${PYTHON} AS base
COPY LICENSE /LICENSE
COPY --from=build /opt/gpu-scheduler /opt/gpu-scheduler
ENV PATH=/opt/gpu-scheduler/bin:/usr/local/bin:/usr/bin:/bin \
  PYTHONDONTWRITEBYTECODE=1 \
  PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
ENTRYPOINT ["python", "-m"]

FROM base AS gpu-scheduler-check
CMD ["gpucheck"]

# The last stage is the one that is built without --target.
FROM base AS gpu-scheduler
COPY --from=nvidia-smi /nvidia-smi /usr/local/bin/nvidia-smi
EXPOSE 8080 8443 8444
CMD ["scheduler"]
