"""The verbs of `./run` outside the service, one module each."""
