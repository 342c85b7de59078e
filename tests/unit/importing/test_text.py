"""What is written is read back as it was, whatever it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.declare.importing.text import comment, scalar, to_text
from amqpkit.declare.spec.document import read
from amqpkit.declare.spec.tree import plain

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXT)
VALUE = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
MISREAD = ["on", "No", "1e3", "null", "~", "", " ", "0x1F", "1_000", ".5", "1.", "-", "- a", "#", "a #b", "a: b", "yes"]
MISREAD += ["<<", "=", "*a", "&a", "!a", "|", ">", "%", "@", "`", "${HOME}", "$${A}", "2026-01-02", "12:30:45", "{a}"]
MISREAD += ["'", '"', "\\", "\x00", "\u0085", "\u2028", "\ufeff", "\x7f", "\U0001f600", "очередь", "a\nb", "0o7", "1m"]


def back(document):
    root, faults = read("f", 0, to_text(document), {})
    assert faults == []
    return plain(root)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(TEXT, st.dictionaries(TEXT, st.dictionaries(TEXT, VALUE, max_size=3), max_size=3), min_size=1))
def test_whatever_is_written_is_read_back(document):
    assert back(document) == document


@pytest.mark.parametrize("text", MISREAD)
def test_what_yaml_could_misread_is_text_as_name_and_as_value(text):
    document = {"queues": {text: {"arguments": {text: text, "list": [text]}, "bindings": [{"source": text}]}}}

    assert back(document) == document


@pytest.mark.parametrize("number", [1.5, -2.5e-7, 1e300, 3.0])
def test_a_real_number_stays_one(number):
    found = back({"queues": {"a": {"arguments": {"n": number}}}})["queues"]["a"]["arguments"]["n"]

    assert (found, type(found)) == (number, float)


@pytest.mark.parametrize(
    ("value", "written"), [("email.send", "email.send"), ("a/b", "a/b"), ("30s", "30s"), ("#", '"#"')]
)
def test_what_needs_no_quotes_has_none(value, written):
    assert scalar(value) == written


def test_the_source_of_an_import_cannot_end_its_comment():
    assert comment("a\nexchanges: {}") == '"a\\nexchanges: {}"'
