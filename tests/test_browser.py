"""The reports as a browser shows them: wide, on a phone and on paper. In CI a missing browser is a failure."""

import json
import os
import re
import shutil
import subprocess
from base64 import b64decode
from urllib.parse import unquote

import numpy as np
import pytest
from support import audit_plan, mechanisms, random_data, release

from gpleak.audit import Subject, run_audit
from gpleak.audit.released import Released
from gpleak.mechanisms import Bounded, Noised
from gpleak.reports import as_record
from gpleak.reports.html import render_locations, render_public, render_record
from gpleak.reports.map import map_drawing
from gpleak.reports.public import redacted

N = 30
DATA = random_data(np.random.default_rng(60), N, 1)
A4 = 680  # CSS pixels between the margins of the sheet, 180 mm; it is 1005 pixels high
NAMES = ("chromium", "chromium-browser", "google-chrome")

# Added to a copy: tells the page around it what the copy looks like. The reports themselves have no script.
MEASURE = """<script>
const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.right, b.width, b.height]; };
const all = s => [...document.querySelectorAll(s)];
addEventListener("load", () => parent.postMessage({
  width: innerWidth, reach: document.documentElement.scrollWidth, room: document.documentElement.clientWidth,
  text: document.body.innerText,
  figures: all("figure svg").map(e => [...box(e), e.viewBox.baseVal.width * 4 / 3]),
  kept: all("figure, figure *").map(e => box(e)[3]),
  breaks: all("figure").map(e => getComputedStyle(e).breakInside),
  seen: all("figure svg").every(e => e.checkVisibility({opacityProperty: true, visibilityProperty: true})),
}, "*"));
</script></body>"""
AROUND = """<body style="margin:0">
<iframe src="page.html" style="border:0;width:WIDTHpx;height:40000px"></iframe><script>
const coded = data => btoa(encodeURIComponent(JSON.stringify(data)));
addEventListener("message", e => { document.body.innerHTML = "<pre>" + coded(e.data); });
</script>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Run a headless Chromium with arguments; what it wrote and what its console said."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        message = f"no {' or '.join(NAMES)} to open the report in"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    profile = tmp_path_factory.mktemp("profile")

    def run(*arguments):
        options = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
        options += " disable-component-update disable-sync disable-dev-shm-usage enable-logging=stderr"
        options += f" user-data-dir={profile} virtual-time-budget=10000 window-size=1300,1000"
        command = [found, *(f"--{option}" for option in options.split()), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


@pytest.fixture(scope="module")
def pages():
    """Every kind of report: with all figures, of a released file, public, and the map of the records."""
    plan = {"trials": 400, "shadows": 40, "targets": "all", "adversaries": ["core", "population"]}
    record = as_record(
        run_audit(Subject(DATA, mechanisms(N)[0], Bounded()), audit_plan(**plan)), command="gpleak audit x"
    )
    grid = np.linspace(0, 1, 12)[:, None]
    mechanism = Noised(release(N, prior_noise=0.7, points=grid))
    file = mechanism.sampler(DATA, grid).draw(1, paths=1, rng=np.random.default_rng(3))[0]
    subject = Subject(DATA, mechanism, Bounded(), released=Released(grid, file))
    seen = as_record(run_audit(subject, audit_plan(trials=200, targets=2, search=True, claimed_epsilon=0.1)))
    place = map_drawing(record, DATA.covariates, ["place"])
    return {
        "report": (render_record(record), 7, record["verdict"]),
        "released": (render_record(seen), 8, "VIOLATED"),
        "public": (render_public(redacted(seen)), 4, "claim about this release is refuted"),
        "private": (render_locations(record, place, ["place"]), 1, "PRIVATE"),
    }


PAGES = ("report", "released", "public", "private")


def measured(browser, folder, html, width):
    (folder / "page.html").write_text(html.replace("</body>", MEASURE))
    (folder / "around.html").write_text(AROUND.replace("WIDTH", str(width)))
    dom, console = browser("--dump-dom", f"file://{folder}/around.html")
    assert console == []
    return json.loads(unquote(b64decode(re.search(r"<pre>([^<]+)", dom)[1]).decode()))


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_report_fits_its_window_and_shows_everything(browser, pages, tmp_path, name, width):
    html, figures, said = pages[name]
    assert "<script" not in html
    found = measured(browser, tmp_path, html, width)
    assert found["width"] == found["room"] == width  # no upright scroll bar takes part of it here
    assert found["reach"] <= width  # the page itself never scrolls sideways
    assert len(found["figures"]) == figures
    assert found["seen"]
    for left, right, wide, high, drawn in found["figures"]:
        assert 0 <= left < right <= width
        assert high > 90
        # Nine points are the smallest type in a figure: at least ten pixels high, hardly smaller than the text around.
        assert 9 * 4 / 3 * wide / drawn >= 9.5
    assert said.replace("_", " ") in found["text"]


@pytest.mark.parametrize("name", PAGES)
def test_no_figure_is_cut_on_paper(browser, pages, tmp_path, name):
    """A figure that may not break and is lower than a sheet is not cut: by the print style, at the sheet's width."""
    html, figures, _ = pages[name]
    found = measured(browser, tmp_path, html.replace("@media print", "@media all"), A4)
    assert found["reach"] <= A4
    assert found["breaks"] == ["avoid"] * figures
    assert 90 < max(found["kept"]) < 900
    sheet = tmp_path / "report.pdf"
    (tmp_path / "whole.html").write_text(html)
    _, console = browser(f"--print-to-pdf={sheet}", "--no-pdf-header-footer", f"file://{tmp_path}/whole.html")
    assert console == []
    content = sheet.read_bytes()
    assert content.startswith(b"%PDF")
    count = len(re.findall(rb"/Type\s*/Page\b", content))
    assert count == 1 if name == "private" else 2 <= count <= 12
    boxes = {
        tuple(round(float(side)) for side in box.split()) for box in re.findall(rb"/MediaBox\s*\[([^\]]+)\]", content)
    }
    assert boxes == {(0, 0, 595, 842)}  # A4 in points


def test_the_measurement_sees_what_it_is_for(browser, tmp_path):
    """A page with an error, too wide a figure and a hidden one is told from a good one."""
    wide = '<figure><svg viewBox="0 0 300 200" style="width:2000px;height:200px"></svg></figure>'
    hidden = '<figure style="visibility:hidden"><svg viewBox="0 0 300 200" width="300" height="200"></svg></figure>'
    html = f"<!doctype html><body>{wide}{hidden}<script>console.error('loud')</script></body>"
    (tmp_path / "bad.html").write_text(html)
    _, console = browser("--dump-dom", f"file://{tmp_path}/bad.html")
    assert any("loud" in line for line in console)
    found = measured(browser, tmp_path, html.replace("console.error('loud')", ""), 390)
    assert found["reach"] > 390
    assert not found["seen"]
    assert found["breaks"] == ["auto", "auto"]
