"""What pika's exceptions mean to us; their texts are as measured."""

import ssl

import pika
import pytest
from pika import exceptions as amqp
from pika.adapters.utils.connection_workflow import AMQPConnectionWorkflowFailed, AMQPConnectorSocketConnectError

from amqpkit.brokers.blame import Loss
from amqpkit.brokers.blocking import faults
from amqpkit.brokers.blocking.wire import Address
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import AccessRefused, ConnectionFailed


def closed(code, text):
    return repr(amqp.ConnectionClosedByBroker(code, text))


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (amqp.ProbableAuthenticationError(closed(403, "ACCESS_REFUSED - Login was refused")), AccessRefused, '"me"'),
        (amqp.ProbableAccessDeniedError(closed(530, "NOT_ALLOWED - vhost v not found")), AccessRefused, 'vhost "v"'),
        (amqp.ProbableAccessDeniedError(closed(530, "NOT_ALLOWED - vhost 'v' is down")), ConnectionFailed, "is down"),
        (amqp.ProbableAccessDeniedError(closed(530, "connection limit (1)")), ConnectionFailed, "limit"),
        # a connection that is cut while we log in is no refusal
        (amqp.ProbableAuthenticationError(repr(amqp.StreamLostError("EOF"))), ConnectionFailed, "EOF"),
        (
            amqp.AMQPConnectionError(
                AMQPConnectionWorkflowFailed([AMQPConnectorSocketConnectError(ConnectionRefusedError(111, "refused"))])
            ),
            ConnectionFailed,
            "refused",
        ),
        (amqp.ConnectionOpenAborted('closed: "Timeout while setting up AMQP"'), ConnectionFailed, "does not answer"),
        (AMQPConnectionWorkflowFailed([OSError(-2, "Name or service not known")]), ConnectionFailed, "not known"),
    ],
)
def test_what_keeps_a_connection_from_standing_is_named(error, kind, says):
    named = faults.connecting(error, "host:1", "v", "me")

    assert type(named) is kind
    assert says in str(named)
    assert "host:1" in str(named)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (amqp.ChannelClosedByBroker(404, "NOT_FOUND - no exchange"), Loss(404, "NOT_FOUND - no exchange")),
        (amqp.ConnectionClosedByBroker(320, "CONNECTION_FORCED"), Loss(320, "CONNECTION_FORCED")),
        (amqp.AMQPHeartbeatTimeout("no heartbeats"), Loss(0, "the broker has been silent for too long")),
        (amqp.StreamLostError("reset"), Loss(0, "reset")),
        (None, Loss(0, "closed")),
    ],
)
def test_how_a_channel_or_connection_ended(error, expected):
    assert faults.loss(error) == expected


def parameters(url):
    return Address(BrokerURL.parse(url), "mailer", 10, 5.0).parameters("publish")


def test_the_url_says_where_who_and_how():
    made = parameters("amqp://me:p%40ss@host:1234/v%2Fw?heartbeat=3")

    assert (made.host, made.port, made.virtual_host, made.heartbeat) == ("host", 1234, "v/w", 3)
    assert (made.credentials.username, made.credentials.password) == ("me", "p@ss")
    assert made.client_properties == {"connection_name": "mailer publish"}
    assert parameters("amqp://h").heartbeat == 10
    assert "p@ss" not in repr(made)


def test_tls_verifies_unless_the_url_says_otherwise():
    strict = parameters("amqps://host").ssl_options
    lax = parameters("amqps://host?no_verify_ssl=1").ssl_options

    assert isinstance(strict, pika.SSLOptions)
    assert (strict.context.verify_mode, strict.context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert strict.server_hostname == "host"
    assert (lax.context.verify_mode, lax.context.check_hostname) == (ssl.CERT_NONE, False)
    assert parameters("amqp://host").ssl_options is None
