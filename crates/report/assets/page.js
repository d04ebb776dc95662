"use strict";
// Common to every page: the switch between light and dark, the tip at the pointer, sortable tables.
const unbloat = (() => {
  const root = document.documentElement;

  /** Gives an element attributes, except undefined ones, and children. */
  const fill = (element, attributes = {}, ...children) => {
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const make = (name, ...rest) => fill(document.createElement(name), ...rest);

  // --- light and dark -----------------------------------------------------------------------------------------------
  // The style sheet follows the system until the reader chooses; then `data-theme` on the root takes over.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const followers = [];
  const theme = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  const choose = (name) => {
    if (name) root.dataset.theme = name; else delete root.dataset.theme;
    followers.forEach((follow) => follow());
  };
  /** Registers a callback for color changes. */
  const onTheme = (follow) => followers.push(follow);
  /** The value of a palette color, for use with a canvas. */
  const color = (name) => {
    const probe = root.appendChild(make("i", { style: `color: var(--${name})` }));
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => choose(theme() === "dark" ? "light" : "dark"));
  system.addEventListener("change", () => choose(null));
  // Paper is white.
  let chosen = null;
  addEventListener("beforeprint", () => { chosen = root.dataset.theme ?? null; choose("light"); });
  addEventListener("afterprint", () => choose(chosen));

  // --- the tip ------------------------------------------------------------------------------------------------------
  const tipElement = document.getElementById("tip");
  const tip = {
    hide() { tipElement.hidden = true; },
    /** Shows elements next to a point of the window, and inside the window. */
    show(x, y, ...children) {
      tipElement.replaceChildren(...children);
      tipElement.hidden = false;
      const { width, height } = tipElement.getBoundingClientRect();
      const right = x + 16 + width + 8 > innerWidth ? x - width - 16 : x + 16;
      const below = y + 16 + height > innerHeight ? y - height - 12 : y + 16;
      tipElement.style.left = Math.max(4, right) + "px";
      tipElement.style.top = Math.max(4, below) + "px";
    },
  };

  // --- tables -------------------------------------------------------------------------------------------------------
  // A cell's value is its `data-value`, a number, or its text.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    if (cell?.dataset.value !== undefined) return Number(cell.dataset.value);
    return cell?.textContent.trim() ?? "";
  };
  const isNumber = (value) => typeof value === "number";
  const compare = (a, b) => isNumber(a) && isNumber(b) ? a - b : isNumber(a) ? 1 : isNumber(b) ? -1 : a.localeCompare(b);
  const sort = (table, column, heading) => {
    const rows = [...table.tBodies[0].rows];
    const was = heading.getAttribute("aria-sort");
    const first = rows.some((row) => isNumber(valueOf(row, column))) ? "descending" : "ascending";
    const order = was === null ? first : was === "ascending" ? "descending" : "ascending";
    table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    rows.sort((a, b) => compare(valueOf(a, column), valueOf(b, column)) * (order === "ascending" ? 1 : -1));
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const press = make("button", { type: "button", class: "sort" }, ...heading.childNodes);
      press.addEventListener("click", () => sort(table, column, heading));
      heading.replaceChildren(press);
    });
  }

  // --- links --------------------------------------------------------------------------------------------------------
  // A link into a collapsed section expands it.
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const target = document.getElementById(link.getAttribute("href").slice(1));
      if (target instanceof HTMLDetailsElement) target.open = true;
    });
  }

  return { fill, make, color, onTheme, tip };
})();
