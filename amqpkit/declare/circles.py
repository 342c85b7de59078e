"""Finds the circles of a graph, in time linear to its edges. Pure."""

from collections.abc import Collection, Iterator, Mapping


def circles(edges: Mapping[str, Collection[str]]) -> Iterator[tuple[str, ...]]:
    """Yield one circle of each knot of nodes that reach each other, starting at its first name.

    Every node that is in some circle is in a knot, so no knot means no circle.
    """
    for knot in _knots(edges):
        first = min(knot)
        if len(knot) > 1 or first in edges.get(first, ()):
            yield _shortest(edges, first, knot)


def _shortest(edges: Mapping[str, Collection[str]], first: str, knot: frozenset[str]) -> tuple[str, ...]:
    came: dict[str, str] = {}
    ahead = [first]
    for node in ahead:
        for target in sorted(edges.get(node, ())):
            if target == first:
                way = [node]
                while way[-1] != first:
                    way.append(came[way[-1]])
                return tuple(reversed(way))
            if target in knot and target not in came:
                came[target] = node
                ahead.append(target)
    return (first,)


def _knots(edges: Mapping[str, Collection[str]]) -> Iterator[frozenset[str]]:
    """Tarjan's algorithm, with a stack of its own: a ladder of thousands of queues is no recursion error."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    for root in edges:
        if root in order:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        order[root] = low[root] = len(order)
        stack.append(root)
        waiting.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    waiting.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in waiting:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    knot = set()
                    while node not in knot:
                        knot.add(stack.pop())
                    waiting -= knot
                    yield frozenset(knot)
