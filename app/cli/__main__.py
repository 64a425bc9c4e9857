"""`python -m app.cli` is the command `surelane`."""

from app.cli.main import main

main()
