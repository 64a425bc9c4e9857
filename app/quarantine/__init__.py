"""The quarantine: condemned messages, kept in the target in the epoch's own transaction, and what follows from a skip.

quarantine         the tables: a message is held, released, discarded, or parked behind an earlier one of its key
skipped_message    one condemned message
epoch_skips        what is skipped of one epoch, later changes of the same keys among them
parked_keys        keys that have open entries
quarantine_writer  writes the entries of one writer, within the limits of the breaker
releases           applies entries after all, because an operator requested it
dead_letter        copies for a topic                                      (after the epoch, by another thread)
redacted_text      what may be shown of a message
"""
