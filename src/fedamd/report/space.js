"use strict";
// Where runs lie in the space of their settings: heat maps over two keys, and parallel coordinates over all of them.

/** A value between bad (0) and good (1) as a colour. */
const shade = (good) => `color-mix(in srgb, var(--accent) ${Math.round(8 + 84 * good)}%, var(--card))`;

const tinted = (good) => `background:${shade(good)};color:${good > 0.5 ? "var(--card)" : "var(--ink)"}`;

/** The best value for every pair of two keys' values; with more keys, which two can be chosen. */
function heatmap(data) {
  const node = el("div", {});
  const state = { down: 0, across: Math.min(1, data.keys.length - 1) };

  function draw() {
    const known = data.points.map((point) => point.value).filter((value) => value !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const goodness = (value) => (high === low ? 1 : data.higher ? (value - low) / (high - low) : (high - value) / (high - low));
    const single = data.keys.length === 1;
    const columns = data.keys[state.across].values;
    const rows = single ? [data.measure] : data.keys[state.down].values;
    const body = rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, row), ...columns.map((_, j) => field(single ? null : i, j, goodness))));
    node.replaceChildren(
      data.keys.length > 2 ? el("div", { class: "tools" }, chooser("down", "rows"), chooser("across", "columns")) : "",
      el("div", { class: "scroll" }, el("table", { class: "heat" },
        el("thead", {}, el("tr", {}, el("th", {}, single ? data.keys[0].label : `${data.keys[state.down].label} ↓ ${data.keys[state.across].label} →`),
          ...columns.map((value) => el("th", { scope: "col" }, value)))),
        el("tbody", {}, ...body))));
  }

  function field(i, j, goodness) {
    const here = data.points.filter((point) => point.at[state.across] === j && (i === null || point.at[state.down] === i));
    const scored = here.filter((point) => point.value !== null);
    const better = (a, b) => (data.higher === a.value > b.value ? a : b);
    if (!scored.length) return el("td", { class: "none" }, here[0]?.text ?? "");
    const best = scored.reduce(better);
    return el("td", { title: best.label, style: tinted(goodness(best.value)) }, best.text);
  }

  function chooser(which, name) {
    const other = which === "down" ? "across" : "down";
    const options = data.keys.map((key, index) => el("option", { value: index, selected: index === state[which] ? "" : null }, key.label));
    return el("label", {}, `${name} `, el("select", { onchange: (event) => {
      const chosen = Number(event.target.value);
      if (chosen === state[other]) state[other] = state[which];
      state[which] = chosen;
      draw();
    } }, ...options));
  }

  return { node, draw, update(fresh) { data = fresh; draw(); } };
}

/** Small maps side by side. */
function heatmaps(data) {
  const node = el("div", { class: "maps" });

  function map({ label, rows, columns, cells }) {
    const field = ([text, good]) => el("td", { class: good === null ? "none" : null, style: good === null ? null : tinted(good) }, text);
    return el("div", {}, el("h3", {}, label), el("table", { class: "heat small" },
      el("thead", {}, el("tr", {}, el("th", {}, `${data.down} ↓ ${data.across} →`), ...columns.map((value) => el("th", { scope: "col" }, value)))),
      el("tbody", {}, ...rows.map((row, index) => el("tr", {}, el("th", { scope: "row" }, row), ...cells[index].map(field))))));
  }

  const draw = () => node.replaceChildren(...data.maps.map(map));
  return { node, draw, update(fresh) { data = fresh; draw(); } };
}

