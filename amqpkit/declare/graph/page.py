"""A picture as one HTML file that needs nothing else: its own SVG, its own style, a few lines of script. Pure."""

from html import escape
from typing import Final

from amqpkit.declare.graph.layout import Layout, Spot, layout
from amqpkit.declare.graph.picture import Arrow, Box, Line, Picture

_STYLE: Final = """\
body{font:14px system-ui,sans-serif;margin:0;color:#111;background:#fff}
header{position:sticky;top:0;left:0;background:#fff;border-bottom:1px solid #d1d5db;padding:8px 16px}
header input{margin-left:16px;padding:2px 6px}
h1{display:inline;font-size:16px}
svg text{font:12px ui-monospace,monospace;fill:#111}
svg .about{font-size:10px;fill:#4b5563}
svg .label{font-size:10px;paint-order:stroke;stroke:#fff;stroke-width:3px}
.frame{fill:#fafafa;stroke:#d1d5db}
.box rect{fill:#f3f4f6;stroke:#374151}
.message rect{fill:#fff;stroke:#6b7280;rx:14}
.exchange rect{fill:#dbeafe;stroke:#1d4ed8;rx:10}
.work rect{fill:#dcfce7;stroke:#15803d}
.delay rect{fill:#fef9c3;stroke:#a16207}
.dead rect{fill:#fee2e2;stroke:#b91c1c}
.missing rect{fill:#fff;stroke:#b91c1c;stroke-dasharray:4}
.arrow path{fill:none;stroke-width:1.4}
.publish path{stroke:#6b7280}.binding path{stroke:#1d4ed8}.alternate path{stroke:#1d4ed8;stroke-dasharray:5}
.retry path{stroke:#a16207}.dead path{stroke:#b91c1c;stroke-width:2}
.faded{opacity:.12}
.box{cursor:pointer}
"""
# Hovering shows what touches a box; the field finds boxes by name. Names are read from attributes, never from code.
_SCRIPT: Final = """\
const all=[...document.querySelectorAll('.box,.arrow')];
function show(keep){all.forEach(e=>e.classList.toggle('faded',keep!==null&&!keep(e)))}
document.querySelectorAll('.box').forEach(b=>{
  const id=b.dataset.id;
  b.addEventListener('mouseenter',()=>{
    const near=new Set([id]);
    all.forEach(e=>{if(e.dataset.from===id||e.dataset.to===id){near.add(e.dataset.from);near.add(e.dataset.to)}});
    show(e=>e.dataset.id?near.has(e.dataset.id):e.dataset.from===id||e.dataset.to===id)});
  b.addEventListener('mouseleave',()=>show(null))});
document.getElementById('find').addEventListener('input',e=>{
  const text=e.target.value.toLowerCase();
  show(text?b=>(b.dataset.name||'').toLowerCase().includes(text):null)});
"""
Point = tuple[float, float]
_BULGE: Final = 70.0
_COLOURS: Final = {
    Line.PUBLISH: "#6b7280",
    Line.BINDING: "#1d4ed8",
    Line.ALTERNATE: "#1d4ed8",
    Line.RETRY: "#a16207",
    Line.DEAD: "#b91c1c",
}


def page(picture: Picture, title: str) -> str:
    """Write a picture as an HTML page; names and title can hold anything."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{_text(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f'<header><h1>{_text(title)}</h1><input id="find" type="search" placeholder="find"></header>\n'
        f"{svg(picture)}\n<script>\n{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def svg(picture: Picture) -> str:
    """Draw a picture as an SVG element."""
    places = layout(picture)
    numbers = {box.key: f"b{number}" for number, box in enumerate(picture.boxes)}
    size = f"{places.width:.0f} {places.height:.0f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {size}" width="{places.width:.0f}">',
        f"<defs>{''.join(_head(line) for line in Line)}</defs>",
        *(_frame(spot) for spot in places.frames.values()),
        *(_arrow(arrow, places, numbers[arrow.source], numbers[arrow.target]) for arrow in picture.arrows),
        *(_box(box, places.spots[box.key], numbers[box.key]) for box in picture.boxes),
        "</svg>",
    ]
    return "\n".join(parts)


def _text(text: str) -> str:
    """Escape for HTML and SVG, in text and in attributes; what no document may hold becomes a sign that says so."""
    return escape("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))


def _head(line: Line) -> str:
    return (
        f'<marker id="head-{line.name.lower()}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{_COLOURS[line]}"/></marker>'
    )


def _frame(spot: Spot) -> str:
    return f'<rect class="frame" rx="8" {_rectangle(spot)}/>'


def _rectangle(spot: Spot) -> str:
    return f'x="{spot.x:.1f}" y="{spot.y:.1f}" width="{spot.width:.1f}" height="{spot.height:.1f}"'


def _box(box: Box, spot: Spot, number: str) -> str:
    middle, x = spot.middle, spot.x + spot.width / 2
    lines = [(middle + 4, "name", box.name)]
    if box.about:
        lines = [(middle - 2, "name", box.name), (middle + 12, "about", box.about)]
    words = "".join(
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{_text(word)}</text>'
        for y, kind, word in lines
    )
    full = box.key[1]
    return (
        f'<g class="box {box.shape.name.lower()}" data-id="{number}" data-name="{_text(full)}">'
        f"<title>{_text(f'{box.shape.value} {full}')}</title><rect {_rectangle(spot)}/>{words}</g>"
    )


def _arrow(arrow: Arrow, places: Layout, source: str, target: str) -> str:
    name = arrow.line.name.lower()
    path, x, y = _path(places.spots[arrow.source], places.spots[arrow.target])
    start = f' marker-start="url(#head-{name})"' if arrow.line is Line.RETRY else ""
    label = f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{_text(arrow.label)}</text>'
    return (
        f'<g class="arrow {name}" data-from="{source}" data-to="{target}">'
        f'<path d="{path}" marker-end="url(#head-{name})"{start}/>{label if arrow.label else ""}</g>'
    )


def _path(source: Spot, target: Spot) -> tuple[str, float, float]:
    """Draw a curve between the sides that face each other; within one column, out of the left and in from the left."""
    left, right = source.x, source.x + source.width
    near, far = target.x, target.x + target.width
    if near >= right:
        bend = (near - right) / 2
        return _curve((right, source.middle), (near, target.middle), right + bend, near - bend)
    if far <= left:
        bend = (left - far) / 2
        return _curve((left, source.middle), (far, target.middle), left - bend, far + bend)
    return _curve((left, source.middle), (near, target.middle), left - _BULGE, near - _BULGE)


def _curve(begin: Point, end: Point, first: float, second: float) -> tuple[str, float, float]:
    (x, y), (far, low) = begin, end
    path = f"M{x:.1f} {y:.1f}C{first:.1f} {y:.1f} {second:.1f} {low:.1f} {far:.1f} {low:.1f}"
    return path, (x + 3 * first + 3 * second + far) / 8, (y + low) / 2 - 4
