"""Ask this machine's lane whether it is well, for a container's HEALTHCHECK: without Spark, settings or any library.

    python -m app.healthcheck             /healthz: nothing is broken that a restart would mend
    python -m app.healthcheck /readyz     every lane applies messages

Ends with status 0 or 1 and says why. The port is SURELANE_METRICS__PORT, which the image sets: no file
changes it.
"""

import http.client
import os
import sys

TIMEOUT_SECONDS = 5


def ask(port: int, path: str) -> tuple[bool, str]:
    """Whether it is well, and the words for it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == http.client.OK, answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return False, f"nobody answers on port {port}: {error}"
    finally:
        connection.close()


def main(path: str = "/healthz") -> int:
    """The exit status; the words go to stdout, where the container engine keeps them."""
    port = os.environ.get("SURELANE_METRICS__PORT", "")
    if not port.isdigit() or port == "0":
        print(f"SURELANE_METRICS__PORT is {port or 'not set'}: nothing to ask; switch the check off, or give it a port")
        return 1
    well, words = ask(int(port), path)
    print(words)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
