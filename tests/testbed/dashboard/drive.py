"""drive.py BURNIN WORKFLOWS FOLDER: tests the dashboard in a real browser.

Starts a run from the page, follows its output and clock until its end, reads its log, cancels another, retries it and compares
two, with the mouse and with the keyboard only; reads the pages of systems with their charts; runs axe's accessibility checks;
measures the time to the first paint with 10,000 stored runs. Writes screenshots to FOLDER.
"""

import importlib.util
import re
import shutil
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
LONGEST = 120
# Maximum number of times that an element is replaced in succession.
REPLACED = 20
# Number of runs, and the maximum number of bytes that a page transfers.
RUNS, HEAVY = 10_000, 200 << 10
# A page without runs, the maximum time of its first paint in milliseconds, and the maximum time of another page as a multiple of it.
# Measured: 30 ms and 3 times on an idle host of two processors, 80 ms and 5 times beside ten busy processes.
EMPTY, PAINTED, TIMES = "/runs/unknown", 500, 10
LOADS = 9
AXE = next(Path(importlib.util.find_spec("axe_playwright_python").submodule_search_locations[0]).glob("axe.min.js")).read_text()
RULES = "wcag2a", "wcag2aa", "wcag21a", "wcag21aa"
# Number of Tab keys in one command of the driver: each command takes several milliseconds.
TABS = 25
# Stops at the element `wanted`: later Tab keys of the same command have no effect.
FOLLOW = """
document.activeElement.blur();
window.scrollTo(0, 0);
window.wanted = arguments[0];
window.stopped = false;
if (!window.followed) {
  window.followed = true;
  document.addEventListener('focusin', (it) => { window.stopped = it.target.matches(window.wanted); });
  document.addEventListener('keydown', (it) => { if (it.key === 'Tab' && window.stopped) it.preventDefault(); }, true);
}
"""
# Numbers of log lines are links for the mouse only: a keyboard user would have to pass a thousand links.
REACHED = "a[href]:not([tabindex='-1']), button:enabled, input:enabled:not([type=hidden]), select, summary, [tabindex='0']"


@contextmanager
def server(burnin, workflows, data):
    up = subprocess.Popen([burnin, "up", "--port", "0", "--workflows", workflows, "--data", data], stdout=subprocess.PIPE, text=True)
    try:
        yield up.stdout.readline().strip()
    finally:
        up.terminate()
        up.wait(30)


@contextmanager
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_script_timeout(LONGEST)
    try:
        yield driver
    finally:
        driver.quit()


