"""A report must work in a browser: every chart drawn, no error, toggles, light and dark, a phone's width, and soon.

Opens reports in headless Chromium over the DevTools protocol: that of a comparison with a device, that of curves, that of an
analysis, that of hierarchies, and the gallery of every kind of chart (`cargo run -p forebay-report --example gallery`); with the traces of FOREBAY_TRACES
also comparison and analysis of P6. Each is held to 8 MiB, and its time to the first paint is printed.

Usage: report_in_browser.py PATH-OF-FOREBAY PATH-OF-GALLERY [FOLDER-FOR-SCREENSHOTS]
"""

import csv
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import TimeoutError as TooLate
from playwright.sync_api import sync_playwright

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 812}
MOST_BYTES = 8 << 20
# How long a page may take to draw all of its charts.
PATIENCE = 30
# Chromium drops without a word what a page gives beyond ten files within a second, which no person asks for.
BETWEEN_FILES_MS = 150

forebay, gallery = sys.argv[1:3]
screenshots = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
checks = 0


def check(what, holds, told=""):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"{what}: {told or 'it does not hold'}")


def reports(folder):
    """The reports, by name."""

    def made(name, *arguments):
        file = folder / f"{name}.html"
        done = subprocess.run([*map(str, arguments), file], capture_output=True, text=True)
        check(f"making {name}", done.returncode == 0, done.stderr)
        return name, file

    yield made("gallery", gallery)
    yield made("compare", forebay, "compare", "--device", "nearline", "--report")
    yield made("curve", forebay, "curve", "--policies", "lru,arc,opt", "--points", "20", "--report")
    yield made("analyze", forebay, "analyze", "--sizes", "5%,20%", "--report")
    # Policies of which opt alone has a state, and one size alone.
    trace = folder / "a" / "folder" / "whose" / "name" / "is" / "long" / "enough" / "to" / "fill" / "a" / "whole" / "phone.csv"
    trace.parent.mkdir(parents=True)
    rows = (f"{at},reader {at % 3},{trace.parent}/{at * at % 7}-of-seven.txt,{at * 7919 % 50 * 4096},4096,read" for at in range(2000))
    trace.write_text("\n".join(["time_ns,owner,object,offset,length,operation", *rows]))
    yield made("files", forebay, "compare", trace, "--policies", "lru,mru,opt", "--by", "file", "--device", "nearline", "--report")
    yield made("one-size", forebay, "compare", "--policies", "lru,clock-pro,opt", "--sizes", "10%", "--report")
    yield made("levels-one-size", forebay, "levels", "-l", "lru:2MiB", "-l", "lru:8MiB,mq:8MiB", "--device", "nvme", "--report")
    alternatives = "lru:2MiB,lru:8MiB", "lru:16MiB,mq:16MiB,lru:24MiB,mq:24MiB,lru:64MiB,mq:64MiB"
    yield made("levels", forebay, "levels", "-l", alternatives[0], "-l", alternatives[1], "--device", "nvme", "--report")
    traces = pathlib.Path(os.environ.get("FOREBAY_TRACES", "../shared/traces"))
    p6 = traces / "arc" / "P6.lis.zst"
    if p6.exists():
        policies, sizes = "lru,arc,mq,ubm,clock-pro,opt", "1%,5%,10%,20%"
        yield made("p6", forebay, "compare", p6, "--policies", policies, "--sizes", sizes, "--report")
        yield made("p6-analyze", forebay, "analyze", p6, "--report")
    else:
        print(f"report_in_browser: skipped the reports of P6: {p6} is not there (FOREBAY_TRACES)", file=sys.stderr)


# Whether a chart's canvas shows something besides one colour.
INKED = """figure => [...figure.querySelectorAll("canvas")].some(canvas => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    return new Set(pixels).size > 8;
})"""
PICTURE = """figure => figure.querySelector("canvas").toDataURL()"""
# What a chart has been told to draw: the same picture may come out a pixel different.
TOLD = """figure => {
    const { series, xAxis, yAxis } = charts.find(chart => chart.figure === figure).echart.getOption();
    return JSON.stringify([series.map(({ name, data }) => [name, data.length]), xAxis.map(({ type }) => type), yAxis.map(({ type }) => type)]);
}"""
# Of each open table its title, the width of its first column where it has more than it can show, that of what it is seen through, and whether
# its last column can come into that.
TABLES = """() => [...document.querySelectorAll("details[open]")].map(details => {
    const [frame, heads] = [details.querySelector(".scroll"), details.querySelectorAll("th")];
    frame.scrollLeft = frame.scrollWidth;
    const [first, last, seen] = [heads[0], heads[heads.length - 1], frame].map(part => part.getBoundingClientRect());
    frame.scrollLeft = 0;
    const within = last.right <= seen.right + 1 && (last === first || last.left >= seen.left + first.width - 1) && seen.right <= innerWidth;
    return [details.querySelector("summary").textContent, frame.scrollWidth > frame.clientWidth ? first.width : 0, seen.width, within];
})"""
# A phone shows more than its width where something asks for more.
WIDTH = "() => document.documentElement.scrollWidth"
FIRST_PAINT = """() => performance.getEntriesByName("first-contentful-paint").map(entry => entry.startTime)[0]"""


