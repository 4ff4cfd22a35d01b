"""Spans for OpenTelemetry, where OTEL_ENDPOINT names a collector; elsewhere they cost a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


@cache
def _tracer() -> Any:
    """Made in the process that uses it, since its thread does not survive a fork. ImproperlyConfigured without the packages."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ImproperlyConfigured(f"OTEL_ENDPOINT is set and {error.name} is missing: pip install {PACKAGES}") from error
    provider = TracerProvider(resource=Resource.create({"service.name": "stitchweb"}))
    exporter = OTLPSpanExporter(endpoint=f"{settings.OTEL_ENDPOINT.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return trace.get_tracer("stitchweb")


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[None]:
    """A span around the block, with attributes such as `run` and `step`."""
    if not settings.OTEL_ENDPOINT:
        yield
        return
    with _tracer().start_as_current_span(name, attributes={f"stitchweb.{key}": value for key, value in attributes.items()}):
        yield