class Person:
    """A user in the browser, signed in by the link that the server printed."""

    def __init__(self, driver, link, folder):
        self.driver, self.address, self.folder = driver, link.partition("?")[0], folder
        driver.get(link)
        WebDriverWait(driver, LONGEST).until(lambda _: driver.current_url == self.address, "timeout: the sign-in link did not redirect")
        self.wait = WebDriverWait(driver, LONGEST, ignored_exceptions=[Exception])

    def go(self, path):
        self.driver.get(self.address.rstrip("/") + path)

    def text(self, what="main"):
        return self.on(what, lambda it: it.text)

    def until(self, words):
        try:
            self.wait.until(lambda _: words in self.text())
        except TimeoutException:  # read the page after the wait, because it may have changed
            raise AssertionError(f"timeout: expected on the page: {words}\n{self.driver.current_url}\n{self.text()}") from None

    def find(self, what):
        return self.driver.find_element(By.CSS_SELECTOR, what)

    def on(self, what, action):
        """Applies an action to an element and returns its result. A page replaces its elements whenever its run changes, also between
        the search for an element and the action: the element is then searched again. An action on a replaced element has no effect."""
        for _ in range(REPLACED):
            try:
                return action(self.find(what))
            except StaleElementReferenceException:
                continue
        raise AssertionError(f"{what} on {self.driver.current_url} was replaced {REPLACED} times in succession")

    def click(self, what):
        self.on(what, lambda it: it.click())

    def write(self, field, text):
        """Writes into a field, and waits until it accepts text."""
        def written(_):
            self.find(field).send_keys(text)
            return True
        self.wait.until(written, f"timeout: {field} accepts no text")

    def press(self, form):
        self.click(f"{form} button")

    def select(self, what, choose):
        """Applies an action to a list of options."""
        self.on(what, lambda it: choose(Select(it)))

    def see(self, dark):
        scheme = "dark" if dark else "light"
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def picture(self, name, width, height, dark):
        self.see(dark)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.save_screenshot(f"{self.folder}/{name}.png")
        # Only tables may be wider than the screen, because they scroll.
        wide = self.driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name}: {wide} pixels too wide"

    def pictures(self, name, path, height=1000):
        """Pictures of a page: wide and phone, light and dark."""
        for dark in (False, True):
            for width in (1280, 390):
                self.go(path)
                self.picture(f"{name}-{width}-{'dark' if dark else 'light'}", width, height, dark)

    def inside(self, what, width):
        """Whether an element is visible without scrolling on a screen of this width."""
        box = self.driver.execute_script("const it = document.querySelector(arguments[0]).getBoundingClientRect(); return [it.left, it.right]", what)
        return box[0] >= 0 and box[1] <= width

    def start(self, workflow="quickstart"):
        self.go("/")
        self.select("form[data-begin] select", lambda it: it.select_by_visible_text(workflow))
        self.press("form[data-begin]")
        self.wait.until(lambda _: "/runs/" in self.driver.current_url)
        return self.driver.current_url.rpartition("/")[2]

    def on_the_tab(self):
        """Checks that Tab reaches all controls. Returns their number."""
        expected = self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter((it) => it.checkVisibility()).map((it, at) => it.dataset.at = at)", REACHED)
        self.driver.execute_script(
            "document.activeElement.blur(); window.scrollTo(0, 0); window.reached = new Set();"
            "document.addEventListener('focusin', (it) => window.reached.add(Number(it.target.dataset.at)))")
        reached = set()
        for _ in range(3 * len(expected) // TABS + 2):
            self.type(Keys.TAB * TABS)
            reached = set(self.driver.execute_script("return [...window.reached]"))
            if reached.issuperset(expected):
                break
        missing = sorted(set(expected) - reached)
        elements = [self.find(f"[data-at='{at}']").get_attribute("outerHTML")[:200] for at in missing]
        assert not missing, f"not reached by Tab on {self.driver.current_url}: {elements}"
        return len(expected)

    def tab_to(self, what):
        """Moves the focus to an element with the Tab key only."""
        self.driver.execute_script(FOLLOW, what)
        for _ in range(500 // TABS):
            self.type(Keys.TAB * TABS)
            outline = self.driver.execute_script(
                "window.stopped = false; const it = document.activeElement;"
                "if (!it.matches(window.wanted)) return null; window.wanted = ':not(*)'; return getComputedStyle(it).outlineStyle")
            if outline is not None:
                assert outline != "none", f"{what} does not show its focus"
                return
        raise AssertionError(f"Tab does not reach {what} on {self.driver.current_url}")

    def type(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def audit(self, path):
        """Checks a page with axe, light and dark."""
        self.go(path)
        for dark in (False, True):
            self.see(dark)
            self.driver.execute_script(AXE)
            found = self.driver.execute_async_script(
                "const done = arguments[1]; axe.run(document, {runOnly: {type: 'tag', values: arguments[0]}, resultTypes: ['violations']})"
                ".then((it) => done({violations: it.violations, passes: it.passes.length}), (error) => done({error: String(error)}))", RULES)
            assert "error" not in found, found
            violations = [(it["id"], node["target"], node["failureSummary"]) for it in found["violations"] for node in it["nodes"]]
            assert not violations, f"{path}, {'dark' if dark else 'light'}: {violations[:5]}"
            assert found["passes"] > 0, f"{path}: axe applied no rule"


def empty(person):
    person.go("/")
    text = person.text()
    for words in ("No runs yet", "burnin init", "burnin run workflows/quickstart.yaml"):
        assert words in text, f"expected on the empty dashboard: {words}\n{text}"
    person.pictures("empty", "/", 500)
    print("dashboard: an empty dashboard shows how to begin")


def followed(person, run):
    """Checks the output, the clock and the controls of a run in progress."""
    driver = person.driver
    pre = lambda: driver.execute_script("const it = document.querySelector('#tail pre'); return it ? it.textContent : ''")
    clock = lambda: driver.execute_script("const it = document.querySelector('.status [data-since]'); return it && it.textContent")
    before = person.wait.until(lambda _: clock())
    person.wait.until(lambda _: clock() not in (None, before), "timeout: the clock does not move")
    person.wait.until(lambda _: len(pre().splitlines()) > 5, "timeout: no output of the running job")
    lines = pre().splitlines()
    person.picture("running-1280-light", 1280, 900, dark=False)
    person.picture("running-390-dark", 390, 844, dark=True)
    # Only new lines are transferred: a request from the end of the known output returns only later lines.
    answer = driver.execute_async_script(
        "const [run, done] = arguments; const get = (after, job) => fetch(`/runs/${run}/output?after=${after}&job=${job}`).then((it) => it.json());"
        "get(0, '').then((first) => get(first.last, first.job || '').then((next) => done([first, next])))", run)
    first, following = answer
    if following["job"] == first["job"] and first["job"]:
        assert following["first"] > first["last"] or not following["lines"], answer
    print(f"dashboard: {len(lines)} lines of output followed while {run} was running; its clock moves")


def by_mouse(person):
    driver = person.driver
    first = person.start()
    followed(person, first)
    person.until("PASS")
    person.wait.until(lambda _: not driver.find_elements(By.CSS_SELECTOR, "form[data-cancel]"), "timeout: the cancel form is still shown")
    print(f"dashboard: {first} was started from the page and passed")
    for name in ("all_reduce plateau", "GB/s"):
        assert name in person.text(".values"), person.text()
    for name, size in (("run-wide", (1920, 1080)), ("run-phone", (390, 844))):
        person.picture(name, *size, dark=False)

    person.click(".logs a")
    person.write("[name=q]", "out of bounds")
    person.press("form.filters")
    person.wait.until(lambda _: "q=out" in driver.current_url)
    lines = driver.find_elements(By.CSS_SELECTOR, "ol.log li")
    assert lines and all("out of bounds" in line.text.lower() for line in lines), person.text()
    # A link opens the whole log at the line, which is highlighted; no line is higher than its text.
    lines[0].find_element(By.CSS_SELECTOR, "a").click()
    person.wait.until(lambda _: "#L" in driver.current_url and "q=" not in driver.current_url)
    target = person.find("ol.log li:target")
    assert "out of bounds" in target.text.lower(), target.text
    tops = driver.execute_script("return [...document.querySelectorAll('ol.log li')].slice(0, 20).map((it) => it.getBoundingClientRect().top)")
    steps = [later - earlier for earlier, later in zip(tops, tops[1:])]
    height = driver.execute_script("return parseFloat(getComputedStyle(document.querySelector('ol.log')).lineHeight)")
    assert max(steps) < 1.3 * height, f"the lines of the log are {max(steps)} pixels apart, and a line is {height} pixels high"
    person.picture("log-1280-light", 1280, 900, dark=False)
    driver.back()
    log = driver.current_url.removeprefix(person.address.rstrip("/"))
    print(f"dashboard: {len(lines)} matching lines found in its log")

    other = person.start()
    person.write("[name=reason]", "seen enough")
    person.press("form[data-cancel]")
    person.until("CANCELLED")
    person.until("seen enough")
    print(f"dashboard: {other} was cancelled from its page")

    person.wait.until(lambda _: not driver.find_elements(By.CSS_SELECTOR, "form[data-cancel]"), "timeout: the cancel form is still shown")
    person.click(".tools [data-begin] button")
    person.wait.until(lambda _: "/runs/" in driver.current_url and other not in driver.current_url, "timeout: the retry did not start a run")
    second = driver.current_url.rpartition("/")[2]
    person.until("PASS")
    print(f"dashboard: {other} was retried as {second}")
    driver.get(driver.current_url)
    person.until("Size by size")
    assert not driver.find_elements(By.CSS_SELECTOR, "form[data-pin]"), "a run with several checks cannot be the reference"
    person.select("form[action='/compare'] select", lambda it: it.select_by_value(first))
    person.press("form[action='/compare']")
    person.until("B is ")
    person.until("plateau")
    print(f"dashboard: {second} was compared with {first}")

    person.go("/")
    selected(person, second, first)
    person.go("/")
    words = person.on("a.cell .heard", lambda it: it.get_attribute("textContent"))
    assert "2 pass" in words and "1 cancelled" in words and "GB/s" in words, words
    assert person.text("a.cell .figure"), "the cell has no value"
    person.pictures("first", "/", 800)
    person.go("/")
    person.click("a.cell")
    person.wait.until(lambda _: "night=" in driver.current_url)
    person.until(other)
    print("dashboard: a night with several results shows each of them, and leads to its runs")
    person.go("/")
    person.click(".nights th a")
    person.wait.until(lambda _: "/systems/quickstart" in driver.current_url)
    points = driver.find_elements(By.CSS_SELECTOR, "svg.wide .p")
    assert len(points) >= 2, f"{len(points)} points in the charts"
    assert "GB/s" in points[0].find_element(By.CSS_SELECTOR, "title").get_attribute("textContent")
    person.pictures("system-new", "/systems/quickstart", 1400)
    return first, other, second, log


def selected(person, later, earlier):
    """Compares two runs that are selected in the list; a third one cannot be selected."""
    driver = person.driver
    for run in (later, earlier):
        person.click(f"input[name=run][value='{run}']")
    others = driver.find_elements(By.CSS_SELECTOR, "input[name=run]:not(:checked)")
    assert not any(it.is_enabled() for it in others), "a third run can be selected"
    person.press("#compare")
    person.wait.until(lambda _: "/compare?" in driver.current_url)
    person.until("B is ")
    assert f"A: {earlier}" in person.text(), person.text()
    assert driver.find_elements(By.CSS_SELECTOR, ".comparison svg"), "both curves are in one chart"
    person.pictures("compare", f"/compare?run={later}&run={earlier}", 1500)
    print(f"dashboard: {later} and {earlier} were selected and compared")


def localized(person, path):
    """Checks that times are shown in the reader's time zone, each with UTC."""
    driver = person.driver
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    person.go(path)
    times = person.wait.until(lambda _: [it.text for it in driver.find_elements(By.CSS_SELECTOR, ".status time, dl time")])
    assert times and all("GMT+9" in text and "UTC" in text for text in times), times
    stored, text = driver.execute_script("const it = document.querySelector('.status time'); return [it.dateTime, it.textContent]")
    assert stored[11:16] in text, (stored, text)
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    print(f"dashboard: {len(times)} times in the reader's zone with UTC: {times[0]}")


def by_keyboard(person, first, second, log):
    driver = person.driver
    person.see(dark=False)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    reached = 0
    for path in ("/", "/systems/quickstart", f"/runs/{second}", log, f"/compare?a={first}&b={second}"):
        person.go(path)
        reached += person.on_the_tab()
    person.go("/")
    person.type(Keys.TAB)
    assert driver.execute_script("return document.activeElement.matches('.skip')"), "the first Tab stop is the link that skips the navigation"
    person.type(Keys.ENTER)
    assert driver.current_url.endswith("#content")

    person.go("/")
    person.tab_to("form[data-begin] select")
    person.type("quickstart")
    person.tab_to("form[data-begin] button")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: "/runs/" in driver.current_url)
    third = driver.current_url.rpartition("/")[2]
    person.tab_to("form[data-cancel] input")
    person.type("by keyboard", Keys.TAB, Keys.ENTER)
    person.until("CANCELLED")
    person.until("by keyboard")

    person.go("/")
    person.tab_to("form[action='/'] select[name=verdict]")
    person.type("pass")
    person.tab_to("form[action='/'] button")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: "verdict=pass" in driver.current_url)
    person.tab_to(f".runs a[href='/runs/{second}']")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: second in driver.current_url)
    person.tab_to(".tools form[action='/compare'] button")
    person.type(Keys.ENTER)
    person.until("B is ")
    person.go("/")
    person.tab_to(f"input[name=run][value='{second}']")
    person.type(Keys.SPACE)
    person.tab_to(f"input[name=run][value='{first}']")
    person.type(Keys.SPACE)
    person.tab_to("#compare button")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: "/compare?" in driver.current_url)
    person.until("B is ")
    person.go("/")
    person.tab_to(".nights th a")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: "/systems/" in driver.current_url)
    person.tab_to("nav.checks a[href*='days=90']")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: "days=90" in driver.current_url)
    person.go("/")
    person.tab_to("form[action='/'] input[name=q]")
    person.type(second[-5:], Keys.ENTER)
    person.wait.until(lambda _: "q=" in driver.current_url)
    rows = [it.text for it in driver.find_elements(By.CSS_SELECTOR, ".runs tbody th")]
    assert rows == [second], rows
    person.go(f"/runs/{second}")
    person.tab_to("summary")
    opened = "return document.activeElement.closest('details').open"
    before = driver.execute_script(opened)
    person.type(Keys.ENTER)
    assert driver.execute_script(opened) != before, "Enter opens the folded section"
    person.go(f"/runs/{second}")
    person.tab_to(".logs a")
    person.type(Keys.ENTER)
    person.wait.until(lambda _: "/logs/" in driver.current_url)
    person.tab_to("[name=q]")
    person.type("rank", Keys.ENTER)
    person.wait.until(lambda _: "q=rank" in driver.current_url)
    print(f"dashboard: {reached} controls reached by Tab; by keyboard: {third} started and cancelled, a list filtered and searched, two runs compared, a system's range chosen, a log searched")


