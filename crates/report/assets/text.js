// Figures as text.
"use strict";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 4 });

function bytes(count) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; count >= 1024 && unit + 1 < units.length; unit++) count /= 1024;
    const exact = Number.isInteger(count);
    return `${count >= 100 || exact ? whole.format(count) : count.toFixed(1)} ${units[unit]}`;
}

function seconds(count) {
    if (count >= 3600) return `${whole.format(count)} s (${(count / 3600).toFixed(1)} h)`;
    return `${short.format(count)} s`;
}

/** A figure in full, as in tables and under the pointer. */
function full(value, unit) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "string") return value;
    if (unit.pages) return `${bytes(value * unit.pages)} (${whole.format(value)} pages)`;
    switch (unit) {
        case "ratio": return `${(100 * value).toFixed(2)} %`;
        case "seconds": return seconds(value);
        case "milliseconds": return `${short.format(value)} ms`;
        case "bytes": return bytes(value);
        default: return Number.isInteger(value) ? whole.format(value) : short.format(value);
    }
}

/** A figure beside an axis. */
function tick(value, unit) {
    if (unit.pages) return bytes(value * unit.pages);
    switch (unit) {
        case "ratio": return `${short.format(100 * value)} %`;
        case "seconds": return `${short.format(value)} s`;
        case "milliseconds": return `${short.format(value)} ms`;
        case "bytes": return bytes(value);
        default: return value < 10000 ? short.format(value) : compact.format(value);
    }
}

/** Rows for a spreadsheet. */
function csv(rows) {
    const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : `${value}`);
    return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}
