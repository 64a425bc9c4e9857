"""The death of a stage process, for whoever waits for its answer."""

from app.errors import ExitStatus, SurelaneError, Verdict
from app.model.death import Death


class TaskDied(SurelaneError):
    """A stage process has died over what it was asked for."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.ENVIRONMENT

    def __init__(self, death: Death) -> None:
        super().__init__(f"a stage process died: {death}", hint="nothing: it is asked of another one")
        self.death = death
