"use strict";
// The heap map. A page is a cell; cells lie in rows in order of address, under a caption for each arena and each size
// of Ruby slots. Only the rows in view are drawn, so the cost of a frame does not depend on the size of the heap.
//
// A page has nine bytes of data: whether it is resident, then what fills it in units of 16 bytes (255: all of it).
(() => {
  const PAGE = 4096, UNIT = 16;
  const USES = [
    ["live", "live"], ["cached", "cached"], ["trimmable", "trimmable"], ["stranded", "stranded"],
    ["top", "top (unused end)"], ["ruby-live", "Ruby objects"], ["ruby-free", "Ruby free slots"],
  ];
  const LIVE = 0, CACHED = 1, TRIMMABLE = 2, STRANDED = 3, TOP = 4, RUBY_LIVE = 5, RUBY_FREE = 6;
  const SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]; // pixels of a cell
  const CONTENTS_FROM = 10; // cells of this size on show their contents to scale
  const CAPTION = 44, GUTTER = 104, MARGIN = 14;

  const root = document.documentElement;
  const maps = [];

  // --- colors -------------------------------------------------------------------------------------------------------
  const variable = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0; // as ImageData has it, little endian
  const between = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));

  function palette() {
    const stops = ["stranded", "malloc-25", "malloc-50", "malloc-75", "live"].map((n) => rgb(variable(n)));
    const ramp = (t) => {
      const at = Math.min(t * 4, 3.999), i = Math.floor(at);
      return packed(between(stops[i], stops[i + 1], at - i));
    };
    const free = rgb(variable("ruby-free")), full = rgb(variable("ruby-live"));
    const steps = Array.from({ length: 257 }, (_, i) => i / 256);
    return {
      malloc: Uint32Array.from(steps, ramp),
      ruby: Uint32Array.from(steps, (t) => packed(between(free, full, t))),
      flat: USES.map(([name]) => packed(rgb(variable(name)))),
      css: USES.map(([name]) => variable(name)),
      absent: packed(rgb(variable("absent"))),
      rest: packed(rgb(variable("rest"))), restCss: variable("rest"),
      card: variable("card"), ink: variable("ink"), quiet: variable("quiet"), line: variable("line"),
    };
  }

  // --- data ---------------------------------------------------------------------------------------------------------
  function unpack(text, pages) {
    const data = atob(text), resident = new Uint8Array(pages), fill = new Uint8Array(pages * USES.length);
    let page = 0;
    for (let i = 0; i + 10 <= data.length; i += 10) {
      const end = Math.min(pages, page + (data.charCodeAt(i) | data.charCodeAt(i + 1) << 8));
      for (; page < end; page++) {
        resident[page] = data.charCodeAt(i + 2);
        for (let use = 0; use < USES.length; use++) fill[page * USES.length + use] = data.charCodeAt(i + 3 + use);
      }
    }
    return { resident, fill };
  }

  /** One color a page: what it is, and where live and free share it, how full. */
  function colorsOf({ resident, fill }, colors) {
    const result = new Uint32Array(resident.length);
    for (let page = 0; page < resident.length; page++) {
      const at = page * USES.length, bytes = (use) => fill[at + use];
      let color = colors.rest;
      if (!resident[page]) color = colors.absent;
      else if (bytes(RUBY_LIVE) || bytes(RUBY_FREE)) {
        color = colors.ruby[Math.round(bytes(RUBY_LIVE) / (bytes(RUBY_LIVE) + bytes(RUBY_FREE)) * 256)];
      } else if (bytes(TRIMMABLE) > 127) color = colors.flat[TRIMMABLE];
      else if (bytes(TOP) > 127) color = colors.flat[TOP];
      else if (bytes(CACHED) > 127) color = colors.flat[CACHED];
      else {
        const used = bytes(LIVE) + bytes(CACHED) + bytes(STRANDED) + bytes(TRIMMABLE) + bytes(TOP);
        if (used) color = colors.malloc[Math.round(bytes(LIVE) / used * 256)];
      }
      result[page] = color;
    }
    return result;
  }

  const iec = (bytes) => bytes < 1024 ? bytes + " B"
    : bytes < 1024 ** 2 ? +(bytes / 1024).toPrecision(3) + " KiB" : +(bytes / 1024 ** 2).toPrecision(3) + " MiB";
  const exact = (units) => units === 255 ? PAGE : units * UNIT;

  // --- one map ------------------------------------------------------------------------------------------------------
  class HeapMap {
    constructor(element) {
      this.view = element.querySelector(".view");
      this.canvas = element.querySelector("canvas");
      this.spacer = element.querySelector(".spacer");
      this.scale = element.querySelector(".scale");
      this.goto = element.querySelector(".goto");
      this.context = this.canvas.getContext("2d");
      this.small = document.createElement("canvas");
      this.hover = -1;
      this.groups = JSON.parse(element.dataset.groups).map(({ name, note, regions }) => ({ name, note, regions }));
      let pages = 0;
      for (const group of this.groups) {
        group.first = pages;
        group.starts = group.regions.map(([address, count]) => {
          const start = { address: BigInt("0x" + address), first: pages, count };
          pages += count;
          return start;
        });
        group.pages = pages - group.first;
      }
      this.data = unpack(element.querySelector(".pages").textContent, pages);
      this.pages = pages;
      this.groups.forEach((group, i) => this.goto.add(new Option(group.name, i)));
      element.querySelector(".in").onclick = () => this.zoom(1);
      element.querySelector(".out").onclick = () => this.zoom(-1);
      this.goto.onchange = () => { this.view.scrollTop = this.groups[this.goto.value].y; };
      this.view.addEventListener("scroll", () => this.request());
      this.view.addEventListener("pointermove", (event) => this.point(event));
      this.view.addEventListener("pointerleave", () => this.leave());
      this.view.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 1 : -1, event);
      }, { passive: false });
      this.view.addEventListener("dblclick", (event) => this.zoom(event.shiftKey ? -1 : 1, event));
      this.view.addEventListener("keydown", (event) => {
        const step = { "+": 1, "=": 1, "-": -1 }[event.key];
        if (step) { event.preventDefault(); this.zoom(step); }
      });
      this.size = null;
      new ResizeObserver(() => this.layout()).observe(this.view);
      this.recolor();
    }

    recolor() {
      this.colors = palette();
      this.cells = colorsOf(this.data, this.colors);
      this.layout();
    }

    /** The largest cell with which all rows, captions aside, fit into the view: from 3 to 12 pixels. */
    fitting(width, height) {
      const fits = (size) => {
        const columns = this.columnsFor(size, width);
        const rows = this.groups.reduce((sum, group) => sum + Math.ceil(group.pages / columns), 0);
        return rows * size <= height;
      };
      return SIZES.filter((size) => size >= 3 && size <= 12).findLast(fits) ?? 3;
    }

    columnsFor(size, width) {
      // A multiple of 64 KiB, half of it for large cells: round addresses at the left, and little room left over.
      const step = size > 16 ? 8 : 16;
      return Math.max(1, Math.floor((width - GUTTER - MARGIN) / size / step)) * step;
    }

    layout() {
      const width = this.view.clientWidth, height = this.printing ? 100000 : this.view.clientHeight;
      if (!width || !height) return;
      this.size ??= this.fitting(width, height);
      this.columns = this.columnsFor(this.size, width);
      let y = 0;
      for (const group of this.groups) {
        group.y = y;
        y += CAPTION + Math.ceil(group.pages / this.columns) * this.size;
      }
      this.height = y + MARGIN;
      this.spacer.style.height = this.height + "px";
      const ratio = window.devicePixelRatio || 1;
      this.shown = Math.min(height, Math.max(this.height, this.printing ? 0 : height));
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(this.shown * ratio);
      this.canvas.style.width = width + "px";
      this.canvas.style.height = this.shown + "px";
      this.ratio = ratio;
      this.width = width;
      this.scale.textContent = iec(this.columns * PAGE) + " a row";
      this.draw();
    }

    request() {
      this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
    }

    draw() {
      const { context, ratio, colors, size, columns } = this, top = this.printing ? 0 : this.view.scrollTop;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.imageSmoothingEnabled = false;
      context.fillStyle = colors.card;
      context.fillRect(0, 0, this.width, this.shown);
      for (const group of this.groups) {
        const rows = Math.ceil(group.pages / columns), y = group.y - top;
        if (y > this.shown || y + CAPTION + rows * size < 0) continue;
        this.caption(group, y);
        const body = y + CAPTION;
        const from = Math.max(0, Math.floor(-body / size));
        const to = Math.min(rows, Math.ceil((this.shown - body) / size));
        if (to > from) this.rows(group, from, to, body);
      }
      if (this.hover >= 0) this.mark(this.hover, top);
    }

    caption(group, y) {
      const { context, colors } = this;
      context.textBaseline = "alphabetic";
      context.fillStyle = colors.ink;
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(group.name, MARGIN, y + 31);
      const x = MARGIN + context.measureText(group.name).width + 12;
      context.fillStyle = colors.quiet;
      context.font = "12px system-ui, sans-serif";
      context.fillText(group.note, x, y + 31);
    }

    rows(group, from, to, body) {
      const { context, colors, size, columns, small } = this;
      small.width = columns;
      small.height = to - from;
      const smallContext = small.getContext("2d"), image = smallContext.createImageData(columns, to - from);
      const last = Math.min(group.pages, to * columns);
      new Uint32Array(image.data.buffer).set(this.cells.subarray(group.first + from * columns, group.first + last));
      smallContext.putImageData(image, 0, 0);
      context.drawImage(small, GUTTER, body + from * size, columns * size, (to - from) * size);
      this.addresses(group, from, to, body);
      if (size >= CONTENTS_FROM) this.contents(group, from, last, body);
      if (size < 6) return;
      context.fillStyle = colors.card;
      for (let row = from; row <= to; row++) context.fillRect(GUTTER, body + row * size - .5, columns * size, 1);
      for (let column = 0; column <= columns; column++) {
        context.fillRect(GUTTER + column * size - .5, body + from * size, 1, (to - from) * size);
      }
    }

    /** Cells with room show what they hold from the bottom up, to scale. */
    contents(group, from, last, body) {
      const { context, colors, size, columns, data } = this;
      const order = [LIVE, RUBY_LIVE, CACHED, STRANDED, TRIMMABLE, TOP, RUBY_FREE];
      for (let i = from * columns; i < last; i++) {
        const page = group.first + i;
        if (!data.resident[page]) continue;
        const x = GUTTER + i % columns * size, y = body + Math.floor(i / columns) * size;
        context.fillStyle = colors.restCss;
        context.fillRect(x, y, size, size);
        let bottom = y + size;
        for (const use of order) {
          const part = exact(data.fill[page * USES.length + use]) / PAGE * size;
          if (!part) continue;
          context.fillStyle = colors.css[use];
          context.fillRect(x, bottom - part, size, part);
          bottom -= part;
        }
      }
    }

    addresses(group, from, to, body) {
      const { context, colors, size, columns } = this;
      const every = Math.max(1, Math.ceil(18 / size));
      context.fillStyle = colors.quiet;
      context.font = "10.5px ui-monospace, 'DejaVu Sans Mono', monospace";
      context.textBaseline = "top";
      for (let row = Math.ceil(from / every) * every; row < to; row += every) {
        const text = this.locate(group, row * columns).address.toString(16);
        context.fillText(text, MARGIN, body + row * size + Math.max(0, (Math.min(size, 18) - 11) / 2));
      }
    }

    /** The region and the address of a group's page, by number. */
    locate(group, index) {
      const page = group.first + index, starts = group.starts;
      let low = 0, high = starts.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (starts[middle].first <= page) low = middle; else high = middle - 1;
      }
      const region = starts[low];
      return { region: low, address: region.address + BigInt(page - region.first) * 4096n };
    }

    /** The page under a point of the view, -1 if there is none. */
    pageAt(x, y) {
      const column = Math.floor((x - GUTTER) / this.size);
      if (column < 0 || column >= this.columns) return -1;
      const group = this.groups.findLast((candidate) => y >= candidate.y + CAPTION);
      if (!group) return -1;
      const index = Math.floor((y - group.y - CAPTION) / this.size) * this.columns + column;
      return index < group.pages ? group.first + index : -1;
    }

    place(page) {
      const group = this.groups.findLast((candidate) => page >= candidate.first);
      const index = page - group.first;
      return {
        group, index, x: GUTTER + index % this.columns * this.size,
        y: group.y + CAPTION + Math.floor(index / this.columns) * this.size,
      };
    }

    mark(page, top) {
      const { x, y } = this.place(page), { context, size } = this;
      context.lineWidth = 2;
      context.strokeStyle = this.colors.ink;
      context.strokeRect(x - 1, y - top - 1, size + 2, size + 2);
    }

    local(event) {
      const box = this.view.getBoundingClientRect();
      return [event.clientX - box.left - this.view.clientLeft, event.clientY - box.top - this.view.clientTop];
    }

    point(event) {
      const [x, y] = this.local(event), page = this.pageAt(x, y + this.view.scrollTop);
      if (page !== this.hover) { this.hover = page; this.request(); }
      if (page < 0) { tip.hidden = true; return; }
      this.describe(page);
      tip.hidden = false;
      const box = tip.getBoundingClientRect();
      tip.style.left = Math.min(event.clientX + 16, innerWidth - box.width - 8) + "px";
      const below = event.clientY + 16;
      tip.style.top = (below + box.height > innerHeight ? event.clientY - box.height - 12 : below) + "px";
    }

    leave() {
      this.hover = -1;
      tip.hidden = true;
      this.request();
    }

    describe(page) {
      const { group, index } = this.place(page), { address, region } = this.locate(group, index);
      const many = group.regions.length > 1 ? ` · part ${region + 1} of ${group.regions.length}` : "";
      tip.replaceChildren(node("code", "0x" + address.toString(16)), node("div", group.name + many));
      if (!this.data.resident[page]) { tip.append(node("div", "not resident")); return; }
      const table = node("table", ""), bar = node("div", "");
      bar.className = "bar";
      let rest = PAGE;
      const row = (key, label, bytes) => {
        const line = table.insertRow(), swatch = node("i", ""), part = node("i", "");
        swatch.className = part.className = key;
        line.insertCell().append(swatch, label);
        line.insertCell().append(iec(bytes));
        part.style.width = bytes / PAGE * 100 + "%";
        bar.append(part);
      };
      USES.forEach(([key, label], use) => {
        const bytes = exact(this.data.fill[page * USES.length + use]);
        rest -= bytes;
        if (bytes) row(key, label, bytes);
      });
      if (rest > 0) row("rest", "headers, padding, other", rest);
      tip.append(bar, table);
    }

    /** Zooms by a step and keeps the page under the pointer (or in the middle) where it is. */
    zoom(step, event) {
      const next = SIZES[SIZES.indexOf(this.size) + step];
      if (!next) return;
      const [x, y] = event ? this.local(event) : [this.width / 2, this.shown / 2];
      const inside = Math.min(Math.max(x, GUTTER), GUTTER + this.columns * this.size - 1);
      const page = this.pageAt(inside, y + this.view.scrollTop);
      this.size = next;
      this.layout();
      if (page >= 0) this.view.scrollTop = this.place(page).y - y + next / 2;
      this.hover = -1;
      tip.hidden = true;
      this.draw();
    }

    print(on) {
      this.printing = on;
      if (on) { this.before = this.size; this.size = Math.min(this.size ?? 3, 3); } else this.size = this.before;
      this.recolor();
    }
  }

  function node(name, text) {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  }

  // --- the page -----------------------------------------------------------------------------------------------------
  const tip = document.getElementById("tip");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (theme) => { root.dataset.theme = theme; maps.forEach((map) => map.recolor()); };
  show(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => show(dark.matches ? "dark" : "light"));
  const button = document.getElementById("theme");
  button.hidden = false;
  button.onclick = () => show(root.dataset.theme === "dark" ? "light" : "dark");

  // A map is unpacked when it first comes into view, or is printed: a tree has one for each process.
  const folded = new Set(document.querySelectorAll(".map"));
  const unpackMap = (element) => {
    visible.unobserve(element);
    if (folded.delete(element)) maps.push(new HeapMap(element));
  };
  const visible = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => unpackMap(entry.target));
  });
  folded.forEach((element) => visible.observe(element));
  document.querySelectorAll('a[href^="#p"]').forEach((link) => {
    link.addEventListener("click", () => { document.querySelector(link.getAttribute("href")).open = true; });
  });

  let screen = null;
  addEventListener("beforeprint", () => {
    screen = root.dataset.theme;
    root.dataset.theme = "light";
    [...folded].filter((element) => element.offsetWidth).forEach(unpackMap);
    maps.forEach((map) => map.print(true));
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = screen;
    maps.forEach((map) => map.print(false));
  });
})();
