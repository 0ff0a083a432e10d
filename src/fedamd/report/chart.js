"use strict";
// Charts in SVG: lines with bands and stacked bars, a read-out under the pointer, zoom by dragging.

/** An element (SVG where `space` says so) with attributes, listeners ("onclick") and children. */
function make(space, name, attributes, children) {
  const node = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const el = (name, attributes = {}, ...children) => make(null, name, attributes, children);
const svg = (name, attributes = {}, ...children) => make("http://www.w3.org/2000/svg", name, attributes, children);

/** Call back when an element has got another width, not when only its height has changed. */
function whenWidthChanges(node, change) {
  let before = null;
  new ResizeObserver(([{ contentRect: { width } }]) => {
    if (width !== before) change();
    before = width;
  }).observe(node);
}

const PALETTE = 10; // colours --c0 … --c9 of the style sheet
const colour = (number) => `var(--c${number % PALETTE})`;
const dash = (number) => [null, "7 3", "2 3"][Math.floor(number / PALETTE) % 3];

/** 0.00123, 1.23, 12.3k: three digits are enough to read. */
function short(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return value.toExponential(1).replace("e+", "e");
  if (size >= 1e6) return Number((value / 1e6).toPrecision(3)) + "M";
  if (size >= 1e4) return Number((value / 1e3).toPrecision(3)) + "k";
  return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
}
/** 1.25 MB: a kilobyte is 1000 bytes. */
function bytes(value) {
  const [size, unit] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([least]) => Math.abs(value) >= 0.9995 * least) ?? [1, "B"];
  return `${Number((value / size).toPrecision(3))} ${unit}`;
}
const FORMATS = { number: short, percent: (value) => `${Number((100 * value).toFixed(2))}%`, bytes };

/** The labels, with all their digits where short ones would repeat. */
const distinct = (labels, values) => (new Set(labels).size === labels.length ? labels : values.map((value) => String(value)));

/** Round numbers between low and high, about `count` of them. */
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const found = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(found, 0) }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Powers of ten, and their double and fivefold where there are few of them. */
function logTicks(low, high) {
  const first = Math.floor(Math.log10(low));
  const decades = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, index) => 10 ** (first + index));
  const all = decades.length > 4 ? decades : decades.flatMap((decade) => [decade, 2 * decade, 5 * decade]);
  return all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** One set of axes. `zoomed(range)` is told what was dragged over, `null` for everything. */
class Frame {
  constructor(zoomed = null, height = 270) {
    this.zoomed = zoomed;
    this.height = height;
    this.tip = el("div", { class: "tip", hidden: "" });
    this.host = el("div", { class: "plot" }, this.tip);
    this.spec = null;
    this.from = null;
    whenWidthChanges(this.host, () => this.spec && this.draw(this.spec));
  }

  /** spec: x and y ranges, xLabel, yFormat, log, marks(X, Y) → nodes, read(x) → what to tell about a place;
   *  whole: the places are whole numbers. */
  draw(spec) {
    this.spec = spec;
    const width = this.host.clientWidth;
    if (!width) return;
    const box = { left: 48, right: width - 10, top: 8, bottom: this.height - 40 };
    const flat = spec.log ? Math.log10 : (value) => value;
    const [xLow, xHigh] = spec.x;
    const [yLow, yHigh] = spec.y.map(flat);
    const X = (value) => box.left + ((value - xLow) / (xHigh - xLow || 1)) * (box.right - box.left);
    const Y = (value) => box.bottom - ((flat(value) - yLow) / (yHigh - yLow || 1)) * (box.bottom - box.top);
    Object.assign(this, { box, X, Y, back: (at) => xLow + ((at - box.left) / (box.right - box.left)) * (xHigh - xLow) });
    this.overlay = svg("g", {});
    const picture = svg(
      "svg",
      { width, height: this.height, role: "img", "aria-label": spec.name,
        onpointermove: (event) => this.move(event), onpointerleave: () => this.leave(),
        onpointerdown: (event) => this.press(event), onpointerup: (event) => this.release(event),
        ondblclick: () => this.zoomed?.(null) },
      svg("clipPath", { id: (this.clip ??= `clip-${Math.random().toString(36).slice(2)}`) },
        svg("rect", { x: box.left, y: box.top - 2, width: Math.max(box.right - box.left, 0), height: box.bottom - box.top + 4 })),
      ...this.axes(spec, width),
      svg("g", { "clip-path": `url(#${this.clip})` }, ...spec.marks(X, Y)),
      this.overlay,
    );
    this.host.querySelector("svg")?.remove();
    this.host.prepend(picture);
  }

