"""The error that ends a demo before its checks run."""

from app.errors import SurelaneError


class DemoFailed(SurelaneError):
    """The demo could not run to its end."""
