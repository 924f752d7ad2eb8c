// Draws the report that is in the page as JSON (crates/report/src/model.rs says what it holds) with Apache ECharts.
const report = JSON.parse(document.getElementById("report").textContent);
const charts = []; // those of all sections, drawn or not yet
const finePointer = matchMedia("(pointer: fine)").matches;

// ---- Elements

function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
}

function button(text, press, properties = {}) {
    return element("button", { type: "button", textContent: text, onclick: press, ...properties });
}

/** Gives the reader a file. */
function save(href, name) {
    element("a", { href, download: name }).click();
}

function saveText(text, name) {
    const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    save(href, name);
    setTimeout(() => URL.revokeObjectURL(href), 60000);
}

function setPressed(button, pressed) {
    button.setAttribute("aria-pressed", pressed);
}

function escaped(text) {
    return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

// ---- Colours and dashes: one for a policy in all charts, and others for all else

const COLORS = 8;
const PLAIN_COLORS = 6;
const DASHES = ["solid", [7, 4], [2, 3], [9, 3, 2, 3]];

const styles = new Map();
report.keys.filter((key) => key.bound).forEach((key, index) => {
    styles.set(key.name, { color: "--ink", dash: DASHES[1 + (index % 3)], width: 1.3 });
});
// Those shown at first come first: they get colours of their own.
[...report.keys].filter((key) => !key.bound).sort((one, other) => other.shown - one.shown).forEach((key, index) => {
    styles.set(key.name, style(index));
});

/** Of a policy. */
function style(index) {
    return { color: `--c${index % COLORS}`, dash: DASHES[Math.floor(index / COLORS) % DASHES.length], width: 2 };
}

/** Of what is no policy: parts, classes, levels, states. */
function plain(index) {
    return { color: `--s${index % PLAIN_COLORS}`, dash: DASHES[Math.floor(index / PLAIN_COLORS) % DASHES.length], width: 2 };
}

function themed(variable) {
    return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

// ---- Keys: chips that show and hide lines

/** A chip with a sample of its line. */
function chip(name, { color, dash }, toggle, only) {
    const line = dash === "solid" ? "" : ` stroke-dasharray="${dash.join(" ")}"`;
    const sample = `<svg aria-hidden="true"><path d="M0 5H22" style="stroke: var(${color}); stroke-width: 3"${line}/></svg>`;
    const made = button("", toggle, { className: "key", ondblclick: only, title: "Click: show or hide. Double click: show this one alone" });
    made.innerHTML = `${sample}<span>${escaped(name)}</span>`;
    return made;
}

/** Which of several names are shown, with a chip for each. `changed` is called. */
class Keys {
    constructor(entries, changed) {
        this.names = new Set(entries.map((entry) => entry.name));
        this.shown = new Set(entries.filter((entry) => entry.shown).map((entry) => entry.name));
        this.chips = entries.map((entry) => {
            const toggle = () => {
                if (!this.shown.delete(entry.name)) this.shown.add(entry.name);
                this.#update();
            };
            return [entry.name, chip(entry.name, entry.style, toggle, () => this.set([entry.name]))];
        });
        this.changed = changed;
        this.#mark();
    }

    set(names) {
        this.shown = new Set(names);
        this.#update();
    }

    #update() {
        this.#mark();
        this.changed();
    }

    #mark() {
        for (const [name, chip] of this.chips) setPressed(chip, this.shown.has(name));
    }
}

const keys = new Keys(
    report.keys.map((key) => ({ ...key, style: styles.get(key.name) })),
    () => charts.filter((chart) => chart.model.keyed).forEach((chart) => chart.draw()),
);

function showKeys() {
    const bar = document.getElementById("keys");
    bar.hidden = report.keys.length < 2 || !charts.some((chart) => chart.model.keyed);
    const names = report.keys.map((key) => key.name);
    const atFirst = report.keys.filter((key) => key.shown).map((key) => key.name);
    const sets = element("span", { className: "sets" }, button("All", () => keys.set(names)), button("None", () => keys.set([])));
    if (atFirst.length < names.length) sets.prepend(button("The best", () => keys.set(atFirst), { id: "best" }));
    const chips = [...keys.chips].sort(([one], [other]) => atFirst.includes(other) - atFirst.includes(one));
    bar.append(sets, ...chips.map(([, chip]) => chip));
}