class Page:
    """A report, opened afresh."""

    def __init__(self, browser, name, file, viewport, scheme):
        self.what = f"{name}, {viewport['width']} px, {scheme}"
        phone = viewport is PHONE
        context = browser.new_context(viewport=viewport, color_scheme=scheme, has_touch=phone, is_mobile=phone, offline=True)
        self.page = context.new_page()
        self.errors = []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: request.url.startswith("http") and self.errors.append(request.url))
        self.page.goto(file.as_uri())

    def figures(self):
        """The charts, each scrolled into sight, so drawn."""
        for figure in self.page.query_selector_all("figure"):
            figure.scroll_into_view_if_needed()
            figure.wait_for_selector("canvas")
            self.settle()
            yield figure

    def settle(self):
        """Waits until the page has painted twice."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, button):
        button.evaluate("button => button.click()")
        self.settle()

    def keep(self, name):
        if screenshots:
            screenshots.mkdir(exist_ok=True)
            self.page.evaluate("() => scrollTo(0, 0)")
            self.page.screenshot(path=screenshots / f"{name}.png", full_page=True)

    def close(self):
        check(f"{self.what}: console", not self.errors, "; ".join(self.errors))
        self.page.context.close()


def check_drawn(browser, name, file):
    for viewport in (DESKTOP, PHONE):
        for scheme in ("light", "dark"):
            page = Page(browser, name, file, viewport, scheme)
            drawn = f"{page.what}: all charts are drawn without scrolling, within {PATIENCE} s"
            try:
                page.page.wait_for_function("() => charts.every((chart) => chart.echart)", timeout=PATIENCE * 1000)
                check(drawn, True)
            except TooLate:
                check(drawn, False)
            theme = page.page.evaluate("() => document.documentElement.dataset.theme")
            check(f"{page.what}: theme of the system", theme == scheme, theme)
            figures = list(page.figures())
            check(f"{page.what}: charts", len(figures) > 0)
            for figure in figures:
                check(f"{page.what}: {figure.get_attribute('id')} is drawn", figure.evaluate(INKED))
            for table in page.page.query_selector_all("details"):
                table.evaluate("table => { table.open = true; }")
            page.settle()
            check(f"{page.what}: rows in tables", page.page.query_selector("tbody tr") is not None)
            for what, first, room, ends in page.page.evaluate(TABLES):
                check(f"{page.what}: the first column of `{what}`", first <= room / 2, f"{first} of {room} px")
                check(f"{page.what}: `{what}` can be scrolled to its end", ends)
            wider = page.page.evaluate(WIDTH) - viewport["width"]
            check(f"{page.what}: horizontal scroll", wider <= 0, f"{wider} px wider than the screen")
            for table in page.page.query_selector_all("details"):
                table.evaluate("table => { table.open = false; }")
            page.keep(f"{name}-{viewport['width']}-{scheme}")
            page.close()


def check_theme(browser, name, file):
    page = Page(browser, name, file, DESKTOP, "light")
    figure = next(page.figures())
    before, color = figure.evaluate(PICTURE), "() => getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(color)
    page.press(page.page.query_selector("#theme"))
    check(f"{page.what}: the button darkens the page", page.page.evaluate(color) != light)
    check(f"{page.what}: and the charts", figure.evaluate(PICTURE) != before)
    page.page.reload()
    check(f"{page.what}: and is remembered", page.page.evaluate(color) != light)
    page.close()


def check_toggles(browser, name, file):
    """A policy's chip hides it in all charts that have it, and shows it again."""
    page = Page(browser, name, file, DESKTOP, "light")
    figures = list(page.figures())
    chips = page.page.query_selector_all("#keys .key")
    check(f"{page.what}: chips", len(chips) > 1)
    keyed = page.page.evaluate("() => charts.map(chart => chart.model.keyed)")
    before = [figure.evaluate(PICTURE) for figure in figures]
    told = [figure.evaluate(TOLD) for figure in figures]
    page.press(chips[0])
    check(f"{page.what}: a pressed chip says so", chips[0].get_attribute("aria-pressed") == "false")
    for figure, picture, keyed in zip(figures, before, keyed):
        check(f"{page.what}: {figure.get_attribute('id')} after toggling", (figure.evaluate(PICTURE) != picture) == keyed)
    page.press(chips[0])
    for figure, told in zip(figures, told):
        check(f"{page.what}: {figure.get_attribute('id')} toggled back", figure.evaluate(TOLD) == told)
    page.close()


