"""drive.py BURNIN WORKFLOWS FOLDER: tests the dashboard in a real browser.

Starts a run from the page, watches it end, reads its log, cancels another and compares two, with the mouse and with the keyboard
only; runs axe's accessibility checks; measures the time to the first paint with 10,000 stored runs. Writes screenshots to FOLDER.
"""

import importlib.util
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
LONGEST = 120
# Number of runs; limits of a page on an idle host: milliseconds to the first paint, bytes.
RUNS, PAINTED, HEAVY = 10_000, 100, 200 << 10
# Factor of the time limit for a busy host.
BUSY = 5
LOADS = 9
AXE = next(Path(importlib.util.find_spec("axe_playwright_python").submodule_search_locations[0]).glob("axe.min.js")).read_text()
RULES = "wcag2a", "wcag2aa", "wcag21a", "wcag21aa"
REACHED = "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']"


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

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "main").text

    def until(self, words):
        try:
            self.wait.until(lambda _: words in self.text())
        except TimeoutException:  # read the page after the wait, because it may have changed
            raise AssertionError(f"timeout: expected on the page: {words}\n{self.driver.current_url}\n{self.text()}") from None

    def find(self, what):
        return self.driver.find_element(By.CSS_SELECTOR, what)

    def press(self, form):
        self.find(f"{form} button").click()

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

    def start(self):
        self.go("/")
        Select(self.find("form[data-begin] select")).select_by_visible_text("quickstart")
        self.press("form[data-begin]")
        self.wait.until(lambda _: "/runs/" in self.driver.current_url)
        return self.driver.current_url.rpartition("/")[2]

    def on_the_tab(self):
        """Checks that Tab reaches all controls. Returns their number."""
        expected = self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter((it) => it.checkVisibility()"
            # Of a group of radio buttons Tab reaches one; the arrow keys reach the others.
            " && (it.type !== 'radio' || it === document.querySelector(`input[type=radio][name=${it.name}]`))).map((it, at) => it.dataset.at = at)", REACHED)
        reached, remaining = set(), 3 * len(expected) + 10
        self.driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
        while remaining and len(reached) < len(expected):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            at = self.driver.execute_script("const it = document.activeElement; return it && it.dataset.at")
            reached.update([int(at)] if at is not None else [])
            remaining -= 1
        missing = sorted(set(expected) - reached)
        elements = [self.find(f"[data-at='{at}']").get_attribute("outerHTML")[:200] for at in missing]
        assert not missing, f"not reached by Tab on {self.driver.current_url}: {elements}"
        return len(expected)

    def tab_to(self, what):
        """Moves the focus to an element with the Tab key only."""
        self.driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
        for _ in range(500):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            if self.driver.execute_script("return document.activeElement.matches(arguments[0])", what):
                outline = self.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
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
            assert found["passes"] > 0, f"{path}: axe checked nothing"


def by_mouse(person):
    driver = person.driver
    first = person.start()
    person.until("PASS")
    person.wait.until(lambda _: not driver.find_elements(By.CSS_SELECTOR, "form[data-cancel]"), "timeout: the cancel form is still shown")
    print(f"dashboard: {first} was started from the page and passed")
    for name, size in (("run-wide", (1920, 1080)), ("run-phone", (390, 844))):
        person.picture(name, *size, dark=False)

    person.find(".logs a").click()
    person.find("[name=q]").send_keys("out of bounds")
    person.press("form.filters")
    person.wait.until(lambda _: "q=out" in driver.current_url)
    lines = driver.find_elements(By.CSS_SELECTOR, "ol.log li")
    assert lines and all("out of bounds" in line.text.lower() for line in lines), person.text()
    log = driver.current_url.removeprefix(person.address.rstrip("/"))
    print(f"dashboard: {len(lines)} matching lines found in its log")

    other = person.start()
    person.find("[name=reason]").send_keys("seen enough")
    person.press("form[data-cancel]")
    person.until("CANCELLED")
    person.until("seen enough")
    print(f"dashboard: {other} was cancelled from its page")

    person.press(".tools form[data-begin]")
    person.wait.until(lambda _: "/runs/" in driver.current_url and other not in driver.current_url)
    second = driver.current_url.rpartition("/")[2]
    clock = lambda: driver.execute_script("return document.querySelector('[data-since]')?.textContent")
    person.wait.until(lambda _: (clock() or "").endswith(" s"))
    before = clock()
    person.wait.until(lambda _: clock() != before)
    print(f"dashboard: {second} was started again from the page of another run, and its clock moves")
    person.until("PASS")
    driver.get(driver.current_url)
    person.until("Size by size")
    Select(person.find("form[action='/compare'] select")).select_by_visible_text(first)
    person.press("form[action='/compare']")
    person.until("B is ")
    person.until("plateau")
    print(f"dashboard: {second} was compared with {first}")

    person.go("/")
    for name, run in (("a", first), ("b", second)):
        person.find(f"input[name={name}][value='{run}']").click()
    person.press("form[action='/compare']")
    person.until("B is ")
    assert f"a={first}" in driver.current_url and f"b={second}" in driver.current_url, driver.current_url
    print("dashboard: two runs chosen in the list were compared")

    person.go("/")
    driver.find_element(By.CSS_SELECTOR, ".nights tbody th a[href^='/systems/quickstart']").click()
    person.until("Runs")
    charts = driver.find_elements(By.CSS_SELECTOR, "svg.trend")
    assert len(charts) >= 3, f"one chart for each check: {person.text()}"
    assert charts[0].find_elements(By.CSS_SELECTOR, f"a[href='/runs/{second}'] circle"), "the run is a point of the chart"
    assert "GB/s" in person.text() and "2 pass" not in person.text()
    system = driver.current_url.split("127.0.0.1", 1)[1].split("/", 1)[1]
    for name, size, dark in (("system-wide", (1280, 800), False), ("system-dark", (1280, 800), True), ("system-phone", (390, 844), False)):
        person.picture(name, *size, dark)
    print("dashboard: the page of a system has its charts")

    person.go("/")
    assert driver.find_elements(By.CSS_SELECTOR, f"a.cell[href='/runs/{second}']"), person.text()
    for name, size, dark in (("first-wide", (1280, 800), False), ("first-dark", (1280, 800), True), ("first-phone", (390, 844), True)):
        person.picture(name, *size, dark)
    return first, other, second, log, f"/{system}"


