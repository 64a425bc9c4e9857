"""User code between decoding and applying: SQL for a table (`sql`), and a function over `Change` (`transform`)."""

from app.transform.change import Change

__all__ = ["Change"]
