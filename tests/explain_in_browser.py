"""The page of `forebay explain` must work in a browser: by keys, buttons, slider and links, on a phone, in the dark, on paper, without JavaScript.

Usage: explain_in_browser.py PATH-OF-FOREBAY [FOLDER-FOR-SCREENSHOTS]
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

DESKTOP = {"width": 1200, "height": 900}
PHONE = {"width": 400, "height": 860}
POLICIES = ["clock-pro", "clock", "arc", "ubm", "mq", "dulo", "lru-sp", "lirs"]

forebay = sys.argv[1]
screenshots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
checks = 0


def check(what, holds, told=""):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"{what}: {told or 'it does not hold'}")


class Page:
    """A page that is open, without an error or a request for anything else."""

    def __init__(self, browser, file, viewport, scheme="light", javascript=True):
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=javascript)
        self.page = self.context.new_page()
        self.wrong = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.wrong.append(message.text))
        self.page.on("request", lambda request: request.url.startswith("http") and self.wrong.append(request.url))
        self.page.goto(file.as_uri())

    def shown(self):
        return self.page.evaluate("() => [...document.querySelectorAll('.step')].filter(step => step.getClientRects().length > 0).map(step => step.id)")

    def close(self, what):
        check(f"{what}: nothing goes wrong", not self.wrong, repr(self.wrong))
        self.context.close()


def check_steps(browser, policy, file):
    page = Page(browser, file, DESKTOP)
    count = len(page.page.query_selector_all(".step"))
    check(f"{policy}: one step is shown at first", page.shown() == ["step-1"], repr(page.shown()))
    for press, step in [("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", count), ("ArrowRight", count), ("Home", 1), ("ArrowLeft", 1)]:
        page.page.keyboard.press(press)
        check(f"{policy}: {press}", page.shown() == [f"step-{step}"], repr(page.shown()))
    for button, step in [("#next", 2), ("#last", count), ("#back", count - 1), ("#first", 1)]:
        page.page.click(button)
        check(f"{policy}: {button}", page.shown() == [f"step-{step}"], repr(page.shown()))
    said = page.page.inner_text("#said")
    check(f"{policy}: the step is said", said.startswith("Step 1. Miss: "), said)
    page.page.evaluate("() => { const slider = document.getElementById('slider'); slider.value = 4; slider.dispatchEvent(new Event('input')); }")
    check(f"{policy}: the slider", page.shown() == ["step-4"], repr(page.shown()))
    page.page.click(".references li:nth-child(5) a")
    check(f"{policy}: a reference", page.shown() == ["step-5"] and page.page.url.endswith("#step-5"), page.page.url)
    page.page.reload()
    check(f"{policy}: the address", page.shown() == ["step-5"], repr(page.shown()))
    page.close(policy)


def check_looks(browser, policy, file):
    for viewport in (DESKTOP, PHONE):
        for scheme in ("light", "dark"):
            page = Page(browser, file, viewport, scheme)
            theme = page.page.evaluate("() => document.documentElement.dataset.theme")
            check(f"{policy}: {scheme}", theme == scheme, theme)
            for step in range(1, len(page.page.query_selector_all(".step")) + 1):
                wide = page.page.evaluate("() => document.documentElement.scrollWidth")
                check(f"{policy}: step {step} fits {viewport['width']}", wide <= viewport["width"], f"{wide} pixels")
                page.page.keyboard.press("ArrowRight")
            if screenshots:
                for step in (4, 9):
                    page.page.click(f".references li:nth-child({step}) a")
                    page.page.screenshot(path=screenshots / f"{policy}-{viewport['width']}-{scheme}-{step}.png", full_page=True)
            page.close(policy)


def check_whole(browser, policy, file):
    """On paper, and without JavaScript, all steps are there."""
    page = Page(browser, file, DESKTOP, "dark")
    count = len(page.page.query_selector_all(".step"))
    page.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.page.emulate_media(media="print")
    check(f"{policy}: paper is light", page.page.evaluate("() => document.documentElement.dataset.theme") == "light")
    check(f"{policy}: all steps are printed", len(page.shown()) == count)
    check(f"{policy}: no button is", not page.page.query_selector("#next").is_visible())
    if screenshots:
        page.page.pdf(path=screenshots / f"{policy}.pdf", format="A4")
    page.close(policy)
    page = Page(browser, file, PHONE, javascript=False)
    visible = [step.is_visible() for step in page.page.query_selector_all(".step")]
    check(f"{policy}: all steps without JavaScript", visible == [True] * count)
    check(f"{policy}: no button without JavaScript", not page.page.query_selector("#next").is_visible())
    page.close(policy)


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("explain_in_browser: there is no Chromium; install it (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, nor in most containers; what is opened is ours.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for policy in POLICIES:
            file = pathlib.Path(folder) / f"{policy}.html"
            done = subprocess.run([forebay, "explain", policy, "-o", file], capture_output=True, text=True)
            check(f"making {policy}", done.returncode == 0, done.stderr)
            check_steps(browser, policy, file)
            check_looks(browser, policy, file)
            check_whole(browser, policy, file)
        browser.close()
    print(f"explain_in_browser: {checks} checks hold")


main()