def pinned(person):
    """Pins a run with a single benchmark as the reference, and releases it."""
    run = person.start("single")
    person.until("PASS")
    shown = lambda form: person.driver.find_elements(By.CSS_SELECTOR, form)
    person.wait.until(lambda _: shown("form[data-pin]"), "timeout: the passed run has no form that pins it")
    person.write("form[data-pin] [name=why]", "known good")
    person.press("form[data-pin]")
    person.wait.until(lambda _: shown("form[data-release]") and not shown("form[data-pin]"),
                      "timeout: the pinned run has no form that releases the pin")
    person.write("form[data-release] [name=why]", "no longer")
    person.press("form[data-release]")
    person.wait.until(lambda _: shown("form[data-pin]"), "timeout: the pin was not released")
    print(f"dashboard: {run} was pinned as the reference and released")
    return run


def audited(person, paths):
    for path in paths:
        person.audit(path)
    print(f"dashboard: axe finds no violation on {len(paths)} pages, light and dark")


def read(person, path):
    """Waits until the server has read the values of a page."""
    person.go(path)
    person.wait.until(lambda _: not person.driver.find_elements(By.CSS_SELECTOR, "[data-pending]"), f"timeout: the values of {path} are still being read")


def changed(person):
    """Checks the page of a system whose driver changed and whose bandwidth fell at the same time."""
    driver = person.driver
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
    person.go("/systems/quickstart")
    person.until("driver CUDA 13.1, was CUDA 13.0")
    marks = [it.get_attribute("textContent") for it in driver.find_elements(By.CSS_SELECTOR, "svg.wide .m.setup title")]
    assert any("CUDA 13.1" in it for it in marks), marks
    # The levels of other checks may have changed as well.
    read(person, "/systems/quickstart")
    levels = [it.text for it in driver.find_elements(By.CSS_SELECTOR, ".levels.bad")]
    level = next((it for it in levels if "GB/s since 20" in it and "before" in it), None)
    assert level, levels
    points = len(driver.find_elements(By.CSS_SELECTOR, "svg.wide .p"))
    assert points > 20, points
    values = [it.text for it in driver.find_elements(By.CSS_SELECTOR, ".runs td.number") if it.text]
    assert len(values) > 20, values
    point = person.find("svg.wide .p")
    run = point.get_attribute("data-run")
    driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", point)
    person.wait.until(lambda _: driver.current_url.endswith(f"/runs/{run}"), "timeout: a point does not lead to its run")
    print(f"dashboard: a system over dates: {points} points, {len(marks)} changes of the setup; {level}")


