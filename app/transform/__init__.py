"""Code of the user's own between decoding and applying: `transform` in the configuration, a function over `Change`."""

from app.transform.change import Change

__all__ = ["Change"]
