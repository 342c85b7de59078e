"""The brokers that every other test relies on are what they claim to be."""

import pika
import pytest

from tests.containers.brokers import Broker


def round_trip(broker: Broker) -> bytes | None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_publish("", "q", b"hello", mandatory=True)
    _, _, body = channel.basic_get("q", auto_ack=True)
    connection.close()
    return body


def test_a_message_goes_through_each_broker(broker):
    assert round_trip(broker) == b"hello"


def test_the_version_is_the_one_that_was_asked_for(broker):
    if broker.id in {"4.3", "4.0"} and broker.image.startswith("amqpkit-test-rabbitmq"):
        assert broker.version.startswith(f"{broker.id}.")
    assert broker.release >= (4, 0)


def test_the_virtual_host_is_empty_and_the_tests_own(broker):
    assert broker.http("GET", f"queues/{broker.vhost}") == (200, [])
    assert broker.vhost != "/"


def test_a_dead_letter_publish_is_repeated_after_two_seconds_and_not_after_three_minutes(broker):
    if broker.container is None:
        pytest.skip("settings of a given broker cannot be read")
    for key, value in {"dead_letter_worker_publisher_confirm_timeout": "2000", "channel_tick_interval": "1000"}.items():
        assert broker.exec("rabbitmqctl", "eval", f"application:get_env(rabbit, {key}).").strip() == f"{{ok,{value}}}"


def test_connections_are_closed_as_an_operator_would(broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    assert broker.close_connections() == 1

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(time_limit=10)


def test_a_shared_broker_cannot_be_stopped_by_one_test(broker):
    with pytest.raises(RuntimeError, match="own_broker"):
        broker.pause()


def test_ones_own_broker_survives_a_restart_a_pause_and_a_kill_on_the_same_ports(own_broker):
    round_trip(own_broker)
    own_broker.pause()
    own_broker.unpause()
    own_broker.restart_app()
    own_broker.kill()
    own_broker.start()

    assert round_trip(own_broker) == b"hello"
