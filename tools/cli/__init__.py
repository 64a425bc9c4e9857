"""The verbs of `./run` that are no part of the service, one module each."""
