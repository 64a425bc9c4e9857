"""The JVM that a lane needs. This module imports nothing that takes long, so that it can be started first."""

from app.config.credentials import variables_with_secrets
from app.config.settings import SecurityProtocol, Settings
from app.jars import jars
from app.java import java_home
from app.spark.jvm import Jvm, start_jvm
from app.spark.session_options import options


def start_lanes_jvm(settings: Settings) -> Jvm:
    """With the jars that it needs to come to its source. It does not get what the environment holds of secrets."""
    home, told = java_home(), settings.spark
    more = jars("msk") if settings.source.security.protocol is SecurityProtocol.MSK_IAM else []
    asked = options(settings.lane, told.master, told.conf, home, jars("spark"), more=more)
    return start_jvm(asked, home, hidden=variables_with_secrets(settings))
