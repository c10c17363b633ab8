"use strict";

// The page of parts whose pictures move. Everything it shows is in the element #data:
//   parts     [{kind, choice, nested, name, text, formula, source, module, panels, dials, views, frames, pictures}]
//   panels    the names of the drawings that show a picture, the most telling first
//   dials     its options, {name, key, about, control, values, default, start}; views are dials that are no options
//   frames    the index of a picture for each combination of the dials' positions, such as "0,2"
//   pictures  scores in hundredths, weights and gains in thousandths, row by row; allowed as text of 0 and 1; or {refused}
// The numbers are the parts' own: nothing here computes what a part does.

const data = JSON.parse(document.getElementById("data").textContent);
const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
const narrow = window.matchMedia("(max-width: 52rem)");
const PLAY_INTERVAL = 600; // milliseconds from one value to the next
const CELL = { width: 20, height: 15 }, GAP = 10, MARGIN = 20, TOP = 18; // of a heat map, in units of its drawing
const MAX_LABELS = 12; // columns of which each is labeled

// What is shown: a part, the positions of its dials and views, and the dial that plays.
const state = { part: null, positions: [], panels: [], playing: null, timer: null };

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

const range = (count) => [...Array(count).keys()];
const hundredths = (value) => (value / 100).toFixed(1);
const thousandths = (value) => (value / 1000).toFixed(3);
const isMultiStep = (picture) => picture.weights.length > 1;

// Text in which `code` and addresses are marked up.
function marked(text) {
  return text.split("`").flatMap((piece, index) => (index % 2 ? make("code", {}, piece) : linked(piece)));
}

function linked(text) {
  return text.split(/(https?:\/\/[^\s,;]+)/).map((piece, index) => (index % 2 ? make("a", { href: piece }, piece) : piece));
}

// --- the state -------------------------------------------------------------------------------------------------------

const dials = () => [...state.part.dials, ...state.part.views];
const optionPositions = () => state.positions.slice(0, state.part.dials.length);
const picture = () => state.part.pictures[state.part.frames[optionPositions().join()]];

function viewIndex(name) {
  const index = state.part.views.findIndex((view) => view.name === name);
  return index < 0 ? index : state.part.dials.length + index;
}

const viewPosition = (name) => state.positions[viewIndex(name)] ?? 0;

// Move a dial; the options beside it go back to their start if there is no picture of the combination.
function move(index, position) {
  state.positions[index] = position;
  if (!(optionPositions().join() in state.part.frames)) {
    state.part.dials.forEach((dial, option) => { if (option !== index) state.positions[option] = dial.start; });
  }
  show();
}

function advance(index) {
  move(index, (state.positions[index] + 1) % dials()[index].values.length);
}

function stop() {
  clearInterval(state.timer);
  state.playing = null;
  showPlaying();
}

function play(index) {
  const wasPlaying = state.playing === index;
  stop();
  if (wasPlaying) return;
  if (!reducedMotion.matches) {
    state.playing = index;
    state.timer = setInterval(() => advance(index), PLAY_INTERVAL);
    showPlaying();
  }
  advance(index);
}

function showPlaying() {
  find("readout").setAttribute("aria-live", state.playing === null ? "polite" : "off");
  for (const button of document.querySelectorAll(".play")) {
    const isPlaying = Number(button.dataset.index) === state.playing;
    set(button, { "aria-pressed": isPlaying });
    button.textContent = isPlaying ? "❚❚" : "▶";
  }
}

// --- the parts -------------------------------------------------------------------------------------------------------

const address = (part) => `${part.choice}=${part.name}`;

// A nested part is the value of another one's option, with its own options in braces.
function command(part, changed) {
  if (!part.nested || changed.length === 0) return [address(part), ...changed.map(([key, value]) => `${key}=${value}`)].join(" ");
  const options = changed.map(([key, value]) => `${key}: ${value}`).join(", ");
  return `'${part.choice}={name: ${part.name}, ${options}}'`;
}

function listParts() {
  const kinds = Object.keys(data.headings).filter((kind) => data.parts.some((part) => part.kind === kind));
  for (const kind of kinds) {
    const [heading] = data.headings[kind];
    const parts = data.parts.filter((part) => part.kind === kind);
    const items = parts.map((part) => make("li", {}, make("a", { href: `#${address(part)}` }, part.name)));
    find("parts").append(make("h2", {}, heading), make("ul", {}, ...items));
    const options = parts.map((part) => make("option", { value: address(part) }, part.name));
    find("part").append(make("optgroup", { label: heading }, ...options));
  }
}

