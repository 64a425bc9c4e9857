"""The death of a stage process, as the error of a caller that waits for its answer."""

from app.errors import ExitStatus, SurelaneError, Verdict
from app.model.death import Death


class TaskDied(SurelaneError):
    """A stage process died while it worked on a request."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.ENVIRONMENT

    def __init__(self, death: Death) -> None:
        super().__init__(f"a stage process died: {death}", hint="nothing: it is asked of another one")
        self.death = death
