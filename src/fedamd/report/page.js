"use strict";
// The page: shows the sections that the data describes, and asks for newer data while a run goes on.

/** Names and values, as tiles. */
function facts(data) {
  const node = el("dl", { class: "facts" });
  const tile = ([name, value]) => el("div", { class: value.length > 24 ? "long" : null }, el("dt", {}, name), el("dd", {}, value));
  const draw = () => node.replaceChildren(...data.facts.map(tile));
  return { node, draw, update(fresh) { data = fresh; draw(); } };
}

/** A table that sorts by the column that is clicked on; what has no value comes last. Where there is no room for all
 *  columns the last ones wait behind a button; shown, they scroll past the first, which stays. */
function table(data) {
  const scroll = el("div", { class: "scroll" });
  const more = el("button", { type: "button", class: "more", onclick: () => { all = !all; draw(); } });
  const node = el("div", {}, scroll, more);
  const order = { column: null, up: false };
  let all = false;

  function draw() {
    scroll.classList.toggle("tall", data.rows.length > 24);
    scroll.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...data.columns.map(heading))), el("tbody", {}, ...sorted().map(line))));
    fit();
  }

  /** Hide the last columns until the others fit, and say which. */
  function fit() {
    const rows = [...scroll.querySelectorAll("tr")];
    const hide = (column, hidden) => rows.forEach((row) => { row.children[column].hidden = hidden; });
    data.columns.forEach((_, column) => hide(column, false));
    let shown = data.columns.length;
    while (shown > 2 && scroll.scrollWidth > scroll.clientWidth + 1) hide(--shown, true);
    const waiting = data.columns.slice(shown).map((column) => column.split("\n").join(" "));
    if (all) waiting.forEach((_, index) => hide(shown + index, false));
    more.hidden = !waiting.length;
    more.textContent = all ? "Fewer columns" : waiting.length > 4 ? `${waiting.length} more columns` : `More columns: ${waiting.join(", ")}`;
  }

  function heading(label, column) {
    const direction = order.column !== column ? "none" : order.up ? "ascending" : "descending";
    return el("th", { "aria-sort": direction, class: numeric(column) ? "number" : null },
      el("button", { type: "button", onclick: () => sort(column) }, label));
  }

  function sort(column) {
    order.up = order.column === column ? !order.up : true;
    order.column = column;
    draw();
  }

  const numeric = (column) => data.rows.some((row) => typeof row[column].value === "number");

  function sorted() {
    if (order.column === null) return data.rows;
    const value = (row) => row[order.column].value;
    const [there, missing] = [data.rows.filter((row) => value(row) !== null), data.rows.filter((row) => value(row) === null)];
    const compare = (a, b) => (typeof value(a) === "number" && typeof value(b) === "number"
      ? value(a) - value(b) : String(value(a)).localeCompare(String(value(b)), undefined, { numeric: true }));
    return [...there.sort((a, b) => (order.up ? compare(a, b) : compare(b, a))), ...missing];
  }

  const line = (row) => el("tr", {}, ...row.map((cell, column) =>
    el("td", { class: [cell.tone, numeric(column) ? "number" : ""].filter(Boolean).join(" ") || null }, cell.text)));

  whenWidthChanges(node, () => scroll.firstChild && fit());
  return { node, draw, update(fresh) { data = fresh; draw(); } };
}

/** Text as it is, folded away. */
function text(data) {
  const node = el("div", {});
  const draw = () => {
    const folds = [...node.querySelectorAll("details")];
    const open = (name) => folds.find((fold) => fold.firstChild.textContent === name)?.open ?? data.open;
    node.replaceChildren(...data.parts.map(([name, content]) =>
      el("details", { open: open(name) ? "" : null }, el("summary", {}, name), el("pre", {}, content))));
  };
  return { node, draw, update(fresh) { data = fresh; draw(); } };
}

const WIDGETS = { facts, curves, bars, heatmap, heatmaps, parallel, table, text };
let shape = "";
let widgets = [];

/** Show the data; widgets that are there already are only told the news, so that zoom and sorting stay. */
function show(data) {
  document.title = data.title;
  document.querySelector("h1").textContent = data.title;
  document.querySelector("#subtitle").textContent = data.subtitle;
  setStatus(data.status, data.running);
  const asked = JSON.stringify(data.sections.map((section) => [section.kind, section.title]));
  if (asked === shape) {
    widgets.forEach((widget, index) => widget.update(data.sections[index]));
  } else {
    shape = asked;
    widgets = data.sections.map((section) => WIDGETS[section.kind](section));
    document.querySelector("main").replaceChildren(...data.sections.map((section, index) =>
      el("section", { class: "card", id: `section-${index}` }, section.title ? el("h2", {}, section.title) : null, widgets[index].node)));
    document.querySelector("nav")?.remove();
    if (data.contents) document.querySelector("main").before(contents(data.sections));
    widgets.forEach((widget) => widget.draw());
  }
  document.querySelectorAll("main > section").forEach((node, index) => {
    node.querySelector(".note")?.remove();
    if (data.sections[index].note) node.append(el("p", { class: "note" }, data.sections[index].note));
  });
}

/** The headings, as links. */
function contents(sections) {
  const titled = sections.map((section, index) => [section.title, index]).filter(([title]) => title);
  return el("nav", { "aria-label": "contents" }, el("details", { class: "card", open: innerWidth > 600 ? "" : null }, el("summary", {}, "Contents"),
    el("ol", {}, ...titled.map(([title, index]) => el("li", {}, el("a", { href: `#section-${index}` }, title))))));
}

function setStatus(status, running) {
  const badge = document.querySelector("#status");
  badge.textContent = status;
  badge.hidden = !status;
  badge.classList.toggle("running", running);
}

/** Ask again every second: a run may go on, be resumed, or be followed by the next one of a comparison. */
async function follow(running) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    try {
      const answer = await fetch("data.json", { cache: "no-store" });
      const data = await answer.json();
      running = data.running;
      show(data);
    } catch {
      if (running) setStatus("no connection to fedamd watch", false);
    }
  }
}

// --- light and dark ---

function remembered(value) {
  try {
    if (value) localStorage.setItem("fedamd-theme", value);
    return localStorage.getItem("fedamd-theme");
  } catch {
    return null; // pages from files may not remember anything
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.querySelector("#theme").setAttribute("aria-label", `switch to ${theme === "dark" ? "light" : "dark"} colours`);
}

const system = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(remembered() ?? (system.matches ? "dark" : "light"));
system.addEventListener("change", (event) => remembered() ?? setTheme(event.matches ? "dark" : "light"));
document.querySelector("#theme").addEventListener("click", () => {
  const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  setTheme(other);
  remembered(other);
});

const data = JSON.parse(document.querySelector("#data").textContent);
show(data);
if (data.live) follow(data.running);
