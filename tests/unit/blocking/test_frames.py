"""A publisher's frames, with pamqp as the second opinion on their bytes."""

import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from amqpkit.brokers.aio.codec import Encoded
from amqpkit.brokers.blocking.frames import Confirm, Returned, Sieve, publish
from amqpkit.brokers.encoding import encode, short
from amqpkit.model import Properties

ACK, NACK = Basic.Ack, Basic.Nack


def wire(channel, *frames):
    return b"".join(pamqp.frame.marshal(frame, channel) for frame in frames)


def returned(message_id, body=b"body", **properties):
    header = ContentHeader(
        body_size=len(body), properties=Encoded(encode(Properties(message_id=message_id, **properties)))
    )
    bodies = [ContentBody(body[at : at + 2]) for at in range(0, len(body), 2)]
    return [Basic.Return(312, "NO_ROUTE", "", "k"), header, *bodies]


@given(st.binary(max_size=50), st.integers(1, 20), st.booleans())
def test_a_publish_is_the_bytes_that_pamqp_makes_of_it(body, room, mandatory):
    properties = encode(Properties(message_id="m", headers={"double": 0.1}))

    pieces = publish(7, short("e", "exchange"), short("k", "Grüße"), properties, body, mandatory=mandatory, room=room)

    class Unchecked(Basic.Publish):
        def validate(self):
            """Let any key pass."""

    bodies = [ContentBody(body[at : at + room]) for at in range(0, len(body), room)]
    header = ContentHeader(body_size=len(body), properties=Encoded(properties))
    assert b"".join(pieces) == wire(7, Unchecked(0, "exchange", "Grüße", mandatory), header, *bodies)


WORDS = [
    (Basic.Ack(5), Confirm(5, multiple=False, taken=True)),
    (Basic.Ack(2**40, multiple=True), Confirm(2**40, multiple=True, taken=True)),
    (Basic.Nack(6, multiple=True), Confirm(6, multiple=True, taken=False)),
    (Basic.Nack(7), Confirm(7, multiple=False, taken=False)),
]


@given(st.data())
def test_words_are_taken_out_wherever_the_stream_is_cut_and_the_rest_is_left_in_order(data):
    sieve = Sieve()
    sieve.claim(3)
    expected, ours, foreign, stream = [], 0, b"", b""
    for choice in data.draw(st.lists(st.integers(0, 6), max_size=8)):
        if choice < 4:
            frame, word = WORDS[choice]
            piece = wire(3, frame)
            expected.append(word)
            ours += len(piece)
        elif choice == 4:
            piece = wire(3, *returned("m-1", headers={"h": "x" * 9}, correlation_id="c", expiration="9"))
            expected.append(Returned("m-1"))
            ours += len(piece)
        else:
            piece = wire(0, Heartbeat()) if choice == 5 else wire(4, Basic.Ack(9))
            foreign += piece
        stream += piece
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    words, rest, taken = [], b"", 0
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        some, left = sieve.sift(stream[begin:end])
        words += some
        rest += left
        taken += sieve.taken

    assert (words, rest, taken) == (expected, foreign, ours)


def test_a_method_that_is_no_word_to_a_publisher_is_left_for_pika():
    sieve = Sieve()
    sieve.claim(3)
    close = wire(3, pamqp.frame.commands.Channel.Close(404, "NOT_FOUND", 60, 40))

    assert sieve.sift(close) == ([], close)


@pytest.mark.parametrize("greeting", [b"AMQP\x00\x00\x09\x01", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_speaks_another_protocol_is_left_for_pika_to_complain_about(greeting):
    sieve = Sieve()

    assert sieve.sift(greeting) == ([], greeting)
    assert sieve.sift(b"more") == ([], b"more")


def test_a_returned_message_without_an_id_is_told_without():
    sieve = Sieve()
    sieve.claim(1)

    assert sieve.sift(wire(1, *returned(None, b"", content_type="text/plain", priority=3)))[0] == [Returned("")]


def test_the_header_of_a_returned_message_is_not_decoded():
    sieve = Sieve()
    sieve.claim(1)
    odd = encode(Properties(message_id="m", headers={"h": "x"})).replace(b"\x01hS", b"\x01h?")

    header = wire(1, ContentHeader(body_size=0, properties=Encoded(odd)))

    assert sieve.sift(header)[0] == [Returned("m")]
