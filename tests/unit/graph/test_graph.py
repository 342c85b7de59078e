"""Pictures of topologies: what they show, that other programs can read them, that no name does harm."""

import html.parser
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.declare.graph.dot import dot, quoted
from amqpkit.declare.graph.layout import layout
from amqpkit.declare.graph.mermaid import mermaid
from amqpkit.declare.graph.page import page, svg
from amqpkit.declare.graph.picture import Line, Shape, picture
from amqpkit.declare.load import load_topology
from amqpkit.model import Binding, Exchange, Policy, Queue, Route, Topology

ROOT = Path(__file__).parents[3]
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"]; click n0 "javascript:alert(1)"',
    '" onmouseover="alert(1)',
    "a\\",
    'a"b',
    "a\nb\r\n  end",
    "%%{init: {}}%%",
    "<!--",
    "]]>",
    "Größe 10€ 東京 🐇",
    "#quot;",
    "end",
    "|x|",
    "`x`",
    "\u202ereversed",
    "&lt;b&gt;",
]
# One line of the Mermaid that we write: every text is in quotes and holds no quote, no markup and no new line.
TEXT = r'"[^"<>`{}|\[\]()\\\n]*(?:<br/><i>[^"<>`{}|\[\]()\\\n]*</i>)?"'
MERMAID = re.compile(
    rf"flowchart LR|  (  )?n\d+(\[{TEXT}\]|\(\[{TEXT}\]\)|\{{\{{{TEXT}\}}\}}|\[/{TEXT}/\]|\[\({TEXT}\)\])"
    rf"|  subgraph g\d+\[{TEXT}\]|  end|  n\d+ (-->|-\.->|==>|<-->)(\|{TEXT}\|)? n\d+"
    r"|  classDef [a-z]+ [-a-z0-9#:,]+|  class n\d+(,n\d+)* [a-z]+"
)


def topology(*names: str) -> Topology:
    """Everything that can be drawn, with these names."""
    first, second = names[0], names[-1]
    return Topology(
        exchanges=(
            Exchange(first, "topic", arguments={"alternate-exchange": second}),
            Exchange(f"{first}2", "headers"),
        ),
        queues=(
            Queue(first, arguments={"x-dead-letter-exchange": second, "x-dead-letter-routing-key": first}),
            Queue(f"{first}3", "classic", arguments={"x-message-ttl": 5, "x-dead-letter-exchange": ""}),
        ),
        bindings=(
            Binding(first, first, second),
            Binding(first, f"{first}2", "", "exchange"),
            Binding(f"{first}2", second, arguments={second: first}),
        ),
        routes={first: Route(first, second), second: Route("", first)},
    )


def shop() -> Topology:
    return load_topology(ROOT / "topology" / "shop.yaml")


def test_a_work_queue_is_drawn_with_its_ladder_and_without_what_is_between():
    drawn = picture(shop())

    group = [(box.shape, box.name) for box in drawn.boxes if box.group == "email.send"]
    assert group == [
        (Shape.WORK, "email.send"),
        (Shape.DELAY, "2s"),
        (Shape.DELAY, "10s"),
        (Shape.DELAY, "1m"),
        (Shape.DEAD, "email.send.dlq"),
    ]
    lines = {(arrow.line, arrow.target[1]) for arrow in drawn.arrows if arrow.source == ("queue", "email.send")}
    assert lines == {
        (Line.RETRY, "email.send.retry.2s"),
        (Line.RETRY, "email.send.retry.10s"),
        (Line.RETRY, "email.send.retry.1m"),
        (Line.DEAD, "email.send.dlq"),
    }
    assert not [box for box in drawn.boxes if box.name in {"email.send.retry", "email.send.dlx"}]


def test_a_broker_is_drawn_as_its_file_is_but_for_what_only_the_file_says():
    compiled = shop()
    read = Topology(compiled.exchanges, compiled.queues, compiled.bindings, compiled.policies)

    from_file, from_broker = picture(compiled), picture(read)

    without_messages = [box.key for box in from_file.boxes if box.shape is not Shape.MESSAGE]
    assert [box.key for box in from_broker.boxes] == without_messages
    assert [arrow for arrow in from_file.arrows if arrow.line is not Line.PUBLISH] == list(from_broker.arrows)


