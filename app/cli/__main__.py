"""`python -m app.cli` is the command `surelane`."""

import gc

from app.skipped_imports import have_structlog_skip_rich


def start() -> None:
    gc.disable()  # until the verb is imported
    have_structlog_skip_rich()
    from app.cli.main import main

    main()


start()