def check_controls(browser, name, file):
    """Logarithmic axes, views, zooming and what stands under the pointer, wherever a chart has them."""
    page = Page(browser, name, file, DESKTOP, "light")
    for figure in page.figures():
        what = f"{page.what}: {figure.get_attribute('id')}"
        for switch in figure.query_selector_all("button.switch"):
            before, told = figure.evaluate(PICTURE), figure.evaluate(TOLD)
            page.press(switch)
            check(f"{what}: {switch.inner_text()}", figure.evaluate(PICTURE) != before and figure.evaluate(TOLD) != told)
            page.press(switch)
            check(f"{what}: {switch.inner_text()} and back", figure.evaluate(TOLD) == told)
        for choice in figure.query_selector_all("select"):
            last = choice.evaluate("choice => choice.options[choice.options.length - 1].value")
            if choice.input_value() == last:
                continue
            before = figure.evaluate(PICTURE)
            choice.select_option(last)
            page.settle()
            check(f"{what}: choosing {last}", figure.evaluate(PICTURE) != before)
        plot = figure.query_selector(".plot")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.page.mouse.move(*middle)
        page.page.mouse.move(middle[0] + 2, middle[1])
        page.settle()
        told = figure.evaluate("figure => figure.querySelector('.tip')?.innerText ?? ''")
        check(f"{what}: figures under the pointer", any(letter.isdigit() for letter in told), repr(told))
        page.page.mouse.move(1, 1)
        page.settle()
        reset = figure.query_selector("button:has-text('Reset zoom')")
        if not figure.evaluate("figure => charts.find(chart => chart.figure === figure).lies"):
            before = figure.evaluate(PICTURE)
            page.page.mouse.move(middle[0] - 100, middle[1] - 60)
            page.page.mouse.down()
            page.page.mouse.move(middle[0], middle[1], steps=4)
            page.page.mouse.move(middle[0] + 100, middle[1] + 60, steps=4)
            page.page.mouse.up()
            page.page.mouse.move(1, 1)
            page.settle()
            check(f"{what}: a dragged box zooms", figure.evaluate(PICTURE) != before and reset.is_visible())
            page.press(reset)
            check(f"{what}: resetting the zoom", not reset.is_visible())
    page.close()


# What stands beside a chart's lines and around the recommended point, as ECharts has laid it out: texts with their places.
ENDS = """figure => {
    const { echart } = charts.find(chart => chart.figure === figure);
    const texts = [];
    echart.getZr().storage.getDisplayList(true).forEach(shape => {
        if (shape.type === "tspan" && shape.parent?.parent?.parent) texts.push([shape.style.text, shape.getBoundingRect().clone()]);
    });
    return texts.map(([text, box]) => [text, box.x, box.y, box.width, box.height]);
}"""
MARK = "figure => charts.find(chart => chart.figure === figure).model.mark?.series"
WORDS = """figure => {
    const shapes = charts.find(chart => chart.figure === figure).echart.getZr().storage.getDisplayList(true);
    return shapes.filter(({ type }) => type === "tspan").map(({ style }) => style.text);
}"""
RINGS = """figure => {
    const shapes = charts.find(chart => chart.figure === figure).echart.getZr().storage.getDisplayList(true);
    const rings = shapes.filter(({ type, style }) => type === "circle" && style.fill === "none");
    return rings.map(({ shape: { cx, cy, r } }) => [cx, cy, r]);
}"""
# Of a chart whose series are no policies: whether they are named, by chips or by the axis, and the colours.
PLAIN = """figure => {
    const { keys: own, model, view } = charts.find(chart => chart.figure === figure);
    if (!own) return [true, []];
    const named = view.series.length === 1 && view.series[0].name === model.y.title || figure.querySelectorAll(".keys .key").length === view.series.length;
    return [named, view.series.map((_, index) => plain(index).color)];
}"""
LINES = """figure => {
    const { kind, model, view } = charts.find(chart => chart.figure === figure);
    return (kind === "lines" || kind === "single") && model.keyed ? view.series.map(({ name }) => name).filter(name => keys.shown.has(name)) : [];
}"""


