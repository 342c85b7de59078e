"""Where a broker is, and that no secret leaves with an error."""

import pytest

from amqpkit.brokers.url import BrokerURL, Location, ManagementURL
from amqpkit.errors import BrokerError


@pytest.mark.parametrize(
    ("text", "user", "password", "vhost"),
    [
        ("amqp://svc:p%40ss%2Fw%23rd%251%3Fx@127.0.0.1:5673/cases", "svc", "p@ss/w#rd%1?x", "cases"),
        ("amqp://us+er:a+b@127.0.0.1:5673/cases", "us+er", "a+b", "cases"),
        ("amqp://u:p@host", "u", "p", "/"),
        ("amqp://u:p@host/", "u", "p", "/"),
        ("amqp://u:p@host/%2F", "u", "p", "/"),
        ("amqp://u:p@host//", "u", "p", "/"),
        ("amqp://u:p@host/team%2Forders", "u", "p", "team/orders"),
        ("amqp://u:p@host/50%25%20a", "u", "p", "50% a"),
        ("amqp://host/v", "guest", "guest", "v"),
        ("amqp://u:@host/v", "u", "", "v"),
    ],
)
def test_an_amqp_url_is_decoded_once(text, user, password, vhost):
    url = BrokerURL.parse(text)

    assert (url.location.user, url.location.password, url.vhost) == (user, password, vhost)
    assert BrokerURL.parse(url.text) == url


@pytest.mark.parametrize(
    "text",
    [
        "amqp://svc:p@ss/w#rd%1@127.0.0.1:5673/cases",
        "amqp://svc:p#ss@host/v",
        "amqp://svc:p/ss@host/v",
        "amqp://svc:p?ss@host/v",
        "amqp://svc:pss%@host/v",
        "amqp://svc:pss@host:port/v",
        "amqp://svc:pss@host:70000/v",
        "amqp://svc:pss@[host/v",
        "amqp://svc:pss@host/a/b",
        "http://svc:pss@host/",
        "svc:pss@host",
        "amqp://",
        "",
    ],
)
def test_a_url_that_does_not_read_cleanly_is_refused_without_its_secret(text):
    with pytest.raises(BrokerError) as caught:
        BrokerURL.parse(text)

    assert "ss" not in str(caught.value).replace("password", "")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("written", ["x", "", "-1", "1.5", "10s", "٣", "65536", "5&heartbeat=x"])
def test_a_heartbeat_that_is_no_number_of_seconds_is_refused_without_the_url(written):
    with pytest.raises(BrokerError, match=r"^the heartbeat in the AMQP URL must be whole seconds, 0 to 65535$"):
        BrokerURL.parse(f"amqp://u:p@host/v?cafile=a.pem&heartbeat={written}")


@pytest.mark.parametrize("written", ["0", "60", "65535"])
def test_a_heartbeat_in_the_url_is_kept(written):
    assert BrokerURL.parse(f"amqp://u:p@host/v?heartbeat={written}").options == f"heartbeat={written}"


def test_the_management_api_is_where_rabbitmq_has_it():
    assert BrokerURL.parse("amqp://u:p%40@host:5673/v").api == "http://u:p%40@host:15672"
    assert BrokerURL.parse("amqps://u:p@[::1]/v").api == "https://u:p@[::1]:15671"


@pytest.mark.parametrize(
    ("text", "base", "port"),
    [
        ("http://u:p@host:15672", "http://host:15672/api", 15672),
        ("http://u:p@host:15672/api/", "http://host:15672/api", 15672),
        ("https://u:p@host/rabbit/", "https://host:443/rabbit/api", 443),
        ("http://[::1]:1/", "http://[::1]:1/api", 1),
    ],
)
def test_a_management_url_may_have_a_prefix_and_the_api(text, base, port):
    url = ManagementURL.parse(text)

    assert (url.base, url.location.port) == (base, port)


def test_passwords_show_in_no_repr():
    assert "secret" not in repr(BrokerURL.parse("amqp://u:secret@host/v"))
    assert "secret" not in repr(Location("host", 1, tls=False, user="u", password="secret"))
