"""A server that hangs up between connect and first use must not end the loop."""

import socket

from amqpkit.brokers.blocking.wire import Loop, Services


def test_a_socket_that_is_lost_at_once_is_told_of_and_ends_no_loop():
    loop = Loop()
    lost = socket.socket()  # never connected: getpeername fails as it does after a hang-up
    heard: list[object] = []

    def done(result: object) -> None:
        heard.append(result)
        loop.stop()

    Services(loop).create_streaming_connection(object, lost, done)
    loop.call_later(5, loop.stop)
    loop.start()
    loop.close()

    (error,) = heard
    assert isinstance(error, ConnectionAbortedError)
    assert lost.fileno() == -1
