"use strict";

// The page of one run, or of two side by side. Everything it shows lies in the element #data:
//   runs      [{name, results, facts, statistics}]  tables, as rows of text
//   examples  [{source, name, runs}]                runs: for each run its hypotheses, best first, or null
// A hypothesis is {output, reference, is_right, numeric, decoder_states, score, views}; a view is
// {name, weights, read}: thousandths, row by row, and for each row from which column to which its weights are not 0
// (null if everywhere). Columns are the source symbols, then the first `decoder_states` output symbols. `is_right` is null where
// the task does not say, `numeric` is whether outputs are rows of numbers, which go by the names of their steps. What else
// a hypothesis has is for the player, player.js.

const data = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const SHADES = {
  light: ["#ffffff", "#dbe9f6", "#a6cbe5", "#5a9fcf", "#1f68ad", "#08306b"],
  dark: ["#12161c", "#17304a", "#1c5687", "#2f86c9", "#78bdf0", "#e6f4ff"],
};
const MIN_WEIGHT = 10; // thousandths of a weight that is named when a row is selected
const MAX_SYMBOLS = 5; // named when a row is selected
const CELL = { smallest: 13, narrow: 20, largest: 36 }; // pixels of a cell; below narrow, two letters stand on end

// What is chosen: an example, its picked output symbol, and for each run a hypothesis and a view.
const state = { example: 0, row: null, filter: "all", hypotheses: data.runs.map(() => 0), views: data.runs.map(() => 0) };

const isolated = (text) => make("bdi", {}, text);
const weightText = (weight) => (weight / 1000).toFixed(3);
const columnsOf = (example, hypothesis) => [...example.source, ...hypothesis.output.slice(0, hypothesis.decoder_states)];

function chosen(run) {
  const example = data.examples[state.example];
  const hypotheses = example.runs[run];
  if (!hypotheses) return null;
  const hypothesis = hypotheses[Math.min(state.hypotheses[run], hypotheses.length - 1)];
  const view = hypothesis.views[Math.min(state.views[run], hypothesis.views.length - 1)];
  return { example, hypotheses, hypothesis, view, columns: columnsOf(example, hypothesis) };
}

// --- colors ---------------------------------------------------------------------------------------------------------

const channels = (weight, top) => between(SHADES[dark.matches ? "dark" : "light"], weight / top);

// The color at a share, from 0 to 1, of the way along shades, as red, green and blue.
function between(shades, share) {
  const place = Math.min(Math.max(share, 0), 1) * (shades.length - 1);
  const below = Math.min(Math.floor(place), shades.length - 2);
  const parts = (shade) => [1, 3, 5].map((start) => parseInt(shade.slice(start, start + 2), 16));
  const [from, to] = [parts(shades[below]), parts(shades[below + 1])];
  return from.map((value, channel) => Math.round(value + (to[channel] - value) * (place - below)));
}

const mixed = { true: new Map(), false: new Map() }; // by whether it is dark: a map of many cells has few colors

function shade(weight, top) {
  const cache = mixed[dark.matches];
  const share = weight / top;
  if (!cache.has(share)) cache.set(share, `rgb(${channels(weight, top).join(" ")})`);
  return cache.get(share);
}

function inkOn(weight, top) {
  const [red, green, blue] = channels(weight, top);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#10151b" : "#ffffff";
}

// --- the list of examples --------------------------------------------------------------------------------------------

const bests = (example) => example.runs.map((hypotheses) => hypotheses && hypotheses[0]);
const isWrong = (example) => bests(example).some((best) => best && best.is_right === false);
const isScored = (example) => bests(example).some((best) => best && best.is_right !== null);

function labelOf(example) {
  const best = bests(example).find(Boolean);
  return { source: example.name || (example.source.length ? symbolsText(example.source) : ""), output: outputText(best) };
}

function listed() {
  const sought = find("search").value.trim().toLowerCase();
  return [...data.examples.keys()].filter((number) => {
    const example = data.examples[number];
    const texts = [example.name, example.source, ...bests(example).filter(Boolean).flatMap((best) => [best.output, best.reference])];
    const matches = texts.some((text) => [text].flat().join(" ").toLowerCase().includes(sought)
      || [text].flat().join("").toLowerCase().includes(sought));
    const passes = state.filter === "all" || isWrong(example) === (state.filter === "wrong");
    return matches && passes;
  });
}

function mark(best) {
  if (!best) return make("span", { class: "mark" }, "·");
  if (best.is_right === null) return "";
  return make("span", { class: best.is_right ? "mark right" : "mark wrong" },
    make("span", { "aria-hidden": "true" }, best.is_right ? "✓" : "✗"),
    make("span", { class: "hidden" }, best.is_right ? "correct: " : "wrong: "));
}

