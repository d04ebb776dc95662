"use strict";
// Interactive charts: values on hover, zoom by dragging, and names that hide their series when clicked.
// The drawing matches crates/report/src/chart/svg.rs, redone for the visible range and width.

// --- ticks: as Unit::step and Unit::write in crates/report/src/chart/scale.rs -----------------------------------------
unbloat.axis = (() => {
  const SECONDS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200];
  const BYTES = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 400, 512, 1024];
  const DAY = 86400;
  const two = (number) => String(number).padStart(2, "0");

  const roundUp = (value) => {
    const decade = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((factor) => factor * decade).find((step) => step >= value * (1 - 1e-9)) ?? value;
  };

  /** Distance between ticks such that there are about `count` of them. */
  const step = (unit, span, count) => {
    const rough = Math.max(span / Math.max(count, 1), 2.2250738585072014e-308);
    if (unit === "seconds") return SECONDS.find((s) => s >= rough) ?? DAY * roundUp(rough / DAY);
    if (unit !== "bytes") return roundUp(rough);
    const base = 1024 ** Math.floor(Math.log2(Math.max(rough, 1)) / 10);
    return base * (BYTES.find((s) => s * base >= rough) ?? 1024);
  };

  const decimal = (value, by) => value.toFixed(by >= 1 ? 0 : Math.min(6, Math.max(0, Math.ceil(-Math.log10(by)))));

  const bytes = (value, by) => {
    const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(Math.abs(value), 1)) / 10)));
    const precision = by / 1024 ** power;
    // As many decimals as the step requires, or two.
    const digits = [0, 1, 2, 3].find((d) => precision * 10 ** d % 1 === 0) ?? 2;
    return (value / 1024 ** power).toFixed(digits) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][power];
  };

  const seconds = (value, by) => {
    const whole = Math.round(value);
    if (by < 1) return value.toFixed(1) + " s";
    if (whole === 0) return "0";
    if (by < 60) return whole < 120 ? whole + " s" : Math.floor(whole / 60) + ":" + two(whole % 60);
    if (by < 3600 && whole < 7200) return Math.floor(whole / 60) + " min";
    if (by < 3600) return Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) + " h";
    if (whole < 2 * DAY) return Math.floor(whole / 3600) + " h";
    return (value / DAY).toFixed(by % DAY === 0 ? 0 : 1) + " d";
  };

  /** A value at a tick; `by`, the distance between ticks, determines the precision. */
  const write = (unit, value, by) => {
    if (unit === "bytes") return value === 0 ? "0" : bytes(value, by);
    if (unit === "seconds") return seconds(value, by);
    return decimal(value, by) + (unit === "ms" ? " ms" : "");
  };

  /** A value under the pointer. */
  const exactly = (unit, value) => {
    if (unit === "bytes") return write(unit, value, value >= 1048576 ? 0.3 * 1024 ** Math.floor(Math.log2(value) / 10) : 1);
    return unit === "cores" ? value.toFixed(2) : write(unit, value, 0.001);
  };

  /** A position on the horizontal axis under the pointer. */
  const moment = (unit, value) => {
    if (unit !== "seconds") return exactly(unit, value);
    const whole = Math.floor(value), tenths = (value % 1).toFixed(1).slice(1);
    return Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) + ":" + two(whole % 60) + tenths;
  };

  return { step, write, exactly, moment };
})();

