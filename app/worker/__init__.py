"""The worker process: keeps the lanes of one configuration running until it is told to stop."""