  axes(spec, width) {
    const { box, X, Y } = this;
    const format = FORMATS[spec.yFormat ?? "number"];
    const rows = spec.log ? logTicks(...spec.y) : ticks(...spec.y, 5);
    const labels = distinct(rows.map(format), rows);
    return [
      ...rows.map((tick) => svg("line", { class: "grid", x1: box.left, x2: box.right, y1: Y(tick), y2: Y(tick) })),
      ...rows.map((tick, index) => svg("text", { x: box.left - 8, y: Y(tick) + 4, "text-anchor": "end" }, labels[index])),
      ...ticks(...spec.x, Math.max(width / 90, 2)).filter((tick) => !spec.whole || Number.isInteger(tick)).map((tick) =>
        svg("text", { x: X(tick), y: box.bottom + 17, "text-anchor": "middle" }, FORMATS[spec.xFormat ?? "number"](tick))),
      svg("text", { class: "axis", x: (box.left + box.right) / 2, y: this.height - 6, "text-anchor": "middle" }, spec.xLabel),
    ];
  }

  // --- the pointer ---

  at(event) {
    const place = event.clientX - this.host.getBoundingClientRect().left;
    return Math.min(Math.max(place, this.box.left), this.box.right);
  }

  move(event) {
    const { box } = this;
    const place = this.at(event);
    const told = this.spec.read(this.back(place));
    const nodes = [];
    if (this.from !== null) {
      const [left, right] = [Math.min(this.from, place), Math.max(this.from, place)];
      nodes.push(svg("rect", { class: "chosen", x: left, y: box.top, width: right - left, height: box.bottom - box.top }));
    }
    if (told) {
      const x = this.X(told.x);
      nodes.push(svg("line", { class: "cross", x1: x, x2: x, y1: box.top, y2: box.bottom }));
      nodes.push(...told.rows.filter((row) => row.at).map((row) =>
        svg("circle", { cx: this.X(row.at[0]), cy: this.Y(row.at[1]), r: 3.5, style: `fill:${row.colour}` })));
      this.tell(told, x);
    } else this.tip.hidden = true;
    this.overlay.replaceChildren(...nodes);
  }

  tell(told, x) {
    this.tip.replaceChildren(
      el("strong", {}, told.title),
      ...told.rows.map((row) =>
        el("div", {}, el("i", { style: `background:${row.colour}` }), el("span", {}, row.label), el("b", {}, row.text))));
    this.tip.hidden = false;
    const space = this.host.clientWidth - this.tip.offsetWidth;
    const beside = x + 14 > space ? x - this.tip.offsetWidth - 14 : x + 14;
    this.tip.style.left = `${Math.min(Math.max(beside, 0), Math.max(space, 0))}px`;
    const heights = told.rows.filter((row) => row.at).map((row) => this.Y(row.at[1]));
    const high = heights.filter((y) => y < this.height / 2).length > heights.length / 2; // then below the points, else above
    this.tip.style.top = `${high ? Math.max(this.box.bottom - this.tip.offsetHeight - 6, 4) : 4}px`;
  }

  leave() {
    this.tip.hidden = true;
    this.from = null;
    this.overlay.replaceChildren();
  }

  press(event) {
    if (this.zoomed && event.pointerType === "mouse" && event.button === 0) this.from = this.at(event);
  }

  release(event) {
    const [from, to] = [this.from, this.at(event)];
    this.from = null;
    if (from !== null && Math.abs(to - from) > 6) this.zoomed([this.back(Math.min(from, to)), this.back(Math.max(from, to))]);
  }
}

/** Buttons of which one is pressed. */
function choice(options, chosen, pick) {
  const buttons = options.map(([key, label]) =>
    el("button", { type: "button", "data-key": key, "aria-pressed": String(key === chosen), onclick: () => pick(key) }, label));
  return el("div", { class: "choice", role: "group" }, ...buttons);
}

