// A chart of the report, whatever its kind, as Apache ECharts draws it.

class Chart {
    constructor(model, trace) {
        this.model = model;
        this.trace = trace;
        // Lines of one point each would be dots in an empty frame: they are bars that lie.
        this.kind = model.kind === "lines" && model.views.every(({ x }) => x.length === 1) ? "single" : model.kind;
        this.view = model.views[model.first];
        this.lies = this.kind === "ranking" || this.kind === "single";
        this.log = { x: model.x.log, y: model.y.log && !this.lies };
        this.plot = element("div", { className: "plot" });
        this.controls = element("div", { className: "controls" });
        this.reset = button("Reset zoom", () => this.draw(), { hidden: true });
        // The policies of keyed charts have their chips at the top of the page; of a ranking those are the bars.
        if (!model.keyed || model.kind === "ranking") this.local = element("span", { className: "keys" });
        this.figure = element(
            "figure",
            { id: model.id },
            element("figcaption", {}, element("h3", { textContent: model.title }), element("p", { textContent: model.explanation })),
            this.controls,
            this.above = element("div", { className: "axis", textContent: this.lies ? "" : model.y.title }),
            this.plot,
            element("div", { className: "axis x", textContent: this.lies ? model.y.title : model.x.title }),
        );
        this.#makeControls();
        this.#setView(this.view);
    }

    #makeControls() {
        const { model, controls } = this;
        controls.append(this.#chooser());
        const lines = this.kind === "lines" || this.kind === "steps";
        for (const axis of lines ? ["x", "y"] : this.kind === "bars" ? ["y"] : []) {
            const toggle = button(`log ${axis}`, () => {
                this.log[axis] = !this.log[axis];
                setPressed(toggle, this.log[axis]);
                this.draw();
            }, { className: "switch", title: `Logarithmic ${axis} axis` });
            setPressed(toggle, this.log[axis]);
            controls.append(toggle);
        }
        controls.append(this.reset, element(
            "span", { className: "sets files" },
            button("CSV", () => saveText(this.csv(), `${this.name()}.csv`), { title: "The chart's figures" }),
            button("PNG", () => this.png(), { title: "The chart as it is" }),
        ));
        if (this.local) controls.append(this.local);
    }

