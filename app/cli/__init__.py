"""The command line: one verb a file. Failures are raised as errors of `app.errors`, and `main` prints them once."""
