// Where ticks, names and words of a chart lie.

/** Powers from the least to the most figure of an axis, at equal ratios, about ten at most; none where that would be less than two. */
function powers(least, most, base) {
    const [first, last] = [Math.ceil(Math.log(least) / Math.log(base) - 1e-9), Math.floor(Math.log(most) / Math.log(base) + 1e-9)];
    const step = Math.max(1, Math.ceil((last - first) / 10));
    const found = [];
    for (let power = first; power <= last; power += step) found.push(base ** power);
    return found.length < 2 ? [] : found;
}

/** Numbers of pages between the least and the most that are round in bytes: multiples of a power of two, four to eight from nothing on. */
function multiples(least, most, pages) {
    const step = 2 ** Math.floor(Math.log2((most * pages) / 4)) / pages;
    const found = [];
    for (let at = Math.max(0, Math.ceil(least / step - 1e-9)) * step; at <= most * (1 + 1e-9); at += step) found.push(at);
    return found;
}

/** Where names of one height lie: as near as can be to the rising places where they belong, without meeting, between two bounds. */
function apart(wanted, height, least, most) {
    // Names that touch are a group, which begins where its names are off by the least on the whole.
    const groups = [];
    for (const place of wanted) {
        groups.push({ sum: place, count: 1 });
        while (groups.length > 1) {
            const [above, below] = groups.slice(-2);
            if (above.sum / above.count + above.count * height <= below.sum / below.count) break;
            const sum = above.sum + below.sum - below.count * above.count * height;
            groups.splice(-2, 2, { sum, count: above.count + below.count });
        }
    }
    const places = groups.flatMap(({ sum, count }) => Array.from({ length: count }, (_, index) => sum / count + index * height));
    // At the bounds others give way.
    for (let index = 0, free = least; index < places.length; index++, free += height) {
        free = places[index] = Math.max(places[index], free);
    }
    for (let index = places.length - 1, free = most; index >= 0; index--, free -= height) {
        free = places[index] = Math.min(places[index], free);
    }
    return places;
}

/** Where the middle of the word beside a mark covers the least of lines, within the frame. */
function wordPlace([left, top], box, lines) {
    const [half, height] = [42, 9];
    const offsets = [[0, -20], [0, 20], [-54, -16], [54, 16], [54, -16], [-54, 16], [0, -60], [0, 60]];
    const places = offsets.map(([right, down]) => [
        Math.min(Math.max(left + right, box.x + half), box.x + box.width - half),
        Math.min(Math.max(top + down, box.y + height), box.y + box.height - height),
    ]);
    // By the points of each line, a pixel apart.
    const covered = ([x, y]) => {
        let count = Math.hypot(x - left, y - top) < 16 ? Infinity : 0;
        for (const line of lines) {
            for (let end = 1; end < line.length; end++) {
                const [[from, at], [to, then]] = [line[end - 1], line[end]];
                for (let across = Math.max(from, x - half); across <= Math.min(to, x + half); across++) {
                    if (Math.abs(at + ((then - at) * (across - from)) / (to - from || 1) - y) <= height) count++;
                }
            }
        }
        return count;
    };
    const counts = places.map(covered);
    return places[counts.indexOf(Math.min(...counts))];
}
