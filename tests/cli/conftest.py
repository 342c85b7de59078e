"""What the tests of commands share."""

import pytest


@pytest.fixture
def user(broker):
    """Make users with the password `se/cret` on this vhost; each is given as the front of a URL."""
    made = []

    def make(tags, permission=".*", configure=None):
        name = f"{broker.vhost}-{len(made)}"
        made.append(name)
        broker.http("PUT", f"users/{name}", {"password": "se/cret", "tags": tags})
        rights = {"configure": configure or permission, "write": permission, "read": permission}
        broker.http("PUT", f"permissions/{broker.vhost}/{name}", rights)
        return f"{name}:se%2Fcret"

    yield make
    for name in made:
        broker.http("DELETE", f"users/{name}")


@pytest.fixture
def urls(broker):
    """Give the options that name the broker, as a user or as the tests' own administrator."""

    def of(credentials=None):
        if credentials is None:
            return ["--url", broker.url, "--api", broker.api]
        url, api = (
            f"{each.partition('://')[0]}://{credentials}@{each.rpartition('@')[2]}" for each in (broker.url, broker.api)
        )
        return ["--url", url, "--api", api]

    return of