def check_words(browser, name, file):
    """Each line of a keyed chart is named at its end, no name on another; what is recommended is marked."""
    for viewport in (DESKTOP, PHONE):
        page = Page(browser, name, file, viewport, "light")
        for figure in page.figures():
            what, lines = f"{page.what}: {figure.get_attribute('id')}", figure.evaluate(LINES)
            texts = figure.evaluate(ENDS)
            if lines:
                ends = [text for text in texts if any(line.startswith(text[0].rstrip("…")) for line in lines)]
                check(f"{what}: a name at each line's end", len(ends) >= len(lines), f"{[text[0] for text in texts]} for {lines}")
                # Of bars that lie the axis keeps names apart, and says where they are in its own terms.
                if figure.evaluate("figure => charts.find(chart => chart.figure === figure).lies"):
                    ends = []
                tops = sorted(top for _, _, top, _, _ in ends)
                close = [below - above for above, below in zip(tops, tops[1:]) if below - above < 8]
                check(f"{what}: names apart", not close, f"{close} points")
                rings = figure.evaluate(RINGS)
                on = [name for name, left, top, wide, high in ends for x, y, r in rings
                      if left < x + r and left + wide > x - r and top < y + r and top + high > y - r]
                check(f"{what}: names clear of the ring", not on, repr(on))
            if figure.evaluate(MARK) in lines:
                all_words = figure.evaluate(WORDS)
                check(f"{what}: the mark", any(word.endswith("recommended") for word in all_words), repr(all_words))
            named, colors = figure.evaluate(PLAIN)
            check(f"{what}: what is drawn has a name", named)
            check(f"{what}: what is no policy has no policy's colour", all(color.startswith("--s") for color in colors), repr(colors))
        near = page.page.evaluate("() => [apart([10, 11, 12, 100], 10, 0, 200), apart([2, 3], 10, 0, 200), apart([195, 198], 10, 0, 200)]")
        check(f"{page.what}: names stay near their lines", near == [[1, 11, 21, 100], [0, 10], [190, 200]], repr(near))
        page.close()


def check_files(browser, name, file):
    """Each chart's figures as CSV, and the chart as PNG."""
    page = Page(browser, name, file, DESKTOP, "light")
    for figure in page.figures():
        what = f"{page.what}: {figure.get_attribute('id')}"
        for kind, start in (("CSV", None), ("PNG", b"\x89PNG")):
            with page.page.expect_download(timeout=30_000) as download:
                # A click as of a person: without one the browser gives only some files in a row.
                figure.query_selector(f"button:text-is('{kind}')").click()
            page.page.wait_for_timeout(BETWEEN_FILES_MS)
            content = pathlib.Path(download.value.path()).read_bytes()
            check(f"{what}: {kind}'s name", download.value.suggested_filename.endswith(f".{kind.lower()}"), download.value.suggested_filename)
            if start:
                check(f"{what}: a picture", content.startswith(start) and len(content) > 3000, f"{len(content)} bytes")
            else:
                rows = [row for row in csv.reader(io.StringIO(content.decode())) if row]
                check(f"{what}: rows of one width", len(rows) > 1 and len({len(row) for row in rows}) == 1, repr(rows[:3]))
    page.close()


def check_print(browser, name, file):
    """A dark report prints light, with its legend, and is dark afterwards."""
    page = Page(browser, name, file, DESKTOP, "dark")
    page.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.page.emulate_media(media="print", color_scheme="dark")
    page.settle()
    check(f"{page.what}: paper is light", page.page.evaluate("() => document.documentElement.dataset.theme") == "light")
    check(f"{page.what}: the legend is printed", page.page.query_selector("#keys .key").is_visible())
    check(f"{page.what}: buttons are not", not page.page.query_selector("figure .files button").is_visible())
    for figure in page.page.query_selector_all("figure"):
        check(f"{page.what}: {figure.get_attribute('id')} is drawn", figure.evaluate(INKED))
    page.page.emulate_media(media="screen", color_scheme="dark")
    page.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    page.settle()
    check(f"{page.what}: and the screen dark again", page.page.evaluate("() => document.documentElement.dataset.theme") == "dark")
    check(f"{page.what}: as a PDF", len(page.page.pdf(format="A4")) > 20_000)
    page.close()


def first_paint(browser, name, file):
    page = Page(browser, name, file, DESKTOP, "light")
    page.page.wait_for_function(FIRST_PAINT)
    paint = page.page.evaluate(FIRST_PAINT)
    print(f"report_in_browser: {name}: {file.stat().st_size / (1 << 20):.1f} MiB, first paint after {paint / 1e3:.2f} s")
    page.close()


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("report_in_browser: there is no Chromium; install it (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, nor in most containers; what is opened is ours.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, file in reports(pathlib.Path(folder)):
            check(f"{name}: size", file.stat().st_size <= MOST_BYTES, f"{file.stat().st_size} bytes")
            first_paint(browser, name, file)
            check_drawn(browser, name, file)
            check_theme(browser, name, file)
            check_toggles(browser, name, file)
            check_controls(browser, name, file)
            check_words(browser, name, file)
            check_files(browser, name, file)
            check_print(browser, name, file)
        browser.close()
    print(f"report_in_browser: {checks} checks hold")


main()