/** Lines against one of several axes, in panels that share axis, zoom and legend. */
function curves(data) {
  const state = { axis: data.axes[0][0], hidden: new Set(), zoom: null, log: false };
  const tools = el("div", { class: "tools" });
  const legend = el("div", { class: "legend" });
  const grid = el("div", { class: "panels" });
  const zoomed = (range) => { state.zoom = range; draw(); };
  let frames = [];

  function build() {
    frames = data.panels.map(() => new Frame(zoomed));
    grid.replaceChildren(...data.panels.map(([, label], index) => el("div", {}, el("h3", {}, label), frames[index].host)));
  }

  function draw() {
    const pick = (axis) => { state.axis = axis; state.zoom = null; draw(); };
    const logarithm = data.panels.some(([, , format]) => format === "number");
    tools.replaceChildren(
      data.axes.length > 1 ? choice(data.axes.map(([key, , name]) => [key, name]), state.axis, pick) : "",
      logarithm ? el("button", { type: "button", "aria-pressed": String(state.log),
        onclick: () => { state.log = !state.log; draw(); } }, "log loss") : "",
      state.zoom ? el("button", { type: "button", onclick: () => zoomed(null) }, "reset zoom") : "",
      el("span", { class: "hint" }, "drag to zoom, double-click to reset"));
    legend.replaceChildren(...data.lines.map((line, number) =>
      el("button", { type: "button", "aria-pressed": String(!state.hidden.has(line.label)), onclick: () => toggle(line.label) },
        svg("svg", { width: 22, height: 10 }, svg("line", { x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 3,
          style: `stroke:${colour(number)}`, "stroke-dasharray": dash(number) })), line.label)));
    frames.forEach((frame, index) => frame.draw(panel(data.panels[index])));
  }

  function toggle(label) {
    if (!state.hidden.delete(label)) state.hidden.add(label);
    draw();
  }

  function panel([measure, name, format]) {
    const shown = data.lines
      .map((line, number) => ({ label: line.label, number, diverged: line.diverged, ...(line.points[measure] ?? { x: {}, mean: [] }) }))
      .filter((line) => line.mean.length && line.x[state.axis] && !state.hidden.has(line.label));
    const log = state.log && format === "number";
    const axis = data.axes.find(([key]) => key === state.axis);
    const xs = shown.map((line) => line.x[state.axis]);
    const x = state.zoom ?? [Math.min(0, ...xs.map((values) => values[0])), Math.max(1e-9, ...xs.map((values) => values.at(-1)))];
    const steady = shown.some((line) => !line.diverged); // lines that run away do not set the scale of the others
    const inside = shown.filter((line) => !steady || !line.diverged).flatMap((line) =>
      [...line.low, ...line.high].filter((value, index) => {
        const place = line.x[state.axis][index % line.low.length];
        return place >= x[0] && place <= x[1] && (!log || value > 0);
      }));
    return {
      name, x, y: range(inside, log), log, yFormat: format,
      xLabel: axis[1], xFormat: axis[3],
      marks: (X, Y) => [...target(measure, x, X, Y), ...shown.flatMap((line) => strokes(line, state.axis, X, Y, log))],
      read: (place) => readOut(shown, axis, place, 0.02 * (x[1] - x[0]), FORMATS[format]),
    };
  }

  function target(measure, x, X, Y) {
    if (measure !== data.target?.measure) return [];
    const y = Y(data.target.value);
    return [svg("line", { class: "target", x1: X(x[0]), x2: X(x[1]), y1: y, y2: y })];
  }

  build();
  const node = el("div", {}, tools, grid, legend);
  return { node, draw, update(fresh) {
    const same = JSON.stringify(fresh.panels) === JSON.stringify(data.panels);
    data = fresh;
    if (!same) build();
    draw();
  } };
}

/** From the smallest to the largest value, with a little air; a few far above all others do not set a linear scale. */
function range(values, log) {
  if (!values.length) return log ? [0.1, 1] : [0, 1];
  const sorted = Float64Array.from(values).sort();
  const low = sorted[0];
  if (log) return [low / 1.1, sorted.at(-1) * 1.1];
  const usual = sorted[Math.floor(0.98 * (sorted.length - 1))];
  const high = usual > 0 && sorted.at(-1) > 10 * usual ? 1.5 * usual : sorted.at(-1);
  const air = (high - low || Math.abs(high) || 1) * 0.05;
  return [low >= 0 ? Math.max(0, low - air) : low - air, high + air];
}