function choosePart() {
  const wanted = decodeURIComponent(window.location.hash.slice(1));
  stop();
  state.part = data.parts.find((part) => address(part) === wanted) ?? data.parts[0];
  state.positions = dials().map((dial) => dial.start);
  find("dials").replaceChildren(...dials().map(dialRow));
  state.panels = state.part.panels.map((name) => PANELS[name](name));
  find("panels").replaceChildren(...state.panels.map((panel) => panel.figure), refusal());
  describe(state.part);
  show();
}

function describe(part) {
  const [summary, ...details] = part.text;
  find("name").textContent = part.name;
  find("summary").replaceChildren(...marked(summary));
  find("formula").textContent = part.formula;
  find("details").replaceChildren(...details.map((text) => make("p", {}, ...marked(text))));
  find("source").replaceChildren("Source: ", ...linked(part.source));
  find("module").textContent = part.module;
  find("part").value = address(part);
  const combinations = part.dials.reduce((count, dial) => count * dial.values.length, 1);
  find("alone").hidden = Object.keys(part.frames).length === combinations;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${address(part)}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function describeExample() {
  const blocks = data.example.map((text) => {
    if (!text.startsWith("- ")) return make("p", {}, ...marked(text));
    return make("ul", {}, ...text.slice(2).split("\n- ").map((item) => make("li", {}, ...marked(item))));
  });
  find("example").append(...blocks);
}

// --- the dials -------------------------------------------------------------------------------------------------------

function dialRow(dial, index) {
  const control = CONTROLS[dial.control](dial, index);
  set(control, { id: `dial-${index}`, class: "move", "data-dial": dial.name, "aria-describedby": `about-${index}` });
  const button = make("button", {
    type: "button", class: "play", "data-index": index, "aria-pressed": "false", onclick: () => play(index),
    "aria-label": `${reducedMotion.matches ? "Next value of" : "Play"} ${dial.name}`,
  }, "▶");
  return make("div", { class: "dial", hidden: dial.values.length < 2 }, button, make("label", { for: `dial-${index}` }, dial.name),
    make("output", { for: `dial-${index}` }), control, make("small", { id: `about-${index}` }, dial.about));
}

function turned(index, position) {
  stop();
  move(index, position);
}

const CONTROLS = {
  slider: (dial, index) => make("input", {
    type: "range", min: 0, max: dial.values.length - 1, step: 1, oninput: (event) => turned(index, Number(event.target.value)),
  }),
  select: (dial, index) => make("select", { onchange: (event) => turned(index, event.target.selectedIndex) },
    ...dial.values.map((value) => make("option", {}, value))),
  checkbox: (dial, index) => make("input", {
    type: "checkbox", onchange: (event) => turned(index, dial.values.indexOf(String(event.target.checked))),
  }),
};

function showDial(dial, index) {
  const control = find(`dial-${index}`), value = dial.values[state.positions[index]];
  if (dial.control === "slider") control.value = state.positions[index];
  if (dial.control === "slider") control.setAttribute("aria-valuetext", value);
  if (dial.control === "select") control.selectedIndex = state.positions[index];
  if (dial.control === "checkbox") control.checked = value === "true";
  control.parentElement.querySelector("output").textContent = dial.control === "select" ? "" : value;
}

function show() {
  const shown = picture(), step = viewPosition("step");
  dials().forEach(showDial);
  find("refused").hidden = !shown.refused;
  find("refused").textContent = shown.refused ?? "";
  for (const panel of state.panels) {
    panel.figure.hidden = Boolean(shown.refused);
    if (!shown.refused) panel.update(shown, step);
  }
  find("readout").textContent = shown.refused ? "" : readout(shown, step);
  const options = state.part.dials.map((dial, index) => [dial, dial.values[state.positions[index]]]);
  const changed = options.filter(([dial, value]) => value !== dial.default).map(([dial, value]) => [dial.key, value]);
  find("command").textContent = `attnx ${command(state.part, changed)}`;
}

const refusal = () => make("p", { id: "refused", class: "refused", role: "alert", hidden: true });

// The weights of the step in words; of many columns the five largest.
function readout(shown, step) {
  if (shown.selected) return `Step ${step}: the query has ${shown.query[step].length} numbers.`;
  const weights = shown.weights[step];
  const start = isMultiStep(shown) ? `Step ${step}, weights: ` : "Weights: ";
  const sum = `; sum ${(weights.reduce((total, weight) => total + weight, 0) / 1000).toFixed(2)}`;
  if (weights.length <= MAX_LABELS) return start + weights.map(thousandths).join(" ") + sum;
  const order = range(weights.length).sort((first, second) => weights[second] - weights[first]).slice(0, 5);
  return start + order.map((column) => `${columnName(shown, column)} ${thousandths(weights[column])}`).join(", ") + sum;
}

const columnName = ({ columns, states }, column) => (column < columns.length - states ? "position " : "state ") + columns[column];

// --- panels ----------------------------------------------------------------------------------------------------------

function panel(title, viewBox, className = "") {
  const heading = make("h3", {}, title), note = make("span"), svg = draw("svg", { role: "img", "aria-label": title });
  if (viewBox) svg.setAttribute("viewBox", viewBox);
  const figure = make("figure", { class: `panel ${className}` }, make("figcaption", {}, heading, note), svg);
  return { figure, heading, note, svg };
}

const extent = (rows) => [Math.min(...rows.flat()), Math.max(...rows.flat())];

// How strong the color of each cell is, from 0 to 1, and what its ends mean.
const SHADES = {
  scores(shown) {
    const [low, high] = extent(shown.scores);
    const strengths = shown.scores.map((row) => row.map((score) => (score - low) / (high - low || 1)));
    return { strengths, note: `faint ${hundredths(low)}, full ${hundredths(high)}` };
  },
  allowed(shown) {
    const gain = (step, column) => (shown.gain ? shown.gain[step][column] / 1000 : 0.6);
    const strengths = shown.allowed.map((row, step) => [...row].map((digit, column) => Number(digit) * gain(step, column)));
    return { strengths, note: shown.gain ? "full: more gain; hatched: no" : "hatched: no" };
  },
  weights(shown) {
    const high = Math.max(1000, extent(shown.weights)[1]);
    return { strengths: shown.weights.map((row) => row.map((weight) => weight / high)), note: `faint 0, full ${high / 1000}` };
  },
};

// A heat map: a row for each step, a column for each memory position; a click chooses a step.
function mapPanel(field) {
  const made = panel(field), hatched = field !== "scores";
  let cells = [], outline = null, shape = "";
  made.svg.addEventListener("click", (event) => {
    const box = made.svg.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height * made.svg.viewBox.baseVal.height - TOP) / CELL.height);
    if (row >= 0 && row < cells.length) turned(viewIndex("step"), row);
  });
  made.update = (shown, step) => {
    const needed = [shown.columns.length, shown.states].join();
    if (needed !== shape) [cells, outline] = layMap(made.svg, shown);
    shape = needed;
    const { strengths, note } = SHADES[field](shown);
    cells.forEach((row, index) => row.forEach((cell, column) => {
      const forbidden = hatched && shown.allowed[index][column] === "0";
      set(cell, { class: forbidden ? "cell forbidden" : `cell ${field}`, "fill-opacity": forbidden ? 1 : strengths[index][column] });
    }));
    made.note.textContent = note;
    outline.setAttribute("y", TOP + step * CELL.height);
  };
  return made;
}