function showList() {
  const numbers = listed();
  const items = numbers.map((number) => {
    const example = data.examples[number];
    const { source, output } = labelOf(example);
    return make("li", {}, make("button", {
      type: "button", "data-example": number, onclick: () => choose(number),
    }, make("span", {}, ...bests(example).map(mark)),
    ...[source, output].filter(Boolean).map((text) => make("span", { class: "words", dir: "auto" }, text))));
  });
  find("examples").replaceChildren(...items);
  markCurrent();
  const wrong = data.examples.filter(isWrong).length;
  const all = counted(data.examples.length, "example");
  const text = data.examples.some(isScored) ? `${all}, ${wrong} wrong` : all;
  find("count").textContent = numbers.length === data.examples.length ? text : `${numbers.length} of ${all}`;
}

// Mark the chosen example in the list and return its button, if it is there. The list is one stop of Tab: arrow keys go on.
function markCurrent() {
  const buttons = [...find("examples").querySelectorAll("button")];
  const current = buttons.find((button) => Number(button.dataset.example) === state.example);
  for (const button of buttons) {
    if (button === current) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    button.tabIndex = button === (current || buttons[0]) ? 0 : -1;
  }
  return current;
}

function choose(number, focused = false) {
  Object.assign(state, { example: number, row: null });
  state.hypotheses.fill(0);
  history.replaceState(null, "", `#${number + 1}`);
  const current = markCurrent();
  if (current) keepInView(current);
  if (current && focused) current.focus();
  show();
}

// Scroll the list, and never the page.
function keepInView(button) {
  const list = find("examples");
  const [inner, outer] = [button.getBoundingClientRect(), list.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
}

function step(by, focused = false) {
  const numbers = listed();
  if (!numbers.length) return;
  const place = numbers.indexOf(state.example);
  const next = place < 0 ? 0 : Math.min(Math.max(place + by, 0), numbers.length - 1);
  if (numbers[next] !== state.example) choose(numbers[next], focused);
}

// --- one example -----------------------------------------------------------------------------------------------------

function show() {
  find("tip").hidden = true;
  find("runs").replaceChildren(...data.runs.map((_, run) => article(run)));
  for (const one of document.querySelectorAll("article[data-run]")) fit(one);
  const tops = new Set(data.runs.map((_, run) => chosen(run)).filter(Boolean).map(({ view }) => darkestWeight(view.weights)));
  find("top").textContent = [...tops].map((top) => String(top / 1000)).join(" or ");
  const numbers = listed();
  const place = numbers.indexOf(state.example);
  find("place").textContent = `${place < 0 ? "–" : place + 1} of ${numbers.length}`;
  find("previous").disabled = place <= 0;
  find("next").disabled = place < 0 || place === numbers.length - 1;
  showPlayer();
  pick(state.row);
}

function article(run) {
  const title = make("h3", { class: data.runs.length > 1 ? "" : "hidden" }, data.runs[run].name);
  const selection = chosen(run);
  if (!selection) return make("article", { class: "run" }, title, make("p", { class: "note" }, "This run did not save this example."));
  const { example, hypotheses, hypothesis, view, columns } = selection;
  const parts = [title, choices(run, selection)];
  const strips = make("dl", { style: "margin: 0" });
  if (example.name) strips.append(strip("name", make("bdi", {}, example.name)));
  if (example.source.length) strips.append(strip("source", symbols(run, example.source, "read")));
  strips.append(strip("output", symbols(run, hypothesis.output, "output")));
  if (hypothesis.is_right === false) strips.append(strip("reference", reference(hypothesis), "reference"));
  else if (hypothesis.is_right === null && !hypothesis.numeric) strips.append(strip("text", reference(hypothesis)));
  parts.push(strips, make("div", { class: "scroll" }, map(run, selection)));
  parts.push(make("p", { class: "note" }, view.read ? "Hatched: a weight of exactly 0." : ""));
  const one = make("article", { class: "run", "data-run": run, "aria-label": data.runs[run].name });
  one.append(...parts);
  return one;
}

const reference = (hypothesis) => make("span", { dir: direction(hypothesis.reference) }, outputText({ ...hypothesis, output: hypothesis.reference }));
const strip = (name, content, kind = "") => make("div", { class: `strip ${kind}` }, make("dt", {}, name), make("dd", {}, content));

// Symbols in a row, as text of their own direction, so that letters join where their script joins them. Those of an
// output are buttons, together one stop of Tab: arrow keys go from one to the next.
function symbols(run, all, kind) {
  const joined = letters(all) && !digits(all);
  const row = make("span", { dir: direction(all), class: `${kind} ${joined ? "joined" : "spaced"}` });
  all.forEach((symbol, place) => {
    const button = kind === "output";
    const pressed = () => pick(state.row === place ? null : place);
    row.append(make("span", {
      class: "symbol", "data-place": place, dir: joined && symbol !== "</s>" ? null : "auto", role: button && "button", tabindex: button && (place ? "-1" : "0"),
      "aria-pressed": button && "false", onclick: button ? pressed : () => {},
      onkeydown: (event) => {
        if (!button) return;
        if (["Enter", " "].includes(event.key)) pressed();
        else if (!moveFocus(event, row)) return;
        event.preventDefault();
        event.stopPropagation();
      },
    }, joined && place ? symbol.replace(" ", "␣") : shown(symbol)));
    if (!joined || all[place + 1] === "</s>") row.append(" ");
  });
  return row;
}

// Go from a symbol of a row to the next or the last one by the left and right arrow keys; false for another key.
function moveFocus(event, row) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key] * (row.dir === "rtl" ? -1 : 1);
  const next = row.querySelector(`[data-place="${Number(event.target.dataset.place) + by}"]`);
  if (next) {
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
  return Boolean(by);
}

