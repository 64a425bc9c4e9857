"""What a lane's thread is doing with the span that is in progress; a death is weighed by it."""

import enum


class Activity(enum.StrEnum):
    """One step of the work on a span."""

    FETCH = "fetch"  #: waits for Kafka, or for the archive
    DECODE = "decode"  #: reads the bytes of the messages, in this process or in Spark's tasks
    FUNCTION = "function"  #: runs the user's function
    ARRANGE = "arrange"  #: puts the rows in order
    SERVER = "server"  #: waits for an answer of a database


#: a message can be the cause of what happens now; in the others the process waits for somebody else's machine
OWN_WORK = frozenset({Activity.DECODE, Activity.FUNCTION, Activity.ARRANGE})