const cellX = ({ columns, states }, column) => MARGIN + column * CELL.width + (column >= columns.length - states && states < columns.length ? GAP : 0);

function layMap(svg, shown) {
  const steps = shown.weights.length, count = shown.columns.length, isWide = count > MAX_LABELS;
  const width = cellX(shown, count - 1) + CELL.width + 2;
  const style = isWide ? "font-size: 15px" : "font-size: 11px";
  const cells = range(steps).map((step) => range(count).map((column) => draw("rect", {
    x: cellX(shown, column), y: TOP + step * CELL.height, ...CELL,
  })));
  const labels = range(count).filter((column) => !isWide || column % 3 === 0).map((column) => draw("text", {
    x: cellX(shown, column) + CELL.width / 2, y: TOP - 5, "text-anchor": "middle", style,
  }, shown.columns[column]));
  const rows = range(steps).map((step) => draw("text", {
    x: MARGIN - 6, y: TOP + (step + 0.75) * CELL.height, "text-anchor": "end", class: "pale", style,
  }, String(step)));
  const outline = draw("rect", { class: "row", x: MARGIN - 1, width: width - MARGIN, height: CELL.height });
  set(svg, { viewBox: `0 0 ${width} ${TOP + steps * CELL.height + 2}`, class: "clickable" });
  svg.replaceChildren(...cells.flat(), ...labels, ...rows, outline);
  return [cells, outline];
}