    /** Which view is shown: two choices where views are in groups, one where they are not; what leaves no choice is a word. */
    #chooser() {
        const { views } = this.model;
        const groups = [...new Set(views.map((view) => view.group))];
        const choice = (options, label) => {
            const made = element("select", { ariaLabel: label });
            made.append(...options.map((option) => element("option", { textContent: option, value: option })));
            return made;
        };
        const group = choice(groups, `${this.model.title}: of which`);
        const labels = () => views.filter((view) => view.group === group.value).map((view) => view.label);
        group.value = this.view.group;
        const label = choice(labels(), `${this.model.title}: at which`);
        label.value = this.view.label;
        const show = () => this.#setView(views.find((view) => view.group === group.value && view.label === label.value));
        group.onchange = () => {
            const before = label.value;
            label.replaceChildren(...labels().map((text) => element("option", { textContent: text, value: text })));
            if (labels().includes(before)) label.value = before;
            show();
        };
        label.onchange = show;
        const both = element("span", { className: "sets" });
        const shown = (choice, all) => {
            const names = new Set(all);
            if (names.size > 1) both.append(choice);
            else if (choice.value) both.append(element("span", { className: "only", textContent: choice.value }));
        };
        shown(group, groups);
        shown(label, views.map((view) => view.label));
        return both;
    }

    #setView(view) {
        this.view = view;
        if (this.local) {
            // What was chosen stays where the next view has the same names.
            const kept = this.keys && view.series.every(({ name }) => this.keys.names.has(name)) ? this.keys.shown : null;
            const entries = view.series.map(({ name, shown }, index) => ({
                name, shown: kept ? kept.has(name) : shown, style: plain(index),
            }));
            this.keys = new Keys(entries, () => this.draw());
            // A single series is named by its axis, as a rule.
            const named = entries.length > 1 || entries[0].name !== this.model.y.title;
            this.local.replaceChildren(...(named ? this.keys.chips.map(([, chip]) => chip) : []));
        }
        this.draw();
    }

    /** Draws what is chosen, whole: zooming starts afresh. Before the chart has come into sight nothing is done. */
    draw() {
        if (!this.echart) return;
        const height = this.lies ? `${60 + 22 * this.#labels().length}px` : "";
        if (this.plot.style.height !== height) {
            this.plot.style.height = height;
            this.echart.resize();
        }
        this.reset.hidden = true;
        this.echart.setOption({ ...this.#frame(), ...this.#content() }, { notMerge: true });
        if (finePointer && !this.lies) {
            this.echart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
        }
    }

    /** Comes into sight. */
    start() {
        if (this.echart) return;
        this.echart = echarts.init(this.plot, null, { renderer: "canvas" });
        this.echart.on("datazoom", () => { this.reset.hidden = false; });
        this.plot.ondblclick = () => this.draw();
        new ResizeObserver(() => this.echart.resize()).observe(this.plot);
        this.draw();
    }

    /** What all kinds share. */
    #frame() {
        const zoomed = { filterMode: "none", type: "inside", moveOnMouseMove: false, moveOnMouseWheel: false };
        return {
            animation: false,
            aria: { enabled: true, label: { description: `${this.model.title}. ${this.model.explanation}` } },
            textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
            grid: { left: 4, right: 18, top: 12, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
            // Only for zooming into a box that is dragged: its signs stay out of sight.
            toolbox: { top: -50, feature: { dataZoom: { filterMode: "none", brushStyle: { color: themed("--accent"), opacity: 0.15 } } } },
            dataZoom: this.lies ? [] : [{ ...zoomed, xAxisIndex: 0, zoomOnMouseWheel: "ctrl" }],
            tooltip: {
                trigger: "axis", confine: true, className: "tip", transitionDuration: 0,
                backgroundColor: themed("--paper"), borderColor: themed("--rule"), padding: [8, 12],
                textStyle: { color: themed("--ink"), fontSize: 13 },
                axisPointer: { type: "line", lineStyle: { color: themed("--quiet"), type: "solid", opacity: 0.5 } },
            },
        };
    }

    #content() {
        switch (this.kind) {
            case "single": return this.#single();
            case "bars": return this.#bars();
            case "ranking": return this.#ranking();
            case "grid": return this.#grid();
            default: return this.#lines();
        }
    }

    #axis(which, more = {}) {
        const { unit, ticks: asked } = this.model[which];
        const logBase = unit.pages || unit === "ratio" ? 2 : 10;
        const round = (this.log[which] && powers) || (unit.pages && ((least, most) => multiples(least, most, unit.pages)));
        const places = !asked.length && more.max && round ? round(more.min, more.max, logBase) : asked;
        const ticks = places.length ? { customValues: places } : {};
        return {
            type: this.log[which] ? "log" : "value",
            logBase,
            splitNumber: this.log[which] ? 10 : 5,
            // At the end of the data there is seldom a round number.
            axisLabel: {
                color: themed("--quiet"), hideOverlap: true, formatter: (value) => tick(value, unit),
                showMaxLabel: which === "x" && !this.log.x && !places.length ? false : asked.length > 0 || null,
                showMinLabel: asked.length > 0 || null, ...ticks,
            },
            axisLine: { show: which === "x", lineStyle: { color: themed("--quiet") } },
            splitLine: { show: which === "y", lineStyle: { color: themed("--rule") } },
            axisTick: { show: which === "x", ...ticks },
            ...more,
        };
    }

    #labelled(labels, more = {}) {
        return {
            type: "category", data: labels, axisTick: { show: false },
            axisLabel: { color: themed("--quiet"), hideOverlap: true, showMaxLabel: true }, axisLine: { lineStyle: { color: themed("--quiet") } }, ...more,
        };
    }

    /** The series that are shown, each with its style. */
    #shown() {
        const all = this.view.series.map((series, index) => [series, this.model.keyed ? styles.get(series.name) : plain(index)]);
        const { shown } = this.model.keyed ? keys : this.keys;
        return all.filter(([series]) => shown.has(series.name));
    }

    #lines() {
        const { x } = this.view;
        const steps = this.model.kind === "steps";
        const lines = this.#shown().map(([series, { color, dash, width }]) => ({
            name: series.name, type: "line", step: steps ? "end" : false, connectNulls: true,
            // An axis of powers has no place for 0.
            data: x.map((at, index) => [at, series.y[index]])
                .filter(([at, y]) => !(this.log.x && at <= 0) && !(this.log.y && y !== null && y <= 0)),
            showSymbol: x.length <= 24, symbolSize: 5, symbol: "circle", color: themed(color),
            lineStyle: { color: themed(color), type: dash, width }, emphasis: { disabled: true },
        }));
        const positive = x.filter((at) => at > 0);
        const least = this.log.x && positive.length ? positive[0] : x[0];
        const ends = this.#ends(lines);
        return {
            grid: { ...this.#frame().grid, right: ends.room },
            xAxis: this.#axis("x", x.length > 1 ? { min: least, max: x[x.length - 1] } : {}),
            yAxis: this.#axis("y", this.#powers(lines)),
            series: [...lines, ...ends.series],
            tooltip: { ...this.#frame().tooltip, formatter: (points) => this.#tip(points) },
        };
    }

    /** The ends of an axis of bytes: where it is logarithmic, powers of two close to the figures. */
    #powers(lines) {
        const { pages } = this.model.y.unit;
        const figures = lines.flatMap(({ data }) => data.map(([, y]) => y)).filter((y) => y > 0);
        if (!pages || !figures.length) return {};
        if (!this.log.y) {
            const step = multiples(0, Math.max(...figures), pages)[1];
            return { min: 0, max: Math.ceil(Math.max(...figures) / step) * step };
        }
        const power = (round, figure) => 2 ** round(Math.log2(figure));
        return { min: power(Math.floor, Math.min(...figures)), max: power(Math.ceil, Math.max(...figures)) };
    }

    /** The lines' names beside their ends, moved apart where they would meet, and a ring around the point that is recommended. */
    #ends(lines) {
        const narrow = this.plot.clientWidth < 500;
        const [size, most] = narrow ? [10, 18] : [12, 28];
        const { fontFamily } = getComputedStyle(document.body);
        const short = (name) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
        const known = lines.filter((line) => line.data.some(([, y]) => y !== null));
        // A single line has its chip, and states that stop early end somewhere.
        const ends = known.length < 2 && !this.model.keyed ? [] : known.map((line) => ({
            text: short(line.name), color: line.color, at: line.data.findLast(([, y]) => y !== null),
        }));
        const longest = Math.max(0, ...ends.map(({ text }) => text.length));
        const { mark } = this.model;
        const marked = mark && known.find(({ name }) => name === mark.series)?.data.find(([at]) => at === mark.x);
        const within = ({ x, y, width, height }, [left, top]) =>
            left >= x - 1 && left <= x + width + 1 && top >= y - 1 && top <= y + height + 1;
        const RING = 8;
        const CLEAR = RING + 10; // names stay clear of a ring around their line's end
        const renderItem = (params, api) => {
            const box = params.coordSys;
            const placed = ends.map((end) => ({ ...end, point: api.coord(end.at) })).filter(({ point }) => within(box, point));
            placed.sort((one, other) => one.point[1] - other.point[1]);
            const line = Math.min(size + 2, box.height / Math.max(1, placed.length));
            // Below the axis are its figures.
            const tops = apart(placed.map(({ point }) => point[1]), line, box.y, box.y + box.height - size / 2);
            const children = placed.flatMap(({ text, color, point: [left, end] }, index) => {
                const top = tops[index];
                const style = { text, x: left + CLEAR, y: top, fill: color, fontSize: Math.min(size, line), fontFamily, verticalAlign: "middle" };
                const leader = { x1: left + 4, y1: end, x2: left + CLEAR - 2, y2: top };
                return [{ type: "line", shape: leader, style: { stroke: color, lineWidth: 1, opacity: 0.8 } }, { type: "text", style }];
            });
            const point = marked && api.coord(marked);
            if (point && within(box, point)) {
                const [left, top] = point;
                const [x, y] = wordPlace(point, box, known.map((line) => line.data.filter(([, y]) => y !== null).map((at) => api.coord(at))));
                const share = RING / Math.hypot(x - left, y - top);
                const leader = { x1: left + (x - left) * share, y1: top + (y - top) * share, x2: x, y2: y };
                children.push(
                    { type: "circle", shape: { cx: left, cy: top, r: RING }, style: { fill: "none", stroke: themed("--ink"), lineWidth: 1.5 } },
                    // Where lines are close together the word is far off.
                    { type: "line", shape: leader, style: { stroke: themed("--ink"), lineWidth: 1 } },
                    {
                        type: "text",
                        style: {
                            text: "recommended", x, y,
                            fill: themed("--ink"), backgroundColor: themed("--paper"), padding: [1, 3], fontSize: size, fontFamily, align: "center", verticalAlign: "middle",
                        },
                    },
                );
            }
            return { type: "group", children };
        };
        const some = ends[0]?.at ?? marked;
        const series = some ? [{ type: "custom", silent: true, clip: false, z: 5, data: [some], renderItem }] : [];
        return { room: longest ? CLEAR + 8 + longest * size * 0.56 : 18, series };
    }

    /** The name of a file of this chart. */
    name() {
        return `${this.trace}-${this.model.id}`.replace(/[^\w.=-]+/g, "-");
    }

    /** The figures of what is chosen, hidden ones too: ratios from 0 to 1, sizes in bytes and pages. */
    csv() {
        const { x, series, grid } = this.view;
        const { unit } = this.model.x;
        const names = series.map(({ name }) => name);
        if (grid) {
            const at = ([from, to], cell, count) => from + ((to - from) * cell) / count;
            const cells = series[0].y.map((_, cell) => [
                at(grid.x, cell % grid.columns, grid.columns), at(grid.y, Math.floor(cell / grid.columns), grid.rows), ...series.map(({ y }) => y[cell]),
            ]);
            return csv([[this.model.x.title, this.model.y.title, ...names], ...cells.filter((row) => row.slice(2).some((count) => count > 0))]);
        }
        const heads = unit.pages ? ["size_bytes", "pages"] : [this.model.x.title];
        const places = x.map((at) => (unit.pages ? [at * unit.pages, at] : [at]));
        return csv([[...heads, ...names], ...places.map((place, index) => [...place, ...series.map(({ y }) => y[index] ?? "")])]);
    }

    /** The chart as it is, under its title and the colours of what it shows. */
    png() {
        this.start();
        const SCALE = 2;
        const body = this.echart.renderToCanvas({ pixelRatio: SCALE, backgroundColor: themed("--paper") });
        const canvas = element("canvas", { width: body.width });
        const pen = canvas.getContext("2d");
        const font = (size) => { pen.font = `${size * SCALE}px ${getComputedStyle(document.body).fontFamily}`; };
        const view = [this.view.group, this.view.label].filter((word) => word).join(", ");
        const title = `${this.model.title}: ${[this.trace, view].filter((word) => word).join(", ")}`;
        const shown = this.kind === "ranking"
            ? this.view.series.map((series, index) => [series, plain(index)]).filter(([series]) => this.keys.shown.has(series.name))
            : this.#shown();
        // Where the legend's words lie: in rows as wide as the chart.
        font(12);
        const words = [];
        let [left, top] = [12, 52];
        for (const [{ name }, { color }] of shown) {
            const wide = pen.measureText(name).width / SCALE + 34;
            if (left + wide > body.width / SCALE && left > 12) [left, top] = [12, top + 18];
            words.push({ name, color, left, top });
            left += wide;
        }
        const head = (top + 26) * SCALE;
        canvas.height = head + body.height;
        pen.fillStyle = themed("--paper");
        pen.fillRect(0, 0, canvas.width, canvas.height);
        font(16);
        pen.fillStyle = themed("--ink");
        pen.fillText(title, 12 * SCALE, 26 * SCALE, canvas.width - 24 * SCALE);
        font(12);
        for (const { name, color, left, top } of words) {
            pen.fillStyle = themed(color);
            pen.fillRect(left * SCALE, (top - 6) * SCALE, 16 * SCALE, 4 * SCALE);
            pen.fillStyle = themed("--ink");
            pen.fillText(name, (left + 20) * SCALE, top * SCALE);
        }
        pen.fillStyle = themed("--quiet");
        pen.fillText(this.above.textContent, 12 * SCALE, head - 6 * SCALE);
        pen.drawImage(body, 0, head);
        save(canvas.toDataURL(), `${this.name()}.png`);
    }

    #tip(points) {
        const known = points.filter((point) => point.seriesType === "line" && point.value[1] !== null && point.value[1] !== undefined);
        if (!known.length) return "";
        const MOST = 14;
        const rows = known.map((point) => [point.seriesName, point.color, point.value[1]]).sort((one, other) => other[2] - one[2]);
        const more = rows.length > MOST ? `and ${rows.length - MOST} lower` : "";
        return tip(full(known[0].value[0], this.model.x.unit), rows.slice(0, MOST), this.model.y.unit, more);
    }

    #labels() {
        if (this.kind === "single") return this.#shown().map(([{ name }]) => name);
        const labels = this.view.x;
        return this.kind === "ranking" && this.model.keyed ? labels.filter((label) => keys.shown.has(label)) : labels;
    }

    #bars() {
        const series = this.#shown().map(([series, { color }]) => ({
            name: series.name, type: "bar", color: themed(color), barMaxWidth: 40, barGap: "5%", emphasis: { disabled: true },
            data: series.y.map((y) => (this.log.y && y === 0 ? null : y)),
        }));
        return { xAxis: this.#labelled(this.view.x), yAxis: this.#axis("y"), series, tooltip: this.#barTip() };
    }

    #ranking() {
        const labels = this.#labels();
        const places = labels.map((label) => this.view.x.indexOf(label));
        const series = this.view.series.map((series, index) => ({ series, index }));
        // Shares of a whole end at it.
        const max = this.model.y.unit === "ratio" ? 1 : null;
        return {
            ...this.#lying(labels, { max }),
            series: series.filter(({ series }) => this.keys.shown.has(series.name)).map(({ series, index }) => ({
                name: series.name, type: "bar", stack: "all", barWidth: "70%", color: themed(plain(index).color),
                emphasis: { disabled: true }, data: places.map((place) => series.y[place]),
            })),
            tooltip: this.#barTip(),
        };
    }

    /** The axes of bars that lie. */
    #lying(labels, more) {
        return {
            yAxis: this.#labelled(labels, { inverse: true, axisLabel: { color: themed("--ink"), interval: 0 } }),
            xAxis: { ...this.#axis("y", { type: "value", ...more }), splitLine: { show: true, lineStyle: { color: themed("--rule") } } },
        };
    }

    /** A bar for each line of one point, with its figure. */
    #single() {
        const { x, y, mark } = this.model;
        const [at] = this.view.x;
        this.above.textContent = `${x.title}: ${full(at, x.unit)}`;
        const shown = this.#shown();
        const marked = (name) => mark && mark.series === name && mark.x === at;
        const label = shown.map(([{ name, y: [value] }]) => full(value, y.unit) + (marked(name) ? ", recommended" : ""));
        const longest = Math.max(0, ...label.map((text) => text.length));
        // A bound is an outline: no policy that can be run.
        const style = ({ color, width }) => (width < 2 ? { color: "transparent", borderColor: themed(color) } : { color: themed(color) });
        const data = shown.map(([series, looks]) => ({ value: series.y[0], itemStyle: style(looks) }));
        return {
            ...this.#lying(shown.map(([{ name }]) => name), { min: 0 }),
            grid: { ...this.#frame().grid, right: 12 + longest * 7 },
            series: [{
                type: "bar", barWidth: "70%", emphasis: { disabled: true }, data,
                label: { show: true, position: "right", color: themed("--ink"), formatter: ({ dataIndex }) => label[dataIndex] },
            }],
            tooltip: {
                ...this.#frame().tooltip, axisPointer: { type: "shadow" },
                formatter: ([{ dataIndex }]) => tip(this.above.textContent, [[shown[dataIndex][0].name, themed(shown[dataIndex][1].color), data[dataIndex].value]], y.unit, ""),
            },
        };
    }

    #barTip() {
        const { unit } = this.model.y;
        const rows = (points) => points.map((point) => [point.seriesName, point.color, point.value]);
        const formatter = (points) => tip(points[0].name, rows(points), unit, "");
        return { ...this.#frame().tooltip, axisPointer: { type: "shadow" }, formatter };
    }

    /** The cells as one picture, stretched over the axes: as fast at a hundred thousand cells as at ten. */
    #grid() {
        const { columns, rows, x, y } = this.view.grid;
        const shown = this.#shown();
        const picture = cells(columns, rows, shown.map(([series, { color }]) => [series.y, themed(color)]));
        let pointer = null;
        this.echart.getZr().off("mousemove");
        this.echart.getZr().on("mousemove", (event) => { pointer = [event.offsetX, event.offsetY]; });
        const place = (at, [from, to], count) => Math.min(count - 1, Math.max(0, Math.floor(((at - from) / (to - from)) * count)));
        const formatter = () => {
            if (!pointer) return "";
            const [atX, atY] = this.echart.convertFromPixel({ gridIndex: 0 }, pointer);
            const cell = place(atY, y, rows) * columns + place(atX, x, columns);
            const counts = shown.map(([series, { color }]) => [series.name, themed(color), series.y[cell]]);
            return tip(`${full(atX, this.model.x.unit)}, ${full(atY, this.model.y.unit)}`, counts, "number", "");
        };
        return {
            xAxis: this.#axis("x", { min: x[0], max: x[1] }),
            yAxis: this.#axis("y", { min: y[0], max: y[1], axisLine: { show: true, lineStyle: { color: themed("--quiet") } } }),
            tooltip: { ...this.#frame().tooltip, trigger: "item", formatter },
            dataZoom: [0, 1].map((axis) => ({
                ...this.#frame().dataZoom[0], xAxisIndex: axis === 0 ? 0 : [], yAxisIndex: axis === 1 ? 0 : [],
            })),
            series: [{
                type: "custom", clip: true, data: [[x[0], y[0], x[1], y[1]]], encode: { x: [0, 2], y: [1, 3] },
                renderItem: (_, api) => {
                    const [left, top] = api.coord([x[0], y[1]]);
                    const [right, bottom] = api.coord([x[1], y[0]]);
                    return { type: "image", style: { image: picture, x: left, y: top, width: right - left, height: bottom - top } };
                },
            }],
        };
    }
}