/** The mean, and the band of the seeds where there are several. */
function strokes(line, axis, X, Y, log) {
  const trace = (values, order) => order
    .filter((index) => !log || values[index] > 0)
    .map((index) => `${X(line.x[axis][index]).toFixed(1)},${Y(values[index]).toFixed(1)}`);
  const forth = line.mean.map((_, index) => index);
  const mean = trace(line.mean, forth);
  const spread = line.low.some((value, index) => value !== line.high[index]);
  return [
    spread ? svg("path", { class: "band", style: `fill:${colour(line.number)}`,
      d: `M${[...trace(line.high, forth), ...trace(line.low, forth.slice().reverse())].join("L")}Z` }) : null,
    mean.length === 1
      ? svg("circle", { cx: mean[0].split(",")[0], cy: mean[0].split(",")[1], r: 3, style: `fill:${colour(line.number)}` })
      : svg("path", { class: "line", style: `stroke:${colour(line.number)}`, "stroke-dasharray": dash(line.number), d: `M${mean.join("L")}` }),
  ].filter(Boolean);
}

/** Every line's value at its point nearest to a place on the axis, the largest first; lines without one near are left out. */
function readOut(shown, [axis, , name, unit], place, reach, format) {
  if (!shown.length) return null;
  const distance = (x) => Math.abs(x - place);
  const nearest = shown.map((line) => {
    const index = line.x[axis].reduce((best, x, i, all) => (distance(x) < distance(all[best]) ? i : best), 0);
    return { line, index, x: line.x[axis][index] };
  });
  const closest = nearest.reduce((a, b) => (distance(b.x) < distance(a.x) ? b : a));
  const near = nearest.filter(({ x }) => Math.abs(x - closest.x) <= reach);
  const rows = near.sort((a, b) => b.line.mean[b.index] - a.line.mean[a.index]).map(({ line, index, x }) => ({
    label: line.label, colour: colour(line.number), at: [x, line.mean[index]],
    text: line.low[index] === line.high[index] ? format(line.mean[index])
      : `${format(line.mean[index])} (${format(line.low[index])} … ${format(line.high[index])})`,
  }));
  return { x: closest.x, title: `${name}: ${FORMATS[unit](closest.x)}`, rows };
}

/** Stacked bars: who has how many of what. */
function bars(data) {
  const frame = new Frame(null, 240);
  const legend = el("div", { class: "legend" });

  function draw() {
    const count = data.stacks[0]?.values.length ?? 0;
    const totals = Array.from({ length: count }, (_, index) => data.stacks.reduce((sum, stack) => sum + stack.values[index], 0));
    legend.replaceChildren(...data.stacks.map((stack, number) =>
      el("span", {}, el("i", { style: `background:${colour(number)}` }), stack.label)));
    frame.draw({
      name: data.title, x: [data.first - 0.5, data.first + count - 0.5], y: [0, Math.max(1, ...totals) * 1.04],
      xLabel: data.x_label, whole: true, marks: (X, Y) => columns(X, Y, count), read: (place) => read(Math.round(place) - data.first, totals),
    });
  }

  function columns(X, Y, count) {
    const base = new Array(count).fill(0);
    const gap = X(1) - X(0) > 5 ? 0.1 : 0;
    return data.stacks.map((stack, number) => {
      const d = stack.values.map((value, index) => {
        const [left, right] = [X(data.first + index - 0.5 + gap), X(data.first + index + 0.5 - gap)];
        const bottom = Y(base[index]);
        const top = Y((base[index] += value));
        return value ? `M${left.toFixed(1)} ${bottom.toFixed(1)}V${top.toFixed(1)}H${right.toFixed(1)}V${bottom.toFixed(1)}Z` : "";
      });
      return svg("path", { style: `fill:${colour(number)}`, d: d.join("") });
    });
  }

  function read(index, totals) {
    if (!(index in totals)) return null;
    const rows = data.stacks.map((stack, number) => ({ label: stack.label, colour: colour(number), text: short(stack.values[index]) }));
    return { x: data.first + index, title: `${data.each} ${data.first + index}: ${short(totals[index])}`,
      rows: rows.filter((_, number) => data.stacks[number].values[index]) };
  }

  return { node: el("div", {}, frame.host, legend), draw, update(fresh) { data = fresh; draw(); } };
}