def by_keyboard(person, first, second, log):
    driver = person.driver
    person.see(dark=False)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    reached = 0
    for path in ("/", f"/runs/{second}", log, f"/compare?a={first}&b={second}"):
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
    person.tab_to("form[action='/compare'] button")
    person.type(Keys.ENTER)
    person.until("B is ")
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
    print(f"dashboard: {reached} controls reached by Tab; by keyboard: {third} started and cancelled, a list filtered, two runs compared, a log searched")


def audited(person, paths):
    for path in paths:
        person.audit(path)
    print(f"dashboard: axe finds nothing on {len(paths)} pages, light and dark")


def painted(person, path):
    """Measures the time to the first paint with a warm cache, and the transferred bytes with a cold one."""
    driver = person.driver
    paint = "const it = performance.getEntriesByName('first-contentful-paint')[0]; return it ? it.startTime : null"
    weigh = "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].reduce((sum, it) => sum + it.transferSize, 0)"
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    times = []
    for load in range(LOADS + 1):
        person.go(path)
        time = person.wait.until(lambda _: driver.execute_script(paint))
        if load == 0:
            weight = driver.execute_script(weigh)
        else:
            times.append(time)
    best, median = min(times), statistics.median(times)
    print(f"dashboard: with {RUNS:,} runs: first paint of {path} after {best:.0f} ms (best), {median:.0f} ms (median of {LOADS} loads); {weight / 1024:.0f} KiB")
    assert weight <= HEAVY, f"{path}: expected at most {HEAVY} bytes, transferred {weight}"
    # The best load is closest to the page's own time: other load on the host only adds to it.
    assert best <= BUSY * PAINTED, f"{path}: expected the first paint within {BUSY * PAINTED} ms, took {best:.0f} ms"


def browser_messages(driver):
    return [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def main(burnin, workflows, folder):
    with server(burnin, workflows, f"{folder}/data") as address, browser() as driver:
        person = Person(driver, address, folder)
        first, other, second, log, system = by_mouse(person)
        by_keyboard(person, first, second, log)
        messages = browser_messages(driver)
        assert not messages, messages
        print("dashboard: no warnings or errors in the browser")
        compared = f"/compare?a={first}&b={second}"
        audited(person, ["/", "/?verdict=fail", f"/runs/{second}", f"/runs/{other}", log, system, "/compare", compared, "/runs/nobody", "/api"])

    past = f"{folder}/past"
    ran = subprocess.run([burnin, "--data", past, "run", f"{workflows}/quickstart.yaml"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    subprocess.run([sys.executable, f"{Path(__file__).parent}/past.py", past, str(RUNS - 1)], check=True)
    with server(burnin, workflows, past) as address, browser() as driver:
        person = Person(driver, address, folder)
        # The first request replays all ledgers.
        person.go("/")
        person.until("quickstart-00004")
        for path in ("/", "/runs/quickstart-00004"):
            painted(person, path)
        person.until("since 20")
        person.picture("past-run", 1280, 2600, dark=False)
        person.picture("past-run-phone", 390, 3000, dark=True)
        audited(person, ["/", "/runs/quickstart-00004"])
        person.go("/")
        person.picture("past-wide", 1280, 800, dark=False)
        person.picture("past-phone", 390, 844, dark=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