def painted(person, path):
    """Measures the time to the first paint with a warm cache, and the transferred bytes with a cold one. Each load follows a load of a page
    without runs: on a busy host both take longer."""
    driver = person.driver
    paint = "const it = performance.getEntriesByName('first-contentful-paint')[0]; return it ? it.startTime : null"
    weigh = "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].reduce((sum, it) => sum + it.transferSize, 0)"

    def loaded(page):
        person.go(page)
        return person.wait.until(lambda _: driver.execute_script(paint))

    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    loaded(path)
    weight = driver.execute_script(weigh)
    pairs = [(loaded(EMPTY), loaded(path)) for _ in range(LOADS)]
    fastest, (empty, full) = [min(times) for times in zip(*pairs)], [statistics.median(times) for times in zip(*pairs)]
    print(f"dashboard: with {RUNS:,} runs: first paint of {path} after {fastest[1]:.0f} ms (best), {full:.0f} ms (median of {LOADS} loads), "
          f"of a page without runs after {fastest[0]:.0f} and {empty:.0f} ms; {weight / 1024:.0f} KiB")
    assert weight <= HEAVY, f"{path}: expected at most {HEAVY} bytes, transferred {weight}"
    assert fastest[0] <= PAINTED, f"{EMPTY}: expected the first paint within {PAINTED} ms, took {fastest[0]:.0f} ms"
    assert full <= TIMES * empty, f"{path}: expected the first paint within {TIMES} times that of {EMPTY}, which is {empty:.0f} ms; took {full:.0f} ms"