// ---- Tables

/** A folded table; a click on a column's head sorts by it. */
function folded(model, trace) {
    const texts = model.columns.map((column) => column.unit === "text");
    const body = element("tbody");
    const cell = (value, column) => {
        const text = full(value, model.columns[column].unit);
        if (!texts[column]) return element("td", { textContent: text });
        // Paths begin alike: of one that is too long the end is shown.
        const isPath = text.includes("/");
        const shown = element("span", {}, element("bdi", { textContent: text }));
        return element("td", { className: isPath ? "text path" : "text", title: isPath ? text : "" }, shown);
    };
    const fill = (rows) => body.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map(cell))));
    let sorted = -1;
    const heads = model.columns.map((column, index) => element("th", {
        textContent: column.title, className: texts[index] ? "text" : "", scope: "col", title: "Sort",
        onclick: () => {
            // Figures from the most; a second click turns the order.
            const sign = (texts[index] ? 1 : -1) * (sorted === index ? -1 : 1);
            sorted = sorted === index ? -1 : index;
            const order = (one, other) => (texts[index] ? String(one).localeCompare(other) : (one ?? -Infinity) - (other ?? -Infinity));
            fill([...model.rows].sort((one, other) => sign * order(one[index], other[index])));
        },
    }));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
    const name = `${trace}-${model.title}.csv`.replace(/[^\w.=-]+/g, "-");
    const rows = () => [model.columns.map((column) => column.title), ...model.rows.map((row) => row.map((value) => value ?? ""))];
    const file = button("CSV", () => saveText(csv(rows()), name), { title: "All rows" });
    const details = element(
        "details", {}, element("summary", { textContent: model.title }), element("div", { className: "controls files" }, file),
        element("div", { className: "scroll" }, table),
    );
    details.addEventListener("toggle", () => { if (!body.children.length) fill(model.rows); });
    return details;
}

// ---- Light and dark

function setTheme(theme, kept) {
    document.documentElement.dataset.theme = theme;
    document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
    // A browser may keep nothing for files: then the choice holds until the page is closed.
    try { if (kept) localStorage.setItem("forebay-theme", theme); } catch { /* see above */ }
    charts.forEach((chart) => chart.draw());
}

// ---- The page

document.querySelectorAll("section").forEach((section, index) => {
    const model = report.sections[index];
    for (const chart of model.charts) {
        const made = new Chart(chart, model.title);
        charts.push(made);
        section.append(made.figure);
    }
    section.append(...model.tables.map((table) => folded(table, model.title)));
});
showKeys();

const { theme } = document.documentElement.dataset;
setTheme(theme, false);
document.getElementById("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true);

// A chart is drawn when it is about to come into sight: a long report is there as soon as a short one.
const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        sight.unobserve(entry.target);
        charts.find((chart) => chart.plot === entry.target).start();
    }
}, { rootMargin: "400px" });
charts.forEach((chart) => sight.observe(chart.plot));

// The others follow when there is nothing else to do: a picture of the whole page has them all.
const whenIdle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
function drawNext() {
    const next = charts.find((chart) => !chart.echart);
    if (!next) return;
    next.start();
    whenIdle(drawNext);
}
addEventListener("load", () => whenIdle(drawNext));

// Paper is light, and charts on it are as large as the style sheet says.
let onScreen = null;
function onPaper(is) {
    document.documentElement.classList.toggle("paper", is);
    charts.forEach(({ echart }) => echart?.resize());
}
addEventListener("beforeprint", () => {
    onScreen = document.documentElement.dataset.theme;
    charts.forEach((chart) => chart.start());
    onPaper(true);
    setTheme("light", false);
});
addEventListener("afterprint", () => {
    onPaper(false);
    setTheme(onScreen, false);
});