(() => {
  const { fill, make, tip, axis } = unbloat;
  const LEFT = 76, RIGHT = 16, GAP = 40, TITLE = 28, AXIS = 28;
  const LETTER = 6.9; // width of a letter, estimated generously
  const ROWS = 14; // maximum number of values per panel in a tip
  const DRAG = 6; // minimum drag in pixels that selects a range

  const svg = (name, ...rest) => fill(document.createElementNS("http://www.w3.org/2000/svg", name), ...rest);

  /** Index of the last value at or before x, -1 if there is none. */
  const before = (xs, x) => {
    let low = 0, high = xs.length;
    while (low < high) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle + 1; else high = middle; }
    return low - 1;
  };

  class Chart {
    constructor(figure, number) {
      this.number = number;
      this.data = JSON.parse(figure.querySelector(".data").textContent);
      this.series = this.data.panels.flatMap((panel) => panel.series);
      this.extent = this.wholeRange();
      this.view = this.extent;
      this.hidden = new Set();
      this.frames = [];
      this.dragFrom = null;
      this.reset = make("button", { type: "button", class: "reset", disabled: "" }, "whole range");
      this.reset.addEventListener("click", () => this.show(this.extent));
      this.svg = svg("svg", { role: "img", "aria-label": figure.getAttribute("aria-label") });
      const hint = "Move over the chart for values. Drag to zoom, double-click for the whole range. "
        + "Click a name to hide it, double-click to see it alone.";
      figure.append(make("div", { class: "tools" }, this.legend(), this.reset), this.svg, make("p", { class: "quiet hint" }, hint));
      this.listen();
      new ResizeObserver(() => { if (this.svg.clientWidth !== this.width) this.draw(); }).observe(this.svg);
      this.draw();
    }

    /** Range of all values and marks, since a mark may precede the values to name the start. `null` without values. */
    wholeRange() {
      const filled = this.series.filter((series) => series.x.length);
      if (!filled.length) return null;
      const ends = filled.flatMap(({ x }) => [x[0], x[x.length - 1]]).concat(this.data.marks.map((mark) => mark.x));
      const from = Math.min(...ends), to = Math.max(...ends);
      return [from, to > from ? to : from + 1];
    }

    show(view) {
      this.view = view;
      this.draw();
    }

    // --- the legend -------------------------------------------------------------------------------------------------
    /** Buttons, created once so that a pressed one keeps the keyboard focus. */
    legend() {
      const names = [...new Map(this.series.map((series) => [series.name, series])).values()];
      this.entries = names.map((series) => {
        const entry = make("button", { type: "button" }, make("i", { class: series.color }), series.name);
        entry.addEventListener("click", () => {
          if (!this.hidden.delete(series.name)) this.hidden.add(series.name);
          this.draw();
        });
        entry.addEventListener("dblclick", () => {
          const alone = names.every((other) => other === series || this.hidden.has(other.name));
          this.hidden = new Set(alone ? [] : names.filter((other) => other !== series).map((other) => other.name));
          this.draw();
        });
        return { name: series.name, entry };
      });
      return make("div", { class: "legend" }, ...this.entries.map(({ entry }) => entry));
    }

    // --- drawing ----------------------------------------------------------------------------------------------------
    draw() {
      for (const { name, entry } of this.entries) entry.setAttribute("aria-pressed", !this.hidden.has(name));
      this.reset.disabled = this.view === this.extent;
      this.svg.replaceChildren();
      this.width = this.svg.clientWidth || 1000;
      // As high as its content needs, and no higher than its width.
      const unit = Math.min(100, Math.max(56, this.width * .085));
      const panels = this.data.panels, weights = panels.reduce((sum, panel) => sum + panel.weight, 0);
      const height = this.extent ? unit * weights + panels.length * GAP - (GAP - TITLE) + AXIS : 40;
      this.svg.setAttribute("height", height);
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
      if (!this.extent) { this.text(LEFT, 26, "There are no samples to show.", "sub"); return; }
      let top = TITLE;
      this.frames = panels.map((panel, index) => {
        const frame = this.frame(panel, top, top + unit * panel.weight);
        this.drawPanel(frame, index);
        top = frame.bottom + GAP;
        return frame;
      });
      this.drawAxis(this.frames[this.frames.length - 1]);
      const bottom = this.frames[this.frames.length - 1].bottom;
      this.cross = this.svg.appendChild(svg("line", { class: "cross", y1: TITLE, y2: bottom, visibility: "hidden" }));
      this.chosen = this.svg.appendChild(svg("rect", { class: "zoom", y: TITLE, height: bottom - TITLE, visibility: "hidden" }));
    }

    text(x, y, content, className) {
      this.svg.append(svg("text", { x, y, class: className }, content));
    }

    /** The coordinates of a panel, and the edges of its drawing. */
    frame(panel, top, bottom) {
      const [from, to] = this.view, right = this.width - RIGHT;
      const edges = this.edges(panel);
      let most = 0;
      panel.series.forEach((series, i) => {
        if (!edges[i]) return;
        const [first, last] = this.inView(series);
        for (let k = first; k <= last; k++) if (edges[i].high[k] > most) most = edges[i].high[k];
      });
      most = most > 0 ? most * 1.04 : 1;
      return {
        panel, top, bottom, right, edges, most,
        x: (value) => LEFT + (value - from) / (to - from) * (right - LEFT),
        y: (value) => bottom - value / most * (bottom - top),
      };
    }

    /** Lower and upper edges; visible areas are stacked. */
    edges(panel) {
      let base = [];
      return panel.series.map((series) => {
        if (this.hidden.has(series.name)) return null;
        if (series.shape === "band") return { low: series.low, high: series.high };
        if (series.shape !== "stacked") return { low: series.y, high: series.y };
        const low = series.x.map((_, i) => base[i] ?? 0);
        base = low.map((under, i) => under + (series.y[i] ?? 0));
        return { low, high: base };
      });
    }

    /** The first and the last index needed for the visible lines. */
    inView({ x }) {
      return [Math.max(0, before(x, this.view[0])), Math.min(x.length - 1, before(x, this.view[1]) + 1)];
    }

    drawPanel(frame, index) {
      const { panel, top, bottom, right } = frame;
      this.text(LEFT, top - 9, panel.title, "panel");
      const by = axis.step(panel.unit, frame.most, Math.max(2, Math.round((bottom - top) / 55)));
      for (let n = 0; n * by <= frame.most; n++) {
        const y = frame.y(n * by);
        this.svg.append(svg("path", { class: "grid", d: `M${LEFT} ${y}H${right}` }));
        this.text(LEFT - 8, y + 4, axis.write(panel.unit, n * by, by), "tick end");
      }
      const id = `clip-${this.number}-${index}`;
      const clip = svg("clipPath", { id }, svg("rect", { x: LEFT, y: top - 2, width: right - LEFT, height: bottom - top + 3 }));
      const group = svg("g", { "clip-path": `url(#${id})` });
      this.svg.append(clip, group);
      panel.series.forEach((series, i) => { if (frame.edges[i] && series.x.length) this.drawSeries(group, series, frame, i); });
      this.drawMarks(frame, index === 0);
      this.svg.append(svg("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }));
    }

    drawSeries(group, series, frame, i) {
      const [first, last] = this.inView(series), { low, high } = frame.edges[i];
      const at = (k, y) => frame.x(series.x[k]).toFixed(1) + " " + frame.y(y).toFixed(1);
      const through = (ys) => {
        let d = "", down = false;
        for (let k = first; k <= last; k++) {
          if (ys[k] !== null) d += (down ? "L" : "M") + at(k, ys[k]);
          down = ys[k] !== null;
        }
        return d;
      };
      const around = () => {
        const points = [];
        for (let k = first; k <= last; k++) if (high[k] !== null) points.push(at(k, high[k]));
        for (let k = last; k >= first; k--) if (low[k] !== null) points.push(at(k, low[k]));
        return points.length ? "M" + points.join("L") + "Z" : "";
      };
      const add = (name, shape, attributes) => group.append(svg(name, { class: `${shape} ${series.color}`, ...attributes }));
      if (series.shape === "stacked") add("path", "area", { d: around() });
      if (series.shape === "band") add("path", "band", { d: around() });
      if (series.shape === "band" || series.shape === "line") add("path", "line", { d: through(series.y) });
      if (series.shape !== "dots") return;
      for (let k = first; k <= last; k++) {
        if (series.y[k] !== null) add("circle", "dot", { cx: frame.x(series.x[k]), cy: frame.y(series.y[k]), r: 3 });
      }
    }

    /** A line at each mark, and its name unless that would overlap another; the tip shows them all. */
    drawMarks(frame, named) {
      const [from, to] = this.view;
      let freeFrom = -Infinity;
      for (const mark of this.data.marks) {
        if (mark.x < from || mark.x > to) continue;
        const x = frame.x(mark.x);
        this.svg.append(svg("path", { class: "mark", d: `M${x} ${frame.top}V${frame.bottom}` }));
        if (!named || x <= freeFrom) continue;
        const length = mark.name.length * LETTER, atEnd = x + length > frame.right;
        this.text(x + (atEnd ? -4 : 4), frame.top + 12, mark.name, atEnd ? "tick end" : "tick");
        freeFrom = x + length + LETTER;
      }
    }

    drawAxis({ x, bottom, right }) {
      const [from, to] = this.view, unit = this.data.unit;
      const by = axis.step(unit, to - from, Math.max(2, Math.round((right - LEFT) / 110)));
      for (let n = Math.ceil(from / by - 1e-9); n * by <= to + by * 1e-6; n++) {
        this.svg.append(svg("path", { class: "axis", d: `M${x(n * by)} ${bottom}v5` }));
        this.text(x(n * by), bottom + 19, axis.write(unit, n * by, by), "tick middle");
      }
    }

    // --- the pointer ------------------------------------------------------------------------------------------------
    listen() {
      const chart = this.svg;
      chart.addEventListener("pointermove", (event) => { if (this.frames.length) this.point(event); });
      chart.addEventListener("pointerdown", (event) => {
        if (!this.frames.length || event.button !== 0) return;
        this.dragFrom = this.valueAt(event);
        chart.setPointerCapture(event.pointerId);
      });
      chart.addEventListener("pointerup", (event) => this.release(event));
      chart.addEventListener("pointercancel", () => { this.dragFrom = null; this.draw(); });
      chart.addEventListener("pointerleave", () => { tip.hide(); this.cross?.setAttribute("visibility", "hidden"); });
      chart.addEventListener("dblclick", () => this.show(this.extent));
    }

    valueAt(event) {
      const box = this.svg.getBoundingClientRect(), [from, to] = this.view;
      const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      return from + Math.min(1, Math.max(0, share)) * (to - from);
    }

    point(event) {
      const at = this.valueAt(event), x = this.frames[0].x(at);
      this.cross.setAttribute("x1", x);
      this.cross.setAttribute("x2", x);
      this.cross.setAttribute("visibility", "visible");
      tip.show(event.clientX, event.clientY, ...this.describe(at, x));
      if (this.dragFrom === null) return;
      const [from, to] = [this.dragFrom, at].map(this.frames[0].x).sort((a, b) => a - b);
      this.chosen.setAttribute("x", from);
      this.chosen.setAttribute("width", to - from);
      this.chosen.setAttribute("visibility", "visible");
    }

    release(event) {
      if (this.dragFrom === null) return;
      const [from, to] = [this.dragFrom, this.valueAt(event)].sort((a, b) => a - b), { x } = this.frames[0];
      this.dragFrom = null;
      this.show(x(to) - x(from) > DRAG ? [from, to] : this.view);
    }

    /** Content of the tip at a position: the moment, nearby marks, and a table of values. */
    describe(at, x) {
      const near = this.data.marks.filter((mark) => Math.abs(this.frames[0].x(mark.x) - x) < 5);
      const table = make("table");
      for (const { panel } of this.frames) {
        const rows = panel.series.map((series) => ({ series, value: this.valueOf(series, at) })).filter(({ value }) => value !== null);
        const stacked = rows.filter(({ series }) => series.shape === "stacked");
        const sum = stacked.reduce((total, { value }) => total + value, 0);
        this.row(table, "quiet", [panel.title], stacked.length > 1 ? axis.exactly(panel.unit, sum) : "");
        if (rows.length > ROWS) rows.sort((a, b) => b.value - a.value);
        for (const { series, value } of rows.slice(0, ROWS).reverse()) {
          this.row(table, "", [make("i", { class: series.color }), series.name], axis.exactly(panel.unit, value));
        }
        if (rows.length > ROWS) this.row(table, "quiet", [`and ${rows.length - ROWS} more`], "");
      }
      const names = near.map((mark) => make("div", {}, "▸ " + mark.name));
      return [make("b", {}, axis.moment(this.data.unit, at)), ...names, table];
    }

    row(table, className, name, value) {
      table.append(make("tr", { class: className }, make("td", {}, ...name), make("td", {}, value)));
    }

    /** The last value of a series at or before a position; `null` long after its end. */
    valueOf(series, at) {
      if (this.hidden.has(series.name) || !series.x.length) return null;
      const i = before(series.x, at), last = series.x.length - 1;
      if (i < 0 || (i === last && at > series.x[last] + (this.extent[1] - this.extent[0]) / 50)) return null;
      return series.y[i];
    }
  }

  document.querySelectorAll("figure.interactive").forEach((figure, number) => new Chart(figure, number));
})();
