"use strict";
// The heap map. A page is a cell; cells form rows in address order, under a caption for each arena and each size of
// Ruby slots. Only visible rows are drawn, so the cost of a frame does not depend on the size of the heap.
//
// A page has eight bytes of data: its residency, then its contents in units of 16 bytes (255: all of it).
(() => {
  const { make, tip } = unbloat;
  const SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]; // pixels of a cell
  const CONTENTS_FROM = 10; // minimum size of cells that show their contents to scale
  const LINES_FROM = 6; // minimum size of cells with lines between them
  const CAPTION = 44, GUTTER = 104, MARGIN = 14;
  const SLICE = 240; // pixels of a slice on paper, at most

  // --- colors -------------------------------------------------------------------------------------------------------
  const rgb = (css) => css.match(/[\d.]+/g).slice(0, 3).map(Number);
  const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0; // in the format of ImageData, little endian
  const between = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
  const steps = Array.from({ length: 257 }, (_, i) => i / 256);

  function palette(uses) {
    const css = (name) => unbloat.color(name), channels = (name) => rgb(css(name));
    const stops = ["stranded", "malloc-25", "malloc-50", "malloc-75", "live"].map(channels);
    const ramp = (t) => {
      const at = Math.min(t * 4, 3.999), i = Math.floor(at);
      return packed(between(stops[i], stops[i + 1], at - i));
    };
    const free = channels("ruby-free"), full = channels("ruby-live");
    return {
      malloc: Uint32Array.from(steps, ramp),
      ruby: Uint32Array.from(steps, (t) => packed(between(free, full, t))),
      flat: uses.map(({ key }) => packed(channels(key))),
      css: uses.map(({ key }) => css(key)),
      absent: packed(channels("absent")),
      rest: packed(channels("rest")), restCss: css("rest"),
      card: css("card"), ink: css("ink"), quiet: css("quiet"),
    };
  }

  // --- data ---------------------------------------------------------------------------------------------------------
  /** Runs of equal pages: a count, their residency, and one byte per use; see html/map.rs. */
  function unpack(text, pages, uses) {
    const data = atob(text), run = 3 + uses;
    const resident = new Uint8Array(pages), fill = new Uint8Array(pages * uses);
    let page = 0;
    for (let i = 0; i + run <= data.length; i += run) {
      const end = Math.min(pages, page + (data.charCodeAt(i) | data.charCodeAt(i + 1) << 8));
      for (; page < end; page++) {
        resident[page] = data.charCodeAt(i + 2);
        for (let use = 0; use < uses; use++) fill[page * uses + use] = data.charCodeAt(i + 3 + use);
      }
    }
    return { resident, fill };
  }

  const iec = (bytes) => bytes < 1024 ? bytes + " B"
    : bytes < 1024 ** 2 ? +(bytes / 1024).toPrecision(3) + " KiB" : +(bytes / 1024 ** 2).toPrecision(3) + " MiB";

  // --- one map ------------------------------------------------------------------------------------------------------
  class HeapMap {
    /** Reserves the space of a map. Its pages are unpacked later. */
    constructor(element) {
      this.element = element;
      this.view = element.querySelector(".view");
      this.canvas = element.querySelector(".view canvas");
      this.spacer = element.querySelector(".spacer");
      this.scale = element.querySelector(".scale");
      this.goto = element.querySelector(".goto");
      this.slices = element.querySelector(".slices");
      this.small = document.createElement("canvas");
      this.hover = -1;
      Object.assign(this, JSON.parse(element.querySelector(".groups").textContent));
      // Position of each use among a page's bytes.
      this.use = Object.fromEntries(this.uses.map(({ key }, i) => [key, i]));
      // From the bottom of a cell up: held memory, then free memory.
      this.order = ["live", "ruby-live", "cached", "stranded", "trimmable", "top", "ruby-free"].map((key) => this.use[key]);
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
      this.pages = pages;
      this.groups.forEach((group, i) => this.goto.add(new Option(group.name, i)));
      new ResizeObserver(() => this.layout()).observe(this.view);
      this.layout();
    }

    unpack() {
      const { element } = this;
      this.data = unpack(element.querySelector(".pages").textContent, this.pages, this.uses.length);
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
      this.recolor();
    }

    recolor() {
      if (!this.data) return;
      this.colors = palette(this.uses);
      this.cells = this.cellColors();
      this.layout();
    }

    /** One color per page, by its use, or by its fill if live and free memory share it. */
    cellColors() {
      const { colors, use, data: { resident, fill } } = this, uses = this.uses.length;
      const result = new Uint32Array(resident.length);
      for (let page = 0; page < resident.length; page++) {
        const at = page * uses, bytes = (key) => fill[at + use[key]];
        const ruby = bytes("ruby-live") + bytes("ruby-free");
        const whole = ["trimmable", "top", "cached"].find((key) => bytes(key) > 127);
        let color = colors.rest;
        if (!resident[page]) color = colors.absent;
        else if (ruby) color = colors.ruby[Math.round(bytes("ruby-live") / ruby * 256)];
        else if (whole) color = colors.flat[use[whole]];
        else {
          let used = 0;
          for (let i = 0; i < uses; i++) used += fill[at + i];
          if (used) color = colors.malloc[Math.round(bytes("live") / used * 256)];
        }
        result[page] = color;
      }
      return result;
    }

    /** Bytes of a page for a use. */
    bytes(page, use) {
      const units = this.data.fill[page * this.uses.length + use];
      return units === 255 ? this.pageBytes : units * this.unitBytes;
    }

    /** Size of the largest cell, from 3 to 12 pixels, with which all rows fit into the view, not counting captions. */
    fitting(width, height) {
      const fits = (size) => {
        const columns = this.columnsFor(size, width);
        const rows = this.groups.reduce((sum, group) => sum + Math.ceil(group.pages / columns), 0);
        return rows * size <= height;
      };
      return SIZES.filter((size) => size >= 3 && size <= 12).findLast(fits) ?? 3;
    }

    columnsFor(size, width) {
      // A multiple of 64 KiB, or half of that for large cells: round addresses on the left, and little unused space.
      const step = size > 16 ? 8 : 16;
      return Math.max(1, Math.floor((width - GUTTER - MARGIN) / size / step)) * step;
    }

    /** Places the groups for the view's width. View and canvas are as high as they require, up to a limit. */
    layout() {
      const width = this.view.clientWidth, limit = parseFloat(getComputedStyle(this.view).maxHeight);
      if (!width) return;
      this.size ??= this.fitting(width, limit);
      this.place(width);
      const height = Math.min(limit, this.height);
      this.view.style.height = height + 2 * this.view.clientTop + "px";
      this.scale.textContent = iec(this.columns * this.pageBytes) + " a row";
      if (!this.data) return;
      this.spacer.style.height = this.height + "px";
      this.shown = height;
      this.context = this.sized(this.canvas, width, height);
      this.draw();
    }

    place(width) {
      this.width = width;
      this.columns = this.columnsFor(this.size, width);
      let y = 0;
      for (const group of this.groups) {
        group.y = y;
        group.rows = Math.ceil(group.pages / this.columns);
        y += CAPTION + group.rows * this.size;
      }
      this.height = y + MARGIN;
    }

    /** A canvas of this size in CSS pixels, sharp on dense screens. */
    sized(canvas, width, height) {
      const ratio = window.devicePixelRatio || 1, context = canvas.getContext("2d");
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.imageSmoothingEnabled = false;
      return context;
    }

    request() {
      this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
    }

    draw() {
      const top = this.view.scrollTop;
      this.paint(this.context, top, this.shown);
      if (this.hover >= 0) this.mark(this.hover, top);
    }

    /** Draws only the part from `top` to `height` pixels below it. */
    paint(context, top, height) {
      const { colors, size } = this;
      context.fillStyle = colors.card;
      context.fillRect(0, 0, this.width, height);
      for (const group of this.groups) {
        const y = group.y - top, body = y + CAPTION;
        if (y > height || body + group.rows * size < 0) continue;
        if (body > 0) this.caption(context, group, y);
        const from = Math.max(0, Math.floor(-body / size));
        const to = Math.min(group.rows, Math.ceil((height - body) / size));
        if (to > from) this.rows(context, group, from, to, body);
      }
    }

    caption(context, group, y) {
      const { colors } = this;
      context.textBaseline = "alphabetic";
      context.fillStyle = colors.ink;
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(group.name, MARGIN, y + 31);
      const x = MARGIN + context.measureText(group.name).width + 12;
      context.fillStyle = colors.quiet;
      context.font = "12px system-ui, sans-serif";
      context.fillText(group.note, x, y + 31);
    }

    rows(context, group, from, to, body) {
      const { colors, size, columns, small } = this;
      small.width = columns;
      small.height = to - from;
      const smallContext = small.getContext("2d"), image = smallContext.createImageData(columns, to - from);
      const last = Math.min(group.pages, to * columns);
      new Uint32Array(image.data.buffer).set(this.cells.subarray(group.first + from * columns, group.first + last));
      smallContext.putImageData(image, 0, 0);
      context.drawImage(small, GUTTER, body + from * size, columns * size, (to - from) * size);
      this.addresses(context, group, from, to, body);
      if (size >= CONTENTS_FROM) this.contents(context, group, from, last, body);
      if (size < LINES_FROM) return;
      context.fillStyle = colors.card;
      for (let row = from; row <= to; row++) context.fillRect(GUTTER, body + row * size - .5, columns * size, 1);
      for (let column = 0; column <= columns; column++) {
        context.fillRect(GUTTER + column * size - .5, body + from * size, 1, (to - from) * size);
      }
    }

    /** Large cells show their contents from the bottom up, to scale. */
    contents(context, group, from, last, body) {
      const { colors, size, columns, data, pageBytes } = this;
      for (let i = from * columns; i < last; i++) {
        const page = group.first + i;
        if (!data.resident[page]) continue;
        const x = GUTTER + i % columns * size, y = body + Math.floor(i / columns) * size;
        context.fillStyle = colors.restCss;
        context.fillRect(x, y, size, size);
        let bottom = y + size;
        for (const use of this.order) {
          const part = this.bytes(page, use) / pageBytes * size;
          if (!part) continue;
          context.fillStyle = colors.css[use];
          context.fillRect(x, bottom - part, size, part);
          bottom -= part;
        }
      }
    }

    addresses(context, group, from, to, body) {
      const { colors, size, columns } = this;
      const every = Math.max(1, Math.ceil(18 / size));
      context.fillStyle = colors.quiet;
      context.font = "10.5px ui-monospace, 'DejaVu Sans Mono', monospace";
      context.textBaseline = "top";
      for (let row = Math.ceil(from / every) * every; row < to; row += every) {
        const text = this.locate(group, row * columns).address.toString(16);
        context.fillText(text, MARGIN, body + row * size + Math.max(0, (Math.min(size, 18) - 11) / 2));
      }
    }

    /** The region and the address of a group's nth page. */
    locate(group, index) {
      const page = group.first + index, starts = group.starts;
      let low = 0, high = starts.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (starts[middle].first <= page) low = middle; else high = middle - 1;
      }
      const region = starts[low];
      return { region: low, address: region.address + BigInt(page - region.first) * BigInt(this.pageBytes) };
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

    cell(page) {
      const group = this.groups.findLast((candidate) => page >= candidate.first);
      const index = page - group.first;
      return {
        group, index, x: GUTTER + index % this.columns * this.size,
        y: group.y + CAPTION + Math.floor(index / this.columns) * this.size,
      };
    }

    mark(page, top) {
      const { x, y } = this.cell(page), { context, size } = this;
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
      if (page < 0) tip.hide(); else tip.show(event.clientX, event.clientY, ...this.describe(page));
    }

    leave() {
      this.hover = -1;
      tip.hide();
      this.request();
    }

    describe(page) {
      const { group, index } = this.cell(page), { address, region } = this.locate(group, index);
      const many = group.regions.length > 1 ? ` · part ${region + 1} of ${group.regions.length}` : "";
      const parts = [make("code", {}, "0x" + address.toString(16)), make("div", {}, group.name + many)];
      if (!this.data.resident[page]) return [...parts, make("div", {}, "not resident")];
      const table = make("table"), bar = make("div", { class: "bar" });
      let rest = this.pageBytes;
      const row = (key, label, bytes) => {
        const swatch = make("i", { class: key });
        table.append(make("tr", {}, make("td", {}, swatch, label), make("td", {}, iec(bytes))));
        bar.append(make("i", { class: key, style: `width: ${bytes / this.pageBytes * 100}%` }));
      };
      this.uses.forEach(({ key, label }, use) => {
        const bytes = this.bytes(page, use);
        rest -= bytes;
        if (bytes) row(key, label, bytes);
      });
      if (rest > 0) row("rest", "headers, padding, other", rest);
      return [...parts, bar, table];
    }

    /** Zooms by a step, keeping the page under the pointer (or in the middle) in place. */
    zoom(step, event) {
      const next = SIZES[SIZES.indexOf(this.size) + step];
      if (!next) return;
      const [x, y] = event ? this.local(event) : [this.width / 2, this.shown / 2];
      const inside = Math.min(Math.max(x, GUTTER), GUTTER + this.columns * this.size - 1);
      const page = this.pageAt(inside, y + this.view.scrollTop);
      this.size = next;
      this.layout();
      if (page >= 0) this.view.scrollTop = this.cell(page).y - y + next / 2;
      this.hover = -1;
      tip.hide();
      this.draw();
    }

    /** For paper: slices of whole rows, none higher than a page. */
    print() {
      const screen = this.size;
      this.size = Math.min(screen ?? 3, 3);
      this.place(this.view.clientWidth || 1000);
      const slice = (top, height) => {
        const canvas = this.slices.appendChild(make("canvas"));
        this.paint(this.sized(canvas, this.width, height), top, height);
      };
      const rows = Math.floor(SLICE / this.size);
      for (const group of this.groups) {
        // The caption stays with the first rows.
        for (let row = 0; row < group.rows; row += rows) {
          const top = row ? group.y + CAPTION + row * this.size : group.y;
          slice(top, group.y + CAPTION + Math.min(group.rows, row + rows) * this.size - top);
        }
      }
      this.size = screen;
      this.layout();
    }

    printed() {
      this.slices.replaceChildren();
    }
  }

  // --- the page -----------------------------------------------------------------------------------------------------
  // A map is unpacked when it first becomes visible or is printed, because a tree has one per process.
  const maps = [...document.querySelectorAll(".map")].map((element) => new HeapMap(element));
  const unpackMap = (map) => {
    visible.unobserve(map.element);
    if (!map.data) map.unpack();
  };
  const visible = new IntersectionObserver((entries) => {
    const seen = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
    maps.filter((map) => seen.includes(map.element)).forEach(unpackMap);
  });
  maps.forEach((map) => visible.observe(map.element));
  unbloat.onTheme(() => maps.forEach((map) => map.recolor()));
  addEventListener("beforeprint", () => {
    const shown = maps.filter((map) => map.element.offsetWidth);
    shown.forEach(unpackMap);
    shown.forEach((map) => map.print());
  });
  addEventListener("afterprint", () => maps.forEach((map) => map.printed()));
})();
