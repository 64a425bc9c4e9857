"""The quarantine: keeps condemned messages in the target, in the epoch's transaction, and the changes that follow them.

quarantine         the tables: an entry is quarantined or parked, then released, discarded or superseded
skipped_message    one condemned message
epoch_skips        the messages that one epoch skips, with later changes of the same keys
parked_keys        keys that have open entries
quarantine_writer  writes the entries of one writer, within the limits of the breaker
releases           applies entries after all, when an operator requests it
dead_letter        copies entries to a topic                               (after the epoch, in another thread)
redacted_text      what of a message may be shown
"""
