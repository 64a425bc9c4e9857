"""The container's HEALTHCHECK: send a health request to the lane on this machine, without Spark, settings or libraries.

    python -m app.healthcheck             /healthz: no failure that a restart would repair
    python -m app.healthcheck /readyz     every lane applies messages

Exits with status 0 or 1 and prints the reason. The port is SURELANE_METRICS__PORT, which the image sets: no
configuration file overrides it. SURELANE_HEALTH_PORT goes before it, for a container that runs something else: the
console.
"""

import http.client
import os
import sys

TIMEOUT_SECONDS = 5


def ask(port: int, path: str) -> tuple[bool, str]:
    """Whether the lane is healthy, and the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == http.client.OK, answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer on port {port}: {error}"
    finally:
        connection.close()


def main(path: str = "/healthz") -> int:
    """Returns the exit status; prints the reason to stdout, which the container engine keeps."""
    port = os.environ.get("SURELANE_HEALTH_PORT") or os.environ.get("SURELANE_METRICS__PORT", "")
    if not port.isdigit() or port == "0":
        print(f"SURELANE_METRICS__PORT is {port or 'not set'}: nothing to ask; switch the check off, or give it a port")
        return 1
    well, words = ask(int(port), path)
    print(words)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
