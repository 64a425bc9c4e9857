"""The command line: one verb a file. What fails is raised as an error of `app.errors` and printed once, in `main`."""