/** What stands under the pointer: a head, and rows of [name, colour, figure]. */
function tip(head, rows, unit, more) {
    const row = ([name, color, value]) =>
        `<tr><td><i style="background:${color}"></i>${escaped(name)}</td><td>${full(value, unit)}</td></tr>`;
    return `<b>${escaped(head)}</b><table>${rows.map(row).join("")}</table>${more}`;
}

/** A picture of cells: the colour is the mean of the series' there, by count, and the deeper the more there is. */
function cells(columns, rows, series) {
    const PIXELS = 3; // a cell's edge, so that its own stays sharp when the picture is stretched
    const canvas = element("canvas", { width: columns, height: rows });
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const colors = series.map(([, color]) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)));
    const total = (cell) => series.reduce((sum, [counts]) => sum + counts[cell], 0);
    let most = 1;
    for (let cell = 0; cell < columns * rows; cell++) most = Math.max(most, total(cell));
    for (let cell = 0; cell < columns * rows; cell++) {
        const count = total(cell);
        if (count === 0) continue;
        const row = rows - 1 - Math.floor(cell / columns); // pictures begin at the top
        const at = 4 * (row * columns + (cell % columns));
        for (let part = 0; part < 3; part++) {
            image.data[at + part] = series.reduce((sum, [counts], index) => sum + counts[cell] * colors[index][part], 0) / count;
        }
        image.data[at + 3] = 255 * (0.35 + (0.65 * Math.log1p(count)) / Math.log1p(most));
    }
    context.putImageData(image, 0, 0);
    const large = element("canvas", { width: columns * PIXELS, height: rows * PIXELS });
    const drawn = large.getContext("2d");
    drawn.imageSmoothingEnabled = false;
    drawn.drawImage(canvas, 0, 0, large.width, large.height);
    return large;
}
