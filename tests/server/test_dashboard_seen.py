"""What the dashboard's pages are for eyes and ears: names for everything, contrast, phones; and what others wrote stays text."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from keepstone.ports.maintenance import Flag
from keepstone.ports.queue import JobDraft
from keepstone.rights import RIGHTS
from keepstone.types import Scope
from tests.server.browser import browser_, demo_, watched  # noqa: F401  (fixtures)
from tests.server.demo import USER
from tests.server.running import Running
from tests.server.screenshots import SIZES, paths

ATTACK = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>\'"><svg/onload=window.ran=1>{{7*7777777}}'

# Everything a page must have: each line of the answer is one thing that is wrong.
CHECKS = """() => {
  const wrong = [];
  const shown = (e) => e.checkVisibility({ checkVisibilityCSS: true });
  const name = (e) => (e.getAttribute('aria-label') || e.textContent || e.title || '').trim();
  if (!document.documentElement.lang) wrong.push('no language');
  if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
  if (document.querySelectorAll('main').length !== 1) wrong.push('not one main');
  for (const e of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
    if (!e.labels.length && !e.getAttribute('aria-label')) wrong.push('no label: ' + e.outerHTML.slice(0, 90));
  for (const e of document.querySelectorAll('a, button, summary'))
    if (shown(e) && !name(e)) wrong.push('no name: ' + e.outerHTML.slice(0, 90));
  for (const e of document.querySelectorAll('svg'))
    if (e.getAttribute('aria-hidden') !== 'true' && !(e.getAttribute('aria-label') || e.querySelector('title')?.textContent))
      wrong.push('no name: ' + e.outerHTML.slice(0, 90));
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) wrong.push('twice: #' + id);
  for (const e of document.querySelectorAll('[aria-labelledby]'))
    if (!document.getElementById(e.getAttribute('aria-labelledby'))) wrong.push('named by nothing: ' + e.outerHTML.slice(0, 90));
  for (const e of document.querySelectorAll('[style], script:not([src]), style'))
    wrong.push('inline: ' + e.outerHTML.slice(0, 90));
  const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (over > 0) wrong.push('wider than the window by ' + over);
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over_ = (top, below) => top.slice(0, 3).map((v, i) => (v * top[3] + below[i] * (255 - top[3])) / 255);
  const light = (c) => c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over_(top, below), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(e) || e.closest('.away, .skip, svg, option, datalist')) continue;
    const ground = behind(e), ink = over_(rgba(getComputedStyle(e).color), ground);
    const [a, b] = [light(ink), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) wrong.push('contrast ' + ratio.toFixed(2) + ': ' + e.outerHTML.slice(0, 120));
  }
  return [...new Set(wrong)];
}"""


# What the keyboard has reached after the skip link: a control of the page that can be seen to have the focus.
FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  if (!document.querySelector('main :is(a[href], button, input, select, textarea, summary, [tabindex="0"])')) return [];
  if (!at.closest('main')) return ['not in the page: ' + at.outerHTML.slice(0, 90)];
  const seen = style.outlineStyle !== 'none' || style.boxShadow !== 'none' || at.matches('[type=range]');
  return seen ? [] : ['focus not seen: ' + at.outerHTML.slice(0, 90)];
}"""


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_every_page_can_be_seen_heard_and_reached(browser: Browser, demo: Running, theme: Any, size: tuple[int, int]) -> None:
    visited = paths(demo, USER)  # before the server works: two threads that import rewritten modules at once fail in CPython 3.11
    with watched(browser, demo.url, viewport={"width": size[0], "height": size[1]}, color_scheme=theme) as window:
        page = window.go("/sign-in")
        assert page.evaluate(CHECKS) == []
        window.sign_in(demo.key(USER, rights=RIGHTS))
        wrong: dict[str, list[str]] = {}
        for path in visited:
            window.go(path)
            if path == "/":
                page.wait_for_selector(".health")
            found = page.evaluate(CHECKS)
            page.locator(".skip").focus()
            page.keyboard.press("Enter")
            page.wait_for_function("location.hash === '#main'")
            page.keyboard.press("Tab")
            found += page.evaluate(FOCUS)
            if found:
                wrong[path] = found
        assert wrong == {}
        assert window.outside() == []
        assert [line for line in window.console if "404" not in line] == []


