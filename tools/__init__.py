"""What is run from a checkout and is no part of the service: local servers, demo, benchmarks, lock files."""
