"""The page of a report in headless Chromium: drawn, readable in light and dark, and deaf to what a model wrote."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from d2k_agent.catalog import samples_dir
from d2k_agent.records import read_trace
from d2k_agent.reports.page import page_html
from tests.browser.chromium import chromium, measured
from tests.reports.curved import a_curved_run, record
from tests.reports.reported import HOSTILE, reported

pytestmark = pytest.mark.browser

PICTURES = Path(__file__).resolve().parents[2] / "build" / "browser"
"""Where a person finds what was seen."""
NARROW = 500
CONTRAST = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = text => {
    const [r, g, b] = parts(text).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const ratio = text => { const [a, b] = [light(text), ground].sort((x, y) => y - x); return (a + .05) / (b + .05); };
  const seen = (selector, property) => Object.fromEntries([...document.querySelectorAll(selector)].map(
    e => [e.getAttribute("class") || e.tagName, ratio(getComputedStyle(e)[property])]
  ));
  const text = {...seen("body, p, th, a, summary", "color"), ...seen("svg text", "fill")};
  return {ground, text, lines: seen("path.line", "stroke"), bars: seen("rect", "fill")};
})()
"""
OUTSIDE = """
[...document.querySelectorAll("svg text")].filter(e => {
  const own = e.getBoundingClientRect(), all = e.closest("svg").getBoundingClientRect();
  const across = own.left >= all.left - 1 && own.right <= all.right + 1;
  return own.width && !(across && own.top >= all.top - 1 && own.bottom <= all.bottom + 1);
}).map(e => e.textContent)
"""
COVERED = """
[...document.querySelectorAll("svg[role=img]")].map(svg => {
  const boxes = [...svg.querySelectorAll("text")].map(e => [e.textContent, e.getBBox()]);
  return boxes.flatMap(([name, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    a.x < b.x + b.width - 1 && b.x < a.x + a.width - 1 && a.y + 3 < b.y + b.height - 3 && b.y + 3 < a.y + a.height - 3
  ).map(([other]) => `${name} covers ${other}`));
}).flat()
"""
DRAWN = """
[...document.querySelectorAll("circle")].map(dot => {
  const box = dot.getBoundingClientRect();
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return top !== null && top.tagName;
})
"""


def written(folder: Path, *names: str) -> Path:
    """A page of these runs in `folder`."""
    runs = {
        "sample": reported(read_trace(samples_dir() / "muon"), "sample"),
        "first": reported(a_curved_run(None, 1.0, None, 2.0, 2.5), "first"),
        "second": reported(a_curved_run(0.5, 0.9, 1.4, 2.4, 2.45, None), "second"),
        "third": reported(a_curved_run(None, None, 1.2, 2.42), "third"),
        "hostile": replace(
            reported(replace(a_curved_run(1.0), run=record(model=HOSTILE)), HOSTILE), source=f"x = 1\n{HOSTILE}"
        ),
    }
    path = folder / "page.html"
    path.write_text(page_html([runs[name] for name in names], (2,), {}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), "first", "second", "third", "sample")


def test_a_script_that_a_model_wrote_does_not_run_and_makes_no_element(tmp_path: Path) -> None:
    dom = chromium(written(tmp_path, "hostile"), "--dump-dom")
    assert "<script" not in dom and "<img" not in dom and "owned</title>" not in dom
    assert dom.count("&lt;script&gt;document.title='owned'&lt;/script&gt;") > 3


def test_the_policy_holds_where_an_element_would_have_got_in(tmp_path: Path) -> None:
    path = written(tmp_path, "first")
    path.write_text(path.read_text().replace("</main>", "<script>document.title='owned'</script></main>"))
    title = re.search("<title>(.*?)</title>", chromium(path, "--dump-dom"))
    assert title is not None and title[1] == "Report on first"


def test_its_style_is_let_in_by_the_policy(page: Path) -> None:
    plain = page.with_name("plain.html")
    plain.write_text(re.sub("<style>.*?</style>", "", page.read_text(), flags=re.DOTALL))
    for path in (page, plain):
        chromium(path, f"--screenshot={path.with_suffix('.png')}", height=900)
    assert page.with_suffix(".png").read_bytes() != plain.with_suffix(".png").read_bytes()


def test_every_dot_of_a_curve_can_be_pointed_at(page: Path) -> None:
    drawn = measured(page, DRAWN, height=6000)
    assert len(drawn) > 20 and set(drawn) <= {"circle", "path"} and drawn.count("circle") > 0.8 * len(drawn)


@pytest.mark.parametrize("width", [NARROW, 900, 1600])
def test_nothing_is_wider_than_the_window(page: Path, width: int) -> None:
    seen = measured(page, "[document.documentElement.scrollWidth, window.innerWidth]", width=width)
    assert seen[0] <= seen[1] == width


@pytest.mark.parametrize("width", [NARROW, 1200])
def test_what_is_written_in_pictures_is_whole_and_apart(page: Path, width: int) -> None:
    assert measured(page, OUTSIDE, width=width) == []
    assert measured(page, COVERED, width=width) == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_in_light_and_dark(page: Path, dark: bool) -> None:
    found = measured(page, CONTRAST, dark=dark)
    assert (found["ground"] < 0.2) is dark
    assert {name: ratio for name, ratio in found["text"].items() if ratio < 4.5} == {}
    assert {name: ratio for name, ratio in {**found["lines"], **found["bars"]}.items() if ratio < 3} == {}
    assert len(found["lines"]) > 5 and len(found["bars"]) == 4


def test_it_asks_for_nothing(page: Path) -> None:
    assert measured(page, "performance.getEntriesByType('resource').map(e => e.name)") == []


def test_what_was_seen_is_kept_for_a_person(page: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, dark, width in (("light", False, 1200), ("dark", True, 1200), ("narrow", False, NARROW)):
        picture = PICTURES / f"{name}.png"
        chromium(page, f"--screenshot={picture}", width=width, height=2400, dark=dark)
        assert picture.read_bytes().startswith(b"\x89PNG")
