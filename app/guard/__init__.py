"""The poison guard: attempts that survive every crash, narrowing down to one message, and the quarantine.

attempts     the tables: what is in progress, what is suspected            (on a connection of its own)
narrowing    pure: cutting an epoch along the suspects
lost_time    how long what is suspected has kept the lane
guard        one lane's guard: begin, count, condemn
overview     the same tables as an operator reads them
quarantine   where condemned messages are kept                             (in the epoch's own transaction)
dead_letter  copies of them for a topic                                    (after the epoch, by another thread)
"""