// A menu of texts, of which one is chosen; `choose` gets the number of another.
function choiceMenu(name, texts, chosenNumber, choose) {
  const options = texts.map((text, number) => make("option", { value: number, selected: number === chosenNumber }, text));
  return make("select", { "data-menu": name, onchange: (event) => choose(Number(event.target.value)) }, ...options);
}

function choices(run, { hypotheses, hypothesis, view }) {
  const box = make("div", { class: "choices" });
  const select = (name, options, place, into) => {
    const menu = choiceMenu(name, options, place, (number) => {
      into[run] = number;
      state.row = null;
      show();
      document.querySelector(`[data-run="${run}"] select[data-menu="${name}"]`).focus();
    });
    box.append(make("label", {}, name, menu));
  };
  if (hypotheses.length > 1) {
    const options = hypotheses.map((one, rank) => `${rank + 1}: ${outputText(one)}${one.score === null ? "" : ` (${one.score.toFixed(2)})`}`);
    select("hypothesis", options, hypotheses.indexOf(hypothesis), state.hypotheses);
  }
  if (hypothesis.views.length > 1) select("head", hypothesis.views.map((one) => one.name), hypothesis.views.indexOf(view), state.views);
  return box;
}

// --- the map ---------------------------------------------------------------------------------------------------------

function map(run, { example, hypothesis, view, columns }) {
  const sources = example.source.length;
  const top = darkestWeight(view.weights);
  const both = sources > 0 && hypothesis.decoder_states > 0;
  const withGap = (cells, gap) => (both ? [...cells.slice(0, sources), gap, ...cells.slice(sources)] : cells);
  // Long symbols stand on end, all of a half together; the end symbol stands alone.
  const long = (symbol) => [...shown(symbol)].length > 2;
  const halves = [columns.slice(0, sources), columns.slice(sources)];
  const turned = halves.map((half) => half.some((symbol) => symbol !== "</s>" && long(symbol)));
  const tall = (symbol, column) => turned[column < sources ? 0 : 1] || long(symbol);
  const pair = (symbol) => [...shown(symbol)].length === 2;
  const kind = (symbol, column) => (tall(symbol, column) ? "tall" : pair(symbol) && "pair");
  const head = make("tr", {}, make("th", { class: "corner" }, make("span", { class: "hidden" }, "output")), ...withGap(
    columns.map((symbol, column) => make("th", { scope: "col", "data-column": column, class: kind(symbol, column), title: symbol },
      make("span", { dir: "auto" }, shown(symbol)))), make("th", { class: "gap", "aria-hidden": "true" })));
  const heads = make("thead", {}, head);
  if (hypothesis.decoder_states) {
    const captions = [make("th", { class: "corner" })];
    if (sources) captions.push(make("th", { colspan: sources, scope: "colgroup" }, "source"));
    if (both) captions.push(make("th", { class: "gap" }));
    captions.push(make("th", { colspan: hypothesis.decoder_states, scope: "colgroup" }, "decoder states"));
    heads.prepend(make("tr", { class: "captions" }, ...captions));
  }
  const body = make("tbody", {}, ...hypothesis.output.map((symbol, row) => {
    const cells = columns.map((_, column) => cell(run, { hypothesis, view, columns, sources, top }, row, column));
    const name = make("th", { scope: "row" }, make("button", {
      type: "button", "aria-pressed": "false", "data-place": row, title: symbol, dir: "auto", tabindex: "-1", // its output symbol is reached by Tab
      onclick: () => pick(state.row === row ? null : row),
    }, shown(symbol)));
    return make("tr", { "data-row": row }, name, ...withGap(cells, make("td", { class: "gap", "aria-hidden": "true" })));
  }));
  const table = make("table", { class: "map", role: "grid",
    "aria-label": "Attention weights: a row for each output symbol, a column for each position" }, heads, body);
  table.addEventListener("keydown", (event) => walk(event, table));
  table.addEventListener("pointerover", (event) => meet(event, run));
  table.addEventListener("focusin", (event) => meet(event, run));
  table.addEventListener("pointerleave", () => part(table));
  table.addEventListener("focusout", () => part(table));
  return table;
}