/** An axis for every key and one for what was measured, a line for every run. Dragging along an axis keeps what lies there. */
function parallel(data) {
  const [height, top, bottom] = [320, 44, 292];
  const tip = el("div", { class: "tip", hidden: "" });
  const host = el("div", { class: "plot", onpointermove: move, onpointerdown: press, onpointerup: release, onpointerleave: leave,
    ondblclick: () => { chosen.clear(); draw(); } }, tip);
  const node = el("div", {}, el("div", { class: "tools" }, el("span", { class: "hint" }, "drag along an axis to choose, double-click to reset")),
    el("div", { class: "scroll" }, host));
  const chosen = new Map(); // axis → the heights that are kept
  let from = null;
  const roomy = () => host.clientWidth > 600;
  const side = () => (roomy() ? 60 : 20);
  const last = () => (roomy() ? 60 : 52); // right of the last axis, for what is measured
  const step = () => (host.clientWidth - side() - last()) / Math.max(data.axes.length - 1, 1);
  const Y = (place) => bottom - place * (bottom - top);
  const X = (index) => side() + index * step();
  const kept = (line) => [...chosen].every(([axis, [low, high]]) => line.at[axis] !== null && line.at[axis] >= low && line.at[axis] <= high);

  function draw(near = null) {
    host.style.minWidth = `${60 * data.axes.length}px`;
    if (!host.clientWidth) return;
    const picture = svg("svg", { width: host.clientWidth, height, role: "img", "aria-label": data.title },
      ...data.lines.map((line) => svg("path", {
        class: ["path", kept(line) ? "" : "out", line === near ? "near" : ""].filter(Boolean).join(" "),
        style: `stroke:${line.good === null ? "var(--bad)" : shade(0.15 + 0.85 * line.good)}`, "stroke-dasharray": line.good === null ? "3 3" : null,
        d: "M" + line.at.flatMap((place, index) => (place === null ? [] : [`${X(index).toFixed(1)},${Y(place).toFixed(1)}`])).join("L") })),
      ...data.axes.flatMap(axis));
    host.querySelector("svg")?.remove();
    host.prepend(picture);
  }

  /** Those that do not cover one another; the ends are always among them. */
  function apart(ticks) {
    const ordered = [...ticks].sort(([a], [b]) => a - b);
    const clear = (a, b) => Math.abs(Y(a[0]) - Y(b[0])) >= 14;
    const end = ordered.at(-1);
    return ordered.reduce((kept, tick) =>
      (tick === end || !kept.length || (clear(tick, kept.at(-1)) && clear(tick, end)) ? [...kept, tick] : kept), []);
  }

  function axis({ label, ticks }, index) {
    const range = chosen.get(index);
    return [
      svg("line", { class: "rail", x1: X(index), x2: X(index), y1: top, y2: bottom }),
      svg("text", { class: "axis", x: X(index), y: index % 2 && !roomy() ? 32 : 16, "text-anchor": index || roomy() ? "middle" : "start", dx: index || roomy() ? 0 : -14 }, label),
      ...apart(ticks).map(([place, text]) => svg("text", { class: "tick", x: X(index) + 6, y: Y(place) + 4 }, text)),
      ...(range ? [svg("rect", { class: "chosen", x: X(index) - 8, width: 16, y: Y(range[1]), height: Math.max(Y(range[0]) - Y(range[1]), 2) })] : []),
    ];
  }

  function pointed(event) {
    const box = host.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** The line that passes nearest to a point, within reach. */
  function nearest(x, y) {
    const left = Math.min(Math.max(Math.floor((x - side()) / step()), 0), data.axes.length - 2);
    const share = Math.min(Math.max((x - X(left)) / step(), 0), 1);
    const away = data.lines.filter(kept).map((line) => {
      const [a, b] = [line.at[left], line.at[left + 1] ?? line.at[left]];
      return { line, distance: a === null ? Infinity : Math.abs(Y(a + share * (b - a)) - y) };
    });
    const best = away.reduce((one, other) => (other.distance < one.distance ? other : one), { distance: 14 });
    return best.line ?? null;
  }

  function move(event) {
    const [x, y] = pointed(event);
    if (from) return;
    const line = nearest(x, y);
    draw(line);
    tip.hidden = !line;
    if (!line) return;
    tip.replaceChildren(...line.label.split("\n").map((text) => el("div", {}, text)));
    tip.style.left = `${Math.min(Math.max(x + 14, 0), Math.max(host.clientWidth - tip.offsetWidth - 2, 0))}px`;
    tip.style.top = `${Math.min(Math.max(y - tip.offsetHeight - 8, 0), height)}px`;
  }

  function press(event) {
    const [x, y] = pointed(event);
    const index = data.axes.findIndex((_, place) => Math.abs(X(place) - x) < 16);
    if (index >= 0) from = { index, y };
  }

  function release(event) {
    if (!from) return;
    const [, y] = pointed(event);
    const places = [from.y, y].map((at) => Math.min(Math.max((bottom - at) / (bottom - top), 0), 1)).sort((a, b) => a - b);
    if (Math.abs(y - from.y) > 4) chosen.set(from.index, places);
    else chosen.delete(from.index);
    from = null;
    draw();
  }

  function leave() {
    tip.hidden = true;
    from = null;
    draw();
  }

  whenWidthChanges(node, () => draw());
  return { node, draw: () => draw(), update(fresh) { data = fresh; draw(); } };
}
