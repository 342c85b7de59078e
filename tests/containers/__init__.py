"""How the tests get a RabbitMQ: a given one, or containers; engine and images are made where there are none."""

import os

# The one place for testcontainers' switches; it reads them when it is imported. Its reaper is one more image from a
# registry that may not answer (what a killed run leaves is swept by the next), and inside a container it would look for
# brokers at the gateway, where ports bound to loopback are not.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
os.environ["TESTCONTAINERS_CONNECTION_MODE"] = "docker_host"