def test_what_is_named_and_not_declared_is_drawn_as_missing():
    drawn = picture(Topology(queues=(Queue("q", arguments={"x-dead-letter-exchange": "nope"}),)))

    assert [(box.name, box.shape) for box in drawn.boxes] == [("q", Shape.QUEUE), ("nope", Shape.MISSING)]


def test_an_exchange_of_rabbitmqs_own_is_not_missing():
    drawn = picture(Topology(queues=(Queue("q"),), bindings=(Binding("amq.topic", "q", "a"),)))

    assert [(box.name, box.shape) for box in drawn.boxes] == [("q", Shape.QUEUE), ("amq.topic", Shape.EXCHANGE)]


def test_settings_of_policies_are_drawn_too():
    policies = (
        Policy("d", "^q$", {"dead-letter-exchange": "x"}, "queues", 1),
        Policy("a", "^e$", {"alternate-exchange": "x"}, "exchanges", 1),
    )
    drawn = picture(Topology((Exchange("e"), Exchange("x")), (Queue("q"),), (), policies))

    assert [(arrow.source[1], arrow.target[1], arrow.line) for arrow in drawn.arrows] == [
        ("e", "x", Line.ALTERNATE),
        ("q", "x", Line.DEAD),
    ]


def test_bindings_between_the_same_two_are_one_arrow():
    drawn = picture(Topology((Exchange("e"),), (Queue("q"),), (Binding("e", "q", "a"), Binding("e", "q", "b"))))

    assert [arrow.label for arrow in drawn.arrows] == ["a, b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_mermaid_has_lines_of_few_kinds_whatever_the_names(name):
    for line in (
        mermaid(picture(topology(name, "other"))).splitlines() + mermaid(picture(topology("x", name))).splitlines()
    ):
        assert MERMAID.fullmatch(line), line


@pytest.mark.parametrize("name", HOSTILE)
def test_html_and_svg_hold_only_our_own_elements_whatever_the_names(name):
    class Seen(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.attributes, self.scripts = set(), set(), 0

        def handle_starttag(self, tag, attrs):
            self.tags.add(tag)
            self.attributes.update(key for key, _ in attrs)
            self.scripts += tag == "script"
            for key, value in attrs:
                assert key not in {"src", "href"} or value is None, (key, value)

    drawn = picture(topology(name, f"{name}!"))
    seen = Seen()
    seen.feed(page(drawn, name))

    assert seen.scripts == 1
    assert seen.tags <= {
        *("html", "head", "meta", "title", "style", "body", "header", "h1", "input", "script"),
        *("svg", "defs", "marker", "path", "rect", "g", "text"),
    }
    assert not [key for key in seen.attributes if key.startswith("on")]
    ET.fromstring(svg(drawn))  # noqa: S314 - our own, and it must be well-formed


def test_a_page_asks_nobody_for_anything():
    text = page(picture(shop()), "shop")

    assert set(re.findall(r"https?://[^\"' <]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#head-[a-z]+\)", "", text)


@given(text=st.text())
@settings(max_examples=50, deadline=None)
def test_quoted_text_ends_where_it_should(text):
    found = quoted(text)

    assert re.fullmatch(r'"(?:[^"\\]|\\\\|\\")*"', found)
    assert "\n" not in found


def test_no_two_boxes_overlap():
    spots = list(layout(picture(load_topology(ROOT / "topology" / "examples" / "full.yaml"))).spots.values())

    for at, one in enumerate(spots):
        for other in spots[at + 1 :]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y


def test_exchanges_in_a_circle_can_be_laid_out():
    bindings = (Binding("a", "b", "", "exchange"), Binding("b", "a", "", "exchange"), Binding("b", "q"))

    assert layout(picture(Topology((Exchange("a"), Exchange("b")), (Queue("q"),), bindings))).spots


def test_the_picture_in_the_documentation_is_the_shop_s():
    drawn = (ROOT / "docs" / "shop.mmd").read_text(encoding="utf-8")

    assert drawn == mermaid(picture(shop())), "anew: amqpkit graph topology/shop.yaml --out docs/shop.mmd --force"


def test_thousands_of_queues_are_drawn():
    queues = tuple(Queue(f"q{number}") for number in range(3_000))
    bindings = tuple(Binding("e", queue.name, queue.name) for queue in queues)
    large = Topology((Exchange("e", "topic"),), queues, bindings)

    assert mermaid(picture(large)).count("\n") > 6_000
    assert dot(picture(large)).count(" -> ") == 3_000
