"""The driver's side of staging: which stage process gets which span, with which tables, and what comes back.

    pool          the connected stage processes; requests to them and their answers
    lane_stage    the spans of one lane: staged ahead, taken at their turn
    lending       staging tables, lent to one attempt at a time
    ahead         how many bytes may be staged ahead

The task's side is `app.stage`, with the messages between both (`request`, `receipt`).
"""
