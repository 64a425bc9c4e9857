"""The activity of a lane's thread on its span in progress; evidence for the guard after a death."""

import enum


class Activity(enum.StrEnum):
    """One step of the work on a span."""

    FETCH = "fetch"  #: waits for Kafka or the archive
    DECODE = "decode"  #: reads the bytes of the messages, in this process or in Spark's tasks
    FUNCTION = "function"  #: runs the user's function
    ARRANGE = "arrange"  #: orders the rows
    SERVER = "server"  #: waits for a database


#: activities in which a message can cause a failure; in the others the process waits for another machine
OWN_WORK = frozenset({Activity.DECODE, Activity.FUNCTION, Activity.ARRANGE})
