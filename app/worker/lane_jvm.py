"""The JVM of a lane. This module has no slow imports, so that the JVM can start first."""

from app.config.credentials import variables_with_secrets
from app.config.settings import SecurityProtocol, Settings
from app.jars import jars
from app.java import java_home
from app.spark.jvm import Jvm, start_jvm
from app.spark.session_options import options
from app.spark.state_options import ALLOCATION, state_options


def start_lanes_jvm(settings: Settings) -> Jvm:
    """Start the JVM with the jars of its source, without the environment variables that may contain secrets."""
    home, config = java_home(), settings.spark
    more = jars("msk") if settings.source.security.protocol is SecurityProtocol.MSK_IAM else []
    query = settings.query
    conf = config.conf if query is None else {**state_options(query.state), **config.conf}
    spark_options = options(
        settings.lane, config.master, conf, home, jars("spark"), more=more, computes=query is not None
    )
    memory = {} if query is None else ALLOCATION
    return start_jvm(spark_options, home, hidden=variables_with_secrets(settings), defaults=memory)