def test_nothing_jumps_while_a_page_is_put_together(browser: Browser, demo: Running) -> None:
    with watched(browser, demo.url) as window:
        page = window.sign_in(demo.key(USER))
        page.add_init_script(
            "window.jumped = 0; new PerformanceObserver((list) => list.getEntries().forEach((each) => "
            "{ window.jumped += each.value; })).observe({ type: 'layout-shift', buffered: true });"
        )
        for path, ready in (("/", ".health"), ("/memories?q=invoice", "#results-status:not(:empty)")):
            window.go(path)
            page.wait_for_selector(ready)
            assert page.evaluate("window.jumped") < 0.01


@pytest.fixture(scope="module")
def planted(demo: Running) -> str:
    """The key of a user whose every field was written by an attacker."""
    user = "mallory"
    memory = demo.memory.with_scope(user=user)
    record = memory.remember(
        ATTACK, kind=ATTACK[:200], tag=ATTACK[:200], key=ATTACK[:200], session=ATTACK[:200], source=f"web:{ATTACK}"[:200],
        metadata={ATTACK: [ATTACK, {ATTACK: ATTACK}]},
    )  # fmt: skip
    fact = memory.remember(f"Where {ATTACK} lives", tag="t</option></datalist>" + ATTACK[:150], key="k" + ATTACK[:150])
    memory.update(fact.id or "", f"Where {ATTACK} lived until {ATTACK}")
    messages = [{"role": "user", "content": f"invoice {ATTACK}", "name": ATTACK[:200]}, {"role": "assistant", "content": ATTACK}]
    receipts = memory.ingest(messages, session=ATTACK[:200])
    memory.learn(ATTACK, source=f"tool:{ATTACK}"[:200])
    store, scope = demo.engine.store, Scope("local", "default", user)
    store.reviews.add(scope, [Flag(fact.id or "", "stale", ATTACK, (record.id or "", ATTACK))])
    store.jobs.add(scope, JobDraft("extract", ATTACK[:200], demo.engine.clock()), [receipts[0].id or ""])
    store.audit_log.note(scope, "key", "denied", ATTACK[:200], (ATTACK,), ATTACK[:200])
    demo.key(ATTACK[:200], agent=ATTACK[:200], user=ATTACK[:200])
    return demo.key(user, rights=RIGHTS)


def test_what_others_wrote_is_text_and_nothing_else(browser: Browser, demo: Running, planted: str) -> None:
    with watched(browser, demo.url) as window:
        page = window.sign_in(planted)
        seen = 0
        bad = quote(ATTACK, safe="")
        echoing = [f"/memories?q={bad}&tag={bad}&session={bad}", f"/recall?query={bad}&tag={bad}", f"/memories/{bad}",
                   f"/audit?verb={bad}&id={bad}", f"/recall?query=x&why={bad}", f"/sign-in?next=/{bad}",
                   f"/conversations/{bad}?words={bad}"]  # fmt: skip
        for path in [*paths(demo, "mallory"), *echoing]:
            window.go(path)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
            assert page.evaluate("window.ran") is None, path
            assert page.locator("img, main script, [onerror], [onload]").count() == 0, path
            assert "54444439" not in page.locator("body").inner_text(), path
            seen += page.locator("body").inner_text().count("onerror=")
        assert seen > 20
        assert [line for line in window.console if "404" not in line] == []
        assert window.dialogs == []
        assert window.outside() == []


def test_no_other_page_can_frame_it(browser: Browser, demo: Running) -> None:
    with watched(browser, demo.url) as window:
        page = window.sign_in(demo.key(USER))
        page.set_content(f"<iframe src='{demo.url}/memories'></iframe>")
        frame = next(each for each in page.frames if each is not page.main_frame)
        frame.wait_for_load_state()
        assert "Memories" not in (frame.content() if "chrome-error" not in frame.url else "")
        assert any("frame" in line.lower() for line in window.console)
