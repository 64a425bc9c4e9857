"""`python -m tools.cli VERB`, which `./run VERB` calls."""

from app.cli.main import main
from tools.cli.main import app

main(app, "./run")
