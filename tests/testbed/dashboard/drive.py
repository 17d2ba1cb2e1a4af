"""drive.py BURNIN WORKFLOWS FOLDER: the dashboard in a real browser, as a person uses it.

Starts a run from the page, watches it end, reads its log, cancels another, compares two. Pictures are left in FOLDER.
"""

import subprocess
import sys
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
LONGEST = 120


@contextmanager
def server(burnin, workflows, folder):
    up = subprocess.Popen([burnin, "up", "--port", "0", "--workflows", workflows, "--data", f"{folder}/data"],
                          stdout=subprocess.PIPE, text=True)
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
    try:
        yield driver
    finally:
        driver.quit()


def main(burnin, workflows, folder):
    with server(burnin, workflows, folder) as address, browser() as driver:
        wait = WebDriverWait(driver, LONGEST, ignored_exceptions=[Exception])

        def text():
            return driver.find_element(By.TAG_NAME, "main").text

        def until(words):
            wait.until(lambda _: words in text(), f"never on the page: {words}\n{driver.current_url}\n{text()}")

        def press(form):
            driver.find_element(By.CSS_SELECTOR, f"{form} button").click()

        def start():
            driver.get(address)
            Select(driver.find_element(By.CSS_SELECTOR, "form[data-begin] select")).select_by_visible_text("quickstart")
            press("form[data-begin]")
            wait.until(lambda _: "/runs/" in driver.current_url)
            return driver.current_url.rpartition("/")[2]

        def picture(name, width, height, dark):
            scheme = "dark" if dark else "light"
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                   {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
            driver.save_screenshot(f"{folder}/{name}.png")
            # Nothing but tables, which scroll by themselves, is wider than the screen.
            wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name}: {wide} pixels too wide"

        first = start()
        until("PASS")
        wait.until(lambda _: not driver.find_elements(By.CSS_SELECTOR, "form[data-cancel]"), "the cancel form stays")
        print(f"dashboard: {first} was started from the page and passed before its eyes")
        for name, size in (("run-wide", (1920, 1080)), ("run-phone", (390, 844))):
            picture(name, *size, dark=False)

        driver.find_element(By.CSS_SELECTOR, ".logs a").click()
        driver.find_element(By.NAME, "q").send_keys("out of bounds")
        press("form.filters")
        wait.until(lambda _: "q=out" in driver.current_url)
        lines = driver.find_elements(By.CSS_SELECTOR, "ol.log li")
        assert lines and all("out of bounds" in line.text.lower() for line in lines), text()
        print(f"dashboard: {len(lines)} line of its log found by its text")

        other = start()
        driver.find_element(By.NAME, "reason").send_keys("seen enough")
        press("form[data-cancel]")
        until("CANCELLED")
        until("seen enough")
        print(f"dashboard: {other} was cancelled from its page")

        second = start()
        until("PASS")
        driver.get(driver.current_url)
        Select(driver.find_element(By.CSS_SELECTOR, "form[action='/compare'] select")).select_by_visible_text(first)
        press("form[action='/compare']")
        until("B is ")
        until("plateau")
        print(f"dashboard: {second} was compared with {first}")

        driver.get(address)
        assert driver.find_elements(By.CSS_SELECTOR, f"a.cell[href='/runs/{second}']"), text()
        for name, size, dark in (("first-wide", (1280, 800), False), ("first-dark", (1280, 800), True), ("first-phone", (390, 844), True)):
            picture(name, *size, dark)
        said = [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        assert not said, said
        print("dashboard: the browser complained of nothing")


if __name__ == "__main__":
    main(*sys.argv[1:])
