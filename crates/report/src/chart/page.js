"use strict";
(() => {
  const chart = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("chart");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let isDark = dark.matches;
  let view = null;
  const hidden = new Set();

  const element = (name, attributes = {}, parent = null) => {
    const svg = ["svg", "path", "text", "rect", "line", "circle", "g", "clipPath", "defs"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "text") made.textContent = value; else made.setAttribute(key, value);
    }
    if (parent) parent.append(made);
    return made;
  };

  // Numbers for people. Steps are the distances of ticks.
  const round = (value) => { const d = 10 ** Math.floor(Math.log10(value)); return [1, 2, 5, 10].map((m) => m * d).find((s) => s >= value * (1 - 1e-9)); };
  const step = (unit, span, count) => {
    const rough = Math.max(span / count, 1e-9);
    if (unit === "seconds") {
      return [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200].find((s) => s >= rough) || 86400 * round(rough / 86400);
    }
    if (unit === "bytes") {
      const base = 1024 ** Math.floor(Math.log2(Math.max(rough, 1)) / 10);
      return base * ([1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 400, 512, 1024].find((s) => s * base >= rough) || 1024);
    }
    return round(rough);
  };
  const decimals = (by) => (by >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(by))));
  const write = (unit, value, by) => {
    if (unit === "bytes") {
      if (value === 0) return "0";
      const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(Math.abs(value), 1)) / 10)));
      const factor = 1024 ** power;
      const digits = by / factor % 1 === 0 ? 0 : by / factor >= 0.1 ? 1 : 2;
      return (value / factor).toFixed(digits) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][power];
    }
    if (unit === "seconds") {
      const whole = Math.round(value);
      const two = (n) => String(n).padStart(2, "0");
      if (by < 1) return value.toFixed(1) + " s";
      if (whole === 0) return "0";
      if (by < 60) return whole < 120 ? whole + " s" : Math.floor(whole / 60) + ":" + two(whole % 60);
      if (by < 3600) return whole < 7200 ? Math.floor(whole / 60) + " min" : Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) + " h";
      return whole < 172800 ? Math.floor(whole / 3600) + " h" : (value / 86400).toFixed(0) + " d";
    }
    return value.toFixed(decimals(by)) + (unit === "ms" ? " ms" : "");
  };
  const exactly = (unit, value) => {
    if (value === null || value === undefined) return "–";
    if (unit === "bytes") return write(unit, value, value >= 1048576 ? 0.3 * 1024 ** Math.floor(Math.log2(value) / 10) : 1);
    return unit === "cores" ? value.toFixed(2) : write(unit, value, 0.001);
  };
  const moment = (value) => {
    if (chart.unit !== "seconds") return exactly(chart.unit, value);
    const s = Math.floor(value), two = (n) => String(n).padStart(2, "0");
    return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60) + (value % 1).toFixed(1).slice(1);
  };

  const all = chart.panels.flatMap((panel) => panel.series);
  // A mark may lie before the first sample: it names the start.
  const extent = all.map((s) => s.x).concat(all.some((s) => s.x.length) ? [chart.marks.map((mark) => mark.x)] : [])
    .reduce((r, xs) => xs.length ? [Math.min(r[0], xs[0]), Math.max(r[1], xs[xs.length - 1])] : r, [Infinity, -Infinity]);
  const color = (series) => (isDark ? series.dark : series.light);

  // Index of the last point at or before x.
  const before = (xs, x) => {
    let low = 0, high = xs.length;
    while (low < high) { const mid = (low + high) >> 1; if (xs[mid] <= x) low = mid + 1; else high = mid; }
    return low - 1;
  };

  // Lower and upper edges as drawn, visible stacked areas on each other.
  const edges = (panel) => {
    let base = [];
    return panel.series.map((series) => {
      if (hidden.has(series.name)) return null;
      if (series.shape === "stacked") {
        const low = series.x.map((_, i) => base[i] || 0);
        base = low.map((b, i) => b + (series.y[i] || 0));
        return { low, high: base };
      }
      if (series.shape === "band") return { low: series.low, high: series.high };
      return { low: series.y, high: series.y };
    });
  };

  document.title = chart.title;
  element("h1", { text: chart.title }, root);
  element("div", { class: "sub", text: chart.subtitle }, root);
  const bar = element("div", { class: "bar" }, root);
  const reset = element("button", { text: "Whole range", type: "button" }, bar);
  const theme = element("button", { text: "Light / dark", type: "button" }, bar);
  const legend = element("div", { class: "legend" }, root);
  const svg = element("svg", {}, root);
  const tip = element("div", { class: "tip" }, root);
  element("div", { class: "hint", text: "Move over the chart for values. Drag to zoom, double-click for the whole range. Click a name to hide it, double-click to see it alone." }, root);

  const names = [...new Map(all.map((series) => [series.name, series])).values()];
  // Made once: an entry that is pressed keeps the keyboard's focus.
  const entries = names.map((series) => {
    const entry = element("button", { type: "button" }, legend), swatch = element("i", {}, entry);
    entry.append(series.name);
    entry.addEventListener("click", () => { hidden.has(series.name) ? hidden.delete(series.name) : hidden.add(series.name); draw(); });
    entry.addEventListener("dblclick", () => {
      const alone = names.every((other) => other === series || hidden.has(other.name));
      hidden.clear();
      if (!alone) names.forEach((other) => other !== series && hidden.add(other.name));
      draw();
    });
    return { series, entry, swatch };
  });
  const drawLegend = () => {
    for (const { series, entry, swatch } of entries) {
      entry.className = hidden.has(series.name) ? "off" : "";
      entry.setAttribute("aria-pressed", !hidden.has(series.name));
      swatch.style.background = color(series);
    }
  };

  const LEFT = 76, RIGHT = 16, GAP = 40, AXIS = 28;
  let frames = [], width = 0, height = 0;

  const path = (series, edge, frame, from, to) => {
    const point = (i, y) => frame.x(series.x[i]).toFixed(1) + " " + frame.y(y).toFixed(1);
    const through = (ys, close) => {
      let d = "", down = false;
      for (let i = from; i <= to; i++) {
        if (ys[i] === null) { down = close && down; continue; }
        d += (down ? "L" : "M") + point(i, ys[i]); down = true;
      }
      return d;
    };
    if (series.shape === "line") return { line: through(series.y, false) };
    let d = through(edge.high, true);
    for (let i = to; i >= from; i--) if (edge.low[i] !== null) d += "L" + point(i, edge.low[i]);
    return { area: d + "Z", line: series.shape === "band" ? through(series.y, false) : null };
  };

  const draw = () => {
    document.documentElement.classList.toggle("dark", isDark);
    drawLegend();
    reset.style.visibility = view ? "visible" : "hidden";
    svg.replaceChildren();
    width = svg.clientWidth || 1000;
    height = Math.max(320, Math.min(innerHeight - svg.getBoundingClientRect().top - scrollY - 64, 900));
    svg.setAttribute("height", height);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (!(extent[1] >= extent[0])) { element("text", { x: LEFT, y: 40, text: "There are no samples to show." }, svg); return; }
    const [x0, x1] = view || (extent[1] > extent[0] ? extent : [extent[0], extent[0] + 1]);
    const weights = chart.panels.reduce((sum, panel) => sum + panel.weight, 0);
    const room = height - AXIS - GAP * chart.panels.length;
    let top = GAP - 12;
    frames = chart.panels.map((panel, index) => {
      const bottom = top + room * panel.weight / weights, drawn = edges(panel);
      let most = 0;
      panel.series.forEach((series, i) => {
        if (!drawn[i]) return;
        const from = Math.max(0, before(series.x, x0)), to = Math.min(series.x.length - 1, before(series.x, x1) + 1);
        for (let k = from; k <= to; k++) if (drawn[i].high[k] > most) most = drawn[i].high[k];
      });
      most = most > 0 ? most * 1.04 : 1;
      const frame = { top, bottom, panel, drawn, x: (v) => LEFT + (v - x0) / (x1 - x0) * (width - LEFT - RIGHT), y: (v) => bottom - v / most * (bottom - top) };
      element("text", { class: "panel", x: LEFT, y: top - 9, text: panel.title }, svg);
      const rows = Math.max(2, Math.round((bottom - top) / 55)), by = step(panel.unit, most, rows);
      for (let tick = 0; tick <= most; tick += by) {
        element("path", { class: "grid", d: `M${LEFT} ${frame.y(tick)}H${width - RIGHT}` }, svg);
        element("text", { x: LEFT - 8, y: frame.y(tick) + 4, "text-anchor": "end", text: write(panel.unit, tick, by) }, svg);
      }
      const clip = element("clipPath", { id: "clip" + index }, element("defs", {}, svg));
      element("rect", { x: LEFT, y: top - 2, width: width - LEFT - RIGHT, height: bottom - top + 3 }, clip);
      const group = element("g", { "clip-path": `url(#clip${index})` }, svg);
      panel.series.forEach((series, i) => {
        if (!drawn[i] || !series.x.length) return;
        const from = Math.max(0, before(series.x, x0)), to = Math.min(series.x.length - 1, before(series.x, x1) + 1);
        if (series.shape === "dots") {
          for (let k = from; k <= to; k++) if (series.y[k] !== null) element("circle", { cx: frame.x(series.x[k]), cy: frame.y(series.y[k]), r: 3, fill: color(series) }, group);
          return;
        }
        const { area, line } = path(series, drawn[i], frame, from, to);
        if (area) element("path", { d: area, fill: color(series), "fill-opacity": series.shape === "band" ? 0.2 : 0.82 }, group);
        if (line) element("path", { d: line, fill: "none", stroke: color(series), "stroke-width": 1.6, "stroke-linejoin": "round" }, group);
      });
      let free = -Infinity;
      for (const mark of chart.marks) {
        if (mark.x < x0 || mark.x > x1) continue;
        const x = frame.x(mark.x);
        element("path", { class: "mark", d: `M${x} ${top}V${bottom}` }, svg);
        if (index === 0 && x > free) {
          const length = mark.name.length * 6.6, end = x + length > width - RIGHT;
          element("text", { x: x + (end ? -4 : 4), y: top + 12, "text-anchor": end ? "end" : "start", text: mark.name }, svg);
          free = x + length + 8;
        }
      }
      element("path", { class: "axis", d: `M${LEFT} ${bottom}H${width - RIGHT}` }, svg);
      top = bottom + GAP;
      return frame;
    });
    const last = frames[frames.length - 1], by = step(chart.unit, x1 - x0, Math.max(2, Math.round((width - LEFT - RIGHT) / 110)));
    for (let tick = Math.ceil(x0 / by - 1e-9) * by; tick <= x1; tick += by) {
      element("path", { class: "axis", d: `M${last.x(tick)} ${last.bottom}v5` }, svg);
      element("text", { x: last.x(tick), y: last.bottom + 19, "text-anchor": "middle", text: write(chart.unit, tick, by) }, svg);
    }
    cross = element("line", { class: "cross", y1: GAP - 12, y2: last.bottom, visibility: "hidden" }, svg);
    zoom = element("rect", { class: "zoom", y: GAP - 12, height: last.bottom - GAP + 12, visibility: "hidden" }, svg);
  };
  let cross = null, zoom = null, dragFrom = null;

  const valueAt = (event) => {
    const box = svg.getBoundingClientRect(), [x0, x1] = view || extent;
    const share = Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)));
    return x0 + share * (x1 - x0);
  };

  const showTip = (event) => {
    const at = valueAt(event), x = frames[0].x(at);
    for (const end of ["x1", "x2"]) cross.setAttribute(end, x);
    cross.setAttribute("visibility", "visible");
    tip.replaceChildren();
    element("b", { text: moment(at) }, tip);
    const near = chart.marks.filter((mark) => Math.abs(frames[0].x(mark.x) - x) < 5);
    for (const mark of near) element("div", { text: "▸ " + mark.name }, tip);
    const table = element("table", {}, tip);
    for (const frame of frames) {
      let sum = 0, stacked = 0;
      const rows = [];
      frame.panel.series.forEach((series) => {
        if (hidden.has(series.name) || !series.x.length) return;
        const i = before(series.x, at);
        const value = i < 0 || (i === series.x.length - 1 && at > series.x[i] + (extent[1] - extent[0]) / 50) ? null : series.y[i];
        if (value === null || value === undefined) return;
        if (series.shape === "stacked") { sum += value; stacked++; }
        rows.push({ series, value });
      });
      if (rows.length > 14) rows.sort((a, b) => b.value - a.value);
      const first = element("tr", {}, table);
      element("td", { text: frame.panel.title, style: "color:var(--soft)" }, first);
      element("td", { text: stacked > 1 ? exactly(frame.panel.unit, sum) : "" }, first);
      for (const { series, value } of rows.slice(0, 14).reverse()) {
        const row = element("tr", {}, table), name = element("td", {}, row);
        element("i", { style: "background:" + color(series) }, name);
        name.append(series.name);
        element("td", { text: exactly(frame.panel.unit, value) }, row);
      }
      if (rows.length > 14) element("td", { text: `and ${rows.length - 14} more` }, element("tr", {}, table));
    }
    tip.style.display = "block";
    const box = root.getBoundingClientRect(), right = event.clientX - box.left + 18;
    tip.style.left = Math.max(0, right + tip.offsetWidth > box.width ? right - tip.offsetWidth - 36 : right) + "px";
    tip.style.top = Math.max(0, event.clientY - box.top - tip.offsetHeight / 2) + "px";
  };

  svg.addEventListener("pointermove", (event) => {
    if (!frames.length) return;
    showTip(event);
    if (dragFrom !== null) {
      const [a, b] = [dragFrom, valueAt(event)].map(frames[0].x).sort((p, q) => p - q);
      zoom.setAttribute("x", a); zoom.setAttribute("width", b - a); zoom.setAttribute("visibility", "visible");
    }
  });
  svg.addEventListener("pointerdown", (event) => { if (frames.length && event.button === 0) { dragFrom = valueAt(event); svg.setPointerCapture(event.pointerId); } });
  svg.addEventListener("pointerup", (event) => {
    if (dragFrom === null) return;
    const [a, b] = [dragFrom, valueAt(event)].sort((p, q) => p - q);
    dragFrom = null;
    if (frames[0].x(b) - frames[0].x(a) > 6) view = [a, b];
    draw();
  });
  svg.addEventListener("pointerleave", () => { tip.style.display = "none"; if (cross) cross.setAttribute("visibility", "hidden"); });
  svg.addEventListener("dblclick", () => { view = null; draw(); });
  reset.addEventListener("click", () => { view = null; draw(); });
  theme.addEventListener("click", () => { isDark = !isDark; draw(); });
  dark.addEventListener("change", () => { isDark = dark.matches; draw(); });
  addEventListener("resize", draw);
  draw();
})();
