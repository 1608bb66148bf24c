"""A report as one HTML file that opens offline: pictures, tables and traces, without a script.

Covers the page and its looks. Does not cover reading runs or writing files (app). What a model or a stranger wrote goes
in as text of a tree (elements.py), and a policy in the page forbids everything but its own style.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from d2k_agent import __version__
from d2k_agent.contract.wording import counted
from d2k_agent.reports.curve_report import RunReport, groups
from d2k_agent.reports.curve_text import METHOD, apart_text
from d2k_agent.reports.page.elements import element, html_of
from d2k_agent.reports.page.sections import alone, compared

STYLE = Path(__file__).with_name("style.css")
_DOCTYPE = "<!doctype html>\n"
_MARK = "d2k-agent report"
_FIRST_BYTES = 1000


def page_html(runs: Sequence[RunReport], budgets: Sequence[int], problems: Mapping[str, str]) -> str:
    """The page: equal runs give equal bytes."""
    kinds = groups(runs)
    numbers = {run.name: number for number, run in enumerate((run for kind in kinds for run in kind), start=1)}
    name = f"Report on {runs[0].name if len(runs) == 1 else counted(len(runs), 'run')}"
    content: list[Element] = [element("h1", name), element("p", METHOD, class_="method")]
    if problems:
        told = [element("li", f"{run}: {problem}.") for run, problem in problems.items()]
        content += [element("h2", "Not in this report"), element("ul", *told)]
    if len(kinds) > 1:
        content.append(element("p", apart_text([kind[0].circumstances for kind in kinds]), class_="warning"))
    for index, kind in enumerate(kinds, start=1):
        title = "Curve and cost" if len(kinds) == 1 else f"Kind {index}: {counted(len(kind), 'run')}"
        content.append(element("section", element("h2", title), *compared(kind, numbers, budgets, f"k{index}")))
    content += [alone(run, numbers[run.name], budgets) for kind in kinds for run in kind]
    footer = element("footer", element("p", f"Made by d2k-agent {__version__} from the records of these runs."))
    return _DOCTYPE + html_of(
        element("html", _head(name), element("body", element("main", *content), footer), lang="en")
    )


def is_page(path: Path) -> bool:
    """True where the file at `path` is a page that page_html() made."""
    with open(path, "rb") as file:
        return _MARK.encode() in file.read(_FIRST_BYTES)


def _head(name: str) -> Element:
    style = STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    made = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="generator", content=_MARK),
        Element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", name),
    )
    # Serialised as it stands, unlike any other text: it is a file of this package.
    sheet = Element("style")
    sheet.text = style
    made.append(sheet)
    return made
