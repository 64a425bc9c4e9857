"""What ends a demo before it can be judged."""

from app.errors import SurelaneError


class DemoFailed(SurelaneError):
    """The demo could not be played to its end."""
