"""Metrics for Prometheus and health checks. `families` defines every metric."""