// Cells as large as the article has room for, beside the names of the rows: wider maps than that can be scrolled.
function fit(one) {
  const table = one.querySelector(".map");
  const columns = table.querySelectorAll("thead th[data-column]").length;
  const others = [...table.querySelectorAll("tbody tr:first-child > :not([data-column])")].reduce((sum, e) => sum + e.getBoundingClientRect().width, 0);
  const scroll = one.querySelector(".scroll");
  const bar = scroll.offsetWidth - scroll.clientWidth;
  const room = Math.floor((one.clientWidth - others - bar - 2) / columns);
  const size = Math.min(Math.max(room, CELL.smallest), CELL.largest);
  table.style.setProperty("--cell", `${size}px`);
  table.classList.toggle("narrow", size < CELL.narrow);
}

function cell(run, { hypothesis, view, columns, sources, top }, row, column) {
  const weight = view.weights[row * columns.length + column];
  const isUnread = view.read && !holds(view.read[row], column);
  const first = column === 0 || (column === sources && sources > 0);
  return make("td", {
    "data-column": column, style: `background-color: ${shade(weight, top)}`,
    tabindex: row + column === 0 ? "0" : "-1", class: [isUnread && "unread", first && "first"].filter(Boolean).join(" ") || null,
    "aria-label": `${shown(hypothesis.output[row])} read ${shown(columns[column])}, weight ${weightText(weight)}`,
  });
}

// Whether a column lies in one of the ranges, given as start, end, start, end, and so on.
function holds(ranges, column) {
  for (let start = 0; start < ranges.length; start += 2) if (ranges[start] <= column && column < ranges[start + 1]) return true;
  return false;
}

// Arrow keys go from cell to cell within a map.
function walk(event, table) {
  const current = event.target.closest("td[data-column]");
  const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!current || !by) return;
  event.preventDefault();
  event.stopPropagation();
  const [row, column] = [Number(current.parentNode.dataset.row) + by[0], Number(current.dataset.column) + by[1]];
  const target = table.querySelector(`tr[data-row="${row}"] td[data-column="${column}"]`);
  if (!target) return;
  current.tabIndex = -1;
  target.tabIndex = 0;
  target.focus();
}