def browser_messages(driver):
    return [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def without_schedules(workflows, copy):
    """Copies the workflows except those with a schedule: a start at its time would add a run to the pages. The nightly one, which has a
    single benchmark, remains as `single` without its triggers."""
    shutil.copytree(workflows, copy)
    nightly = Path(copy, "nightly.yaml").read_text()
    single, count = re.subn(r"^on:\n(?:[ ].*\n|\n)+", "", nightly.replace("name: nightly", "name: single"), flags=re.MULTILINE)
    assert count == 1, "nightly.yaml has no block `on`"
    Path(copy, "single.yaml").write_text(single)
    for file in Path(copy).glob("*.yaml"):
        if re.search("^  schedule:", file.read_text(), re.MULTILINE):
            file.unlink()
    return copy


def main(burnin, workflows, folder):
    workflows = without_schedules(workflows, f"{folder}/workflows")
    with server(burnin, workflows, f"{folder}/data") as address, browser() as driver:
        person = Person(driver, address, folder)
        empty(person)
        first, other, second, log = by_mouse(person)
        localized(person, f"/runs/{second}")
        by_keyboard(person, first, second, log)
        messages = browser_messages(driver)
        assert not messages, messages
        print("dashboard: no warnings or errors in the browser")
        compared = f"/compare?a={first}&b={second}"
        audited(person, ["/", "/?verdict=fail", "/systems/quickstart", f"/runs/{second}", f"/runs/{other}", log, "/compare", compared, "/runs/unknown", "/api"])
        audited(person, [f"/runs/{pinned(person)}"])

    past = f"{folder}/past"
    ran = subprocess.run([burnin, "--data", past, "run", f"{workflows}/quickstart.yaml"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    subprocess.run([sys.executable, f"{Path(__file__).parent}/past.py", past, str(RUNS - 1)], check=True)
    with server(burnin, workflows, past) as address, browser() as driver:
        person = Person(driver, address, folder)
        # The first request replays all ledgers.
        person.go("/")
        person.until("quickstart-00004")
        systems = ("/systems/quickstart", "/systems/quickstart?days=all")
        for path in ("/", "/runs/quickstart-00004", *systems):
            read(person, path)
            painted(person, path)
        changed(person)
        person.go("/runs/quickstart-00004")
        person.until("since 20")
        person.picture("past-run", 1280, 2600, dark=False)
        person.picture("past-run-phone", 390, 3000, dark=True)
        audited(person, ["/", "/runs/quickstart-00004", *systems])
        person.pictures("past", "/", 844)
        person.go("/")
        person.picture("past-phone", 390, 844, dark=False)
        newest = ".nights thead th:nth-child(3)"
        assert person.inside(newest, 390), "the newest night is not visible on a screen with the width of a phone"
        form = driver.execute_script("return document.querySelector('[data-begin] button').getBoundingClientRect().bottom")
        assert form <= 844, f"the button that starts a run is {form:.0f} pixels below the top"
        person.pictures("system", "/systems/quickstart", 1900)
        print("dashboard: on a phone the newest night and the button that starts a run are visible without scrolling")


if __name__ == "__main__":
    main(*sys.argv[1:])