// Bars of the scores of a step above bars of their weights.
const BARS = { width: 380, top: 14, middle: 96, label: 112, weights: 128, bottom: 244 };

function barPanel() {
  const made = panel("", `0 0 ${BARS.width} ${BARS.bottom + 4}`);
  let columns = [], shape = "";
  made.update = (shown, step) => {
    const needed = [shown.columns.length, shown.states].join();
    if (needed !== shape) columns = layBars(made.svg, shown);
    shape = needed;
    made.heading.textContent = isMultiStep(shown) ? `step ${step}: scores, and their weights` : "scores, and their weights";
    made.note.textContent = shown.curve ? "hatched: not allowed; lines: softmax" : "hatched: not allowed";
    made.svg.setAttribute("aria-label", readout(shown, step));
    columns.forEach((column, index) => updateColumn(column, shown, step, index));
  };
  return made;
}

function layBars(svg, shown) {
  const count = shown.columns.length, slot = BARS.width / count, names = ["hatch", "score", "weight"];
  const columns = range(count).map((column) => {
    const x = column * slot + slot * 0.14, width = slot * 0.72, center = { x: (column + 0.5) * slot, "text-anchor": "middle" };
    const bars = Object.fromEntries(names.map((name) => [name, draw("rect", { x, width })]));
    const texts = { scoreText: draw("text", center), weightText: draw("text", { ...center, class: "value" }) };
    const label = draw("text", { ...center, y: BARS.label, class: "pale" }, shown.columns[column]);
    return { ...bars, softmax: draw("path", { class: "softmax" }), ...texts, label };
  });
  svg.replaceChildren(...columns.flatMap(Object.values));
  return columns.map((column) => ({ ...column, slot }));
}

function updateColumn(bar, shown, step, column) {
  const [low, high] = extent([[0, 1], ...shown.scores]), top = Math.max(1000, extent(shown.weights)[1]);
  const scoreY = (score) => BARS.middle - (score - low) / (high - low) * (BARS.middle - BARS.top);
  const weightY = (weight) => BARS.bottom - weight / top * (BARS.bottom - BARS.weights - 12);
  const score = shown.scores[step][column], weight = shown.weights[step][column];
  const isAllowed = shown.allowed[step][column] === "1", isLabeled = shown.columns.length <= MAX_LABELS && isAllowed;
  set(bar.hatch, { class: "forbidden", y: BARS.top, height: isAllowed ? 0 : BARS.bottom - BARS.top });
  set(bar.score, { class: "scores", y: Math.min(scoreY(score), scoreY(0)), height: Math.abs(scoreY(score) - scoreY(0)) });
  set(bar.weight, { class: "weights", y: weightY(weight), height: BARS.bottom - weightY(weight) });
  set(bar.scoreText, { y: scoreY(Math.max(score, 0)) - 3 });
  const softmax = shown.curve && isAllowed ? data.softmax.weights[0][column] : 0;
  set(bar.weightText, { y: weightY(Math.max(weight, softmax)) - 4 });
  bar.scoreText.textContent = isLabeled ? hundredths(score) : "";
  bar.weightText.textContent = isLabeled ? thousandths(weight) : "";
  if (softmax) bar.softmax.setAttribute("d", `M${column * bar.slot + 2} ${weightY(softmax)}h${bar.slot - 4}`);
}

// The weight of one of two positions, by its score; the score of the second is that in the middle.
function curvePanel() {
  const made = panel("weight of one of two, by its score", "0 0 380 248");
  const line = draw("path", { class: "curve" }), softmax = draw("path", { class: "softmax" });
  made.update = ({ curve }) => {
    const { scores } = curve, last = scores.length - 1, high = Math.max(1000, ...curve.weights);
    const x = (score) => 36 + (score - scores[0]) / (scores[last] - scores[0]) * 330;
    const y = (weight) => 205 - weight / high * 185;
    const path = (weights) => `M${scores.map((score, index) => `${x(score).toFixed(1)} ${y(weights[index]).toFixed(1)}`).join("L")}`;
    line.setAttribute("d", path(curve.weights));
    softmax.setAttribute("d", path(data.softmax.curve.weights));
    const ticks = [0, last / 2, last].map((index) => draw("text", { x: x(scores[index]), y: 222, "text-anchor": "middle" }, hundredths(scores[index])));
    const levels = [0, high / 2, high].map((level) => draw("text", { x: 30, y: y(level) + 3, "text-anchor": "end" }, String(level / 1000)));
    made.svg.replaceChildren(draw("path", { class: "axis", d: "M36 20V205H366" }), softmax, line, ...ticks, ...levels);
    made.note.textContent = `the second has ${hundredths(scores[last / 2])}; thin: softmax`;
  };
  return made;
}