// What is pointed at, or focused, says its weight.
function meet(event, run) {
  const table = event.currentTarget;
  part(table);
  const current = event.target.closest("td[data-column]");
  if (!current) return;
  const { hypothesis, view, columns } = chosen(run);
  const [row, column] = [Number(current.parentNode.dataset.row), Number(current.dataset.column)];
  const weight = view.weights[row * columns.length + column];
  table.querySelector(`th[data-column="${column}"]`).classList.add("met");
  table.querySelector(`tr[data-row="${row}"] th`).classList.add("met");
  const tip = find("tip");
  tip.replaceChildren(isolated(shown(hypothesis.output[row])), " read ", isolated(shown(columns[column])), ": ",
    make("strong", {}, weightText(weight)));
  tip.hidden = false;
  const [cell, box] = [current.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.min(Math.max(cell.left + cell.width / 2 - box.width / 2, 4), window.innerWidth - box.width - 4);
  tip.style.left = `${left}px`;
  tip.style.top = `${cell.top > box.height + 8 ? cell.top - box.height - 6 : cell.bottom + 6}px`;
}

function part(table) {
  find("tip").hidden = true;
  for (const name of table.querySelectorAll(".met")) name.classList.remove("met");
}

// --- one output symbol -----------------------------------------------------------------------------------------------

function pick(row) {
  state.row = row;
  const sentences = [];
  for (const one of document.querySelectorAll("article[data-run]")) {
    const selection = chosen(Number(one.dataset.run));
    const isSelected = row !== null && row < selection.hypothesis.output.length;
    one.querySelector(".map").classList.toggle("picked", isSelected);
    for (const line of one.querySelectorAll("tbody tr")) line.classList.toggle("picked", Number(line.dataset.row) === row);
    for (const button of one.querySelectorAll("[aria-pressed][data-place]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.place) === row));
    }
    const width = selection.columns.length;
    for (const symbol of one.querySelectorAll(".read .symbol")) {
      const weight = isSelected ? selection.view.weights[row * width + Number(symbol.dataset.place)] : null;
      symbol.style.background = isSelected ? shade(weight, darkestWeight(selection.view.weights)) : "";
      symbol.style.color = isSelected ? inkOn(weight, darkestWeight(selection.view.weights)) : "";
    }
    if (isSelected) sentences.push(sentence(selection, row, data.runs[Number(one.dataset.run)].name));
  }
  find("chosen").replaceChildren(...sentences);
  if (row !== null) drawStep(row);
}

// In words, what a symbol read, heaviest first.
function sentence({ hypothesis, view, columns }, row, name) {
  const weights = view.weights.slice(row * columns.length, (row + 1) * columns.length);
  const heavy = [...weights.keys()].filter((column) => weights[column] >= MIN_WEIGHT).sort((one, other) => weights[other] - weights[one]);
  const line = make("span", { style: "display: block" }, data.runs.length > 1 ? `${name}: ` : "",
    make("strong", {}, isolated(shown(hypothesis.output[row]))), heavy.length ? " read " : " read nothing");
  heavy.slice(0, MAX_SYMBOLS).forEach((column, place) => line.append(place ? ", " : "", isolated(shown(columns[column])), ` ${weightText(weights[column])}`));
  if (heavy.length > MAX_SYMBOLS) line.append(` and ${heavy.length - MAX_SYMBOLS} more`);
  return line;
}

// --- tables ----------------------------------------------------------------------------------------------------------

// A row for each thing that any run says, a column a run, and what it means behind them.
function table(key) {
  const names = [...new Set(data.runs.flatMap((run) => run[key].map(([name]) => name)))];
  const rows = names.map((name) => {
    const rows = data.runs.map((run) => run[key].find((row) => row[0] === name));
    const meaning = rows.find((row) => row && row[2]);
    return make("tr", {}, make("th", { scope: "row" }, ...breakable(name)),
      ...rows.map((row) => make("td", { class: key === "facts" ? "" : "number" }, ...breakable(row ? row[1] : "–"))),
      ...(key === "facts" ? [] : [make("td", { class: "description" }, meaning ? meaning[2] : "")]));
  });
  const head = data.runs.length > 1
    ? [make("thead", {}, make("tr", {}, make("td"), ...data.runs.map((run) => make("th", { scope: "col" }, run.name))))] : [];
  return make("div", { class: "wide" }, make("table", { class: key === "facts" ? "plain" : "plain numbers" }, ...head, make("tbody", {}, ...rows)));
}

// --- beginning -------------------------------------------------------------------------------------------------------

find("statistics").append(table("statistics"));
find("results").append(table("results"));
find("facts").append(table("facts"));
if (!data.examples.some(isScored)) document.querySelector(".filters").hidden = true;
find("search").addEventListener("input", () => { showList(); show(); });
for (const button of document.querySelectorAll("[data-filter]")) {
  button.addEventListener("click", () => {
    state.filter = button.dataset.filter;
    for (const other of document.querySelectorAll("[data-filter]")) other.setAttribute("aria-pressed", String(other === button));
    showList();
    show();
  });
}
find("previous").addEventListener("click", () => step(-1));
find("next").addEventListener("click", () => step(1));
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.key === "Escape") pick(null);
  if (event.target.closest("input, select")) return;
  const within = event.target.closest("#examples") !== null;
  if (event.key === "ArrowLeft" || (within && event.key === "ArrowUp")) step(-1, within);
  else if (event.key === "ArrowRight" || (within && event.key === "ArrowDown")) step(1, within);
  else return;
  event.preventDefault();
});
dark.addEventListener("change", show);
window.addEventListener("resize", () => { for (const one of document.querySelectorAll("article[data-run]")) fit(one); });
window.addEventListener("scroll", () => { find("tip").hidden = true; }, { passive: true });
window.addEventListener("hashchange", () => choose(exampleInHash()));

function exampleInHash() {
  const number = Number(location.hash.slice(1));
  return Number.isInteger(number) && number >= 1 && number <= data.examples.length ? number - 1 : 0;
}

startPlayer();
showList();
choose(exampleInHash());
