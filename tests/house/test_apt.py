"""The Debian mirror is the machine's own, whichever way its apt was told."""

import pytest

from tests.containers.apt import NoMirrorError, Source, codename, deb822, mirror, one_line, sources

ONE_LINE = """\
# deb http://commented.example/debian trixie main
deb http://mirror.example/debian trixie main contrib # the country's
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] https://vendor.example/linux/debian trixie stable
deb-src http://mirror.example/debian trixie main
deb http://mirror.example/debian-security trixie-security main
"""

DEB822 = """\
# The country's mirror
Types: deb deb-src
URIs: http://mirror.example/debian
  http://second.example/debian/
Suites: trixie trixie-updates
Components: main
# a comment inside of a stanza
  non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://switched-off.example/debian
Suites: trixie
Components: main
Enabled: no

Types: deb-src
URIs: http://sources.example/debian
Suites: trixie
Components: main
"""


def test_one_line_sources_are_read_with_options_and_comments():
    assert list(one_line(ONE_LINE)) == [
        Source("http://mirror.example/debian", "trixie", ("main", "contrib")),
        Source("https://vendor.example/linux/debian", "trixie", ("stable",)),
        Source("http://mirror.example/debian-security", "trixie-security", ("main",)),
    ]


def test_deb822_stanzas_are_read_with_continued_fields_and_without_those_switched_off():
    components = ("main", "non-free-firmware")
    assert list(deb822(DEB822)) == [
        Source("http://mirror.example/debian", "trixie", components),
        Source("http://mirror.example/debian", "trixie-updates", components),
        Source("http://second.example/debian/", "trixie", components),
        Source("http://second.example/debian/", "trixie-updates", components),
    ]


def test_both_kinds_of_file_are_read_and_others_are_not(tmp_path):
    (tmp_path / "sources.list").write_text("deb http://one.example/debian trixie main\n")
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "a.list").write_text("deb http://two.example/debian trixie main\n")
    (tmp_path / "sources.list.d" / "b.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "c.list.disabled").write_text("deb http://off.example/debian trixie main\n")

    assert [source.uri for source in sources(tmp_path)] == [
        "http://one.example/debian",
        "http://two.example/debian",
        *["http://mirror.example/debian"] * 2,
        *["http://second.example/debian/"] * 2,
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ONE_LINE, "http://mirror.example/debian"),
        (
            "deb http://vendor.example/apt trixie main\ndeb http://m.example/debian trixie main",
            "http://m.example/debian",
        ),
        ("deb http://archive.example/archive/debian/20260101T000000Z trixie main", None),
        ("deb http://only.example/pub trixie main", "http://only.example/pub"),
        ("deb http://rolling.example/debian testing main", "http://rolling.example/debian"),
    ],
)
def test_the_mirror_is_the_one_that_the_machine_itself_comes_from(text, expected):
    found = mirror(list(one_line(text)), "trixie")
    assert found == (expected or text.split()[1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb cdrom:[Debian]/ trixie main",
        "deb http://security.example/debian-security trixie-security main",
        "deb http://other.example/ubuntu noble main",
    ],
)
def test_a_machine_without_a_mirror_is_told_so(text):
    with pytest.raises(NoMirrorError, match=r"sources\.list"):
        mirror(list(one_line(text)), "trixie")


def test_the_release_is_read_from_os_release(tmp_path):
    release = tmp_path / "os-release"
    release.write_text('NAME="Debian GNU/Linux"\nVERSION_CODENAME=trixie\nID=debian\n')
    assert codename(release) == "trixie"