// The score of a memory vector at each point of a plane, and the query as an arrow.
function planePanel() {
  const { points, extent: reach, query_length: length } = data.plane, size = 18, width = points * size, middle = width / 2;
  const made = panel("score of a memory vector in a plane", `0 0 ${width} ${width}`, "square");
  const cells = range(points * points).map((index) => draw("rect", {
    class: "scores", x: (index % points) * size, y: Math.floor(index / points) * size, width: size, height: size,
  }));
  const arrow = draw("path", { class: "arrow" });
  made.svg.append(...cells, draw("path", { class: "axis", d: `M0 ${middle}H${width}M${middle} 0V${width}` }), arrow);
  made.update = ({ plane }) => {
    const direction = viewPosition("direction"), angle = direction / plane.shades.length * 2 * Math.PI;
    plane.shades[direction].forEach((shade, index) => cells[index].setAttribute("fill-opacity", shade / 99));
    const [x, y] = [Math.cos(angle), -Math.sin(angle)].map((part) => middle + part * length / reach * middle);
    arrow.setAttribute("d", `M${middle} ${middle}L${x} ${y}`);
    made.note.textContent = `faint ${plane.low.toFixed(1)}, full ${plane.high.toFixed(1)}; arrow: the query`;
  };
  return made;
}

// The vectors of a decoder step, and the query that the part makes of them.
const ROW = { width: 400, height: 62, box: 350, strip: 334 };

function vectorPanel() {
  const made = panel("what enters the query", `0 0 ${ROW.width} ${(data.vectors.length + 1) * ROW.height + 14}`, "large");
  const all = data.vectors.flatMap((vector) => vector.numbers.flat());
  const largest = Math.max(...all.map(Math.abs));
  made.note.textContent = "blue above 0, brown below";
  made.update = (shown, step) => {
    const rows = data.vectors.map((vector, index) => vectorRow(vector, index * ROW.height, step, largest, vector.name === shown.selected));
    const bottom = data.vectors.length * ROW.height + 12, from = data.vectors.findIndex((vector) => vector.name === shown.selected);
    const query = { label: "query", availability: "compared with the memory", numbers: shown.query };
    const link = draw("path", { class: "link", d: `M${ROW.box} ${(from + 0.45) * ROW.height}h30V${bottom + 0.45 * ROW.height}h-28` });
    made.svg.replaceChildren(...rows.flat(), ...vectorRow(query, bottom, step, extent([[largest], shown.query.flat()])[1], true), link);
    made.svg.setAttribute("aria-label", `${data.vectors[from].label} is the query; it is ${data.vectors[from].availability}`);
  };
  return made;
}

function vectorRow({ label, availability, numbers }, y, step, largest, isSelected) {
  const row = numbers[step], width = Math.min(ROW.strip / row.length, 26);
  const cells = row.map((value, index) => draw("rect", {
    class: `cell ${value < 0 ? "scores" : "weights"}`, "fill-opacity": Math.min(Math.abs(value) / largest, 1),
    x: 8 + index * width, y: y + 34, width, height: 14,
  }));
  return [draw("rect", { class: isSelected ? "box selected" : "box", x: 1, y: y + 2, width: ROW.box - 2, height: ROW.height - 8, rx: 5 }),
    draw("text", { x: 8, y: y + 17, style: "font-size: 13px" }, label),
    draw("text", { x: 8, y: y + 29, class: "pale" }, availability), ...cells];
}

const PANELS = {
  scores: mapPanel, allowed: mapPanel, weights: mapPanel, bars: barPanel, curve: curvePanel, plane: planePanel, vectors: vectorPanel,
};

// Where pictures are a strip to scroll, the arrow keys scroll it, too.
function setStrip() {
  find("panels").tabIndex = narrow.matches ? 0 : -1;
}

narrow.addEventListener("change", setStrip);
setStrip();
listParts();
describeExample();
find("part").addEventListener("change", (event) => { window.location.hash = event.target.value; });
window.addEventListener("hashchange", choosePart);
choosePart();

// A page that frames this one can be as high as it.
if (window.parent !== window) new ResizeObserver(() => window.parent.postMessage(document.body.offsetHeight, "*")).observe(document.body);
