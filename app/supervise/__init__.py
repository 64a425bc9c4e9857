"""Supervise: keep a lane running. Opens it, watches it, and opens it again after what a retry can mend."""
