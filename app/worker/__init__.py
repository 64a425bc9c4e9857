"""The worker process: runs the lanes of one configuration until a stop request."""
