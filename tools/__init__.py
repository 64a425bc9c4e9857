"""Development tools that run from a checkout, outside the service: local servers, demo, benchmarks, lock files."""
