"""What Prometheus scrapes and what a health check asks. `families` names every metric."""
