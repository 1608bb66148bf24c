"""Elements of a page, built as a tree: whatever text goes in comes out as text, since only the tree is serialised."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, tostring

from d2k_agent.reports.printable import printable


def element(tag: str, *content: Element | str, **attributes: object) -> Element:
    """An element; `class_` and `for_` lose their underscore in the attribute's name, others turn it into a dash."""
    made = Element(tag, {_attribute(name): printable(str(value)) for name, value in attributes.items()})
    last: Element | None = None
    for item in content:
        if isinstance(item, Element):
            made.append(item)
            last = item
        elif last is None:
            made.text = (made.text or "") + printable(item)
        else:
            last.tail = (last.tail or "") + printable(item)
    return made


def table_of(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Element | str]], numeric: Sequence[str] = ()
) -> Element:
    """A table that scrolls by itself where it is too wide; columns named in `numeric` are aligned to the right.

    The first cell of a row is its header.
    """
    kinds = ["n" if name in numeric else "" for name in header]
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(header, kinds, strict=True)]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", class_=kinds[0]),
            *(element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return element("div", made, class_="wide", tabindex=0, role="region", aria_label=caption)


def folded(title: str, *content: Element | str, class_: str = "") -> Element:
    """What a reader may unfold."""
    return element("details", element("summary", title), *content, class_=class_)


def html_of(made: Element) -> str:
    """The tree as HTML."""
    return tostring(made, encoding="unicode", method="html")


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
