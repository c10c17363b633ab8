"use strict";

// The report of many runs. Everything it shows lies in the element #data; attnx/reports/sweep/page_data.py writes it:
//   comparisons  one for each test: settings (runs that differ by seed), and by each metric their rows, best first; the values
//                of chosen_keys, and how many were tried, were chosen for each setting in validation
//   runs         folder, page, seed, values, costs and curves of each
//   failures     what did not finish
// A row is {setting, mean, sd, n, scale_mean, interval, difference, both_sources}: setting is an index; scale_mean is the mean
// on the scale of the tests, which may be that of logarithms, and interval is its interval;
// difference is [difference, low, high, p, test], above zero being worse than the best, or null; both_sources is its interval
// over other seeds and other test examples, or null. A level of an effect is [value, mean, low, high, difference, settings];
// tests are [F, degrees, degrees of the error, p, p adjusted by Holm], or null.

const data = JSON.parse(document.getElementById("data").textContent);
const MAX_COLORS = 6; // settings that have a color of their own
const POINTER_RADIUS = 24; // pixels from which a pointer meets a line or a point
const SIGNIFICANCE_LEVEL = 0.05;
const MARKS = { true: "✓ ", false: "✗ ", null: "" }; // by is_right of an output
const TESTS = { seeds: "over seeds", settings: "over settings", examples: "bootstrap over test examples" };

const state = { test: 0, metric: 0, sort: { by: "rank", up: true }, text: "", chosen: {}, picked: null, open: new Set(), example: 0 };

const comparison = () => data.comparisons[state.test];
const metric = () => comparison().metrics[state.metric];

// --- numbers in words ------------------------------------------------------------------------------------------------

const writers = new Map(); // by digits: making one takes longer than all that it writes

function fixed(value, digits) {
  if (!writers.has(digits)) writers.set(digits, new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  return writers.get(digits).format(value);
}

// None is written as zero but what rounding made of one.
function formatValue(value) {
  const { digits } = metric(), unit = 10 ** -digits, size = Math.abs(value);
  if (size <= 1e-4 * unit) return fixed(0, digits);
  return fixed(value, size < unit / 2 ? Math.ceil(-Math.log10(size)) : digits);
}
// What stands beside an axis: a name, and its unit if that is a sign.
const titled = ({ label, unit }) => (unit?.startsWith("%") ? `${label}, %` : label);
// Math.min(...values) and Math.max(...values) fail with a hundred thousand values.
const least = (values) => values.reduce((one, other) => Math.min(one, other), Infinity);
const largest = (values) => values.reduce((one, other) => Math.max(one, other), -Infinity);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const pValue = (p) => (p < 0.001 ? "< 0.001" : fixed(p, p < 0.1 ? 3 : 2));
const brief = (value) => (Math.abs(value) >= 1e6 ? `${+(value / 1e6).toFixed(2)}M` : Math.abs(value) >= 1e4 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toPrecision(4)}`);

// Texts in order; numbers by their size.
function inOrder(one, other) {
  const [a, b] = [Number(one), Number(other)];
  return one !== "" && other !== "" && Number.isFinite(a) && Number.isFinite(b) ? a - b : one.localeCompare(other, "en", { numeric: true });
}

// Text with **names** and `commands` in them.
function marked(text) {
  return text.split(/(\*\*.+?\*\*|`.+?`)/).map((piece) => {
    if (piece.startsWith("**") && piece.length > 4) return make("strong", {}, piece.slice(2, -2));
    return piece.startsWith("`") && piece.length > 2 ? make("code", {}, piece.slice(1, -1)) : piece;
  });
}

// --- settings --------------------------------------------------------------------------------------------------------

const settingOf = (row) => comparison().settings[row.setting];
const runsOf = (index) => comparison().settings[index].runs.map((number) => data.runs[number]);
const rankOf = (index) => metric().ranks.get(index) ?? -1;
const color = (rank) => (rank >= 0 && rank < MAX_COLORS ? `--dot: var(--c${rank})` : null);

function costOf(index, key) {
  const setting = comparison().settings[index];
  setting.costs ??= {};
  if (!(key in setting.costs)) {
    const values = runsOf(index).map((run) => run.costs[key]).filter((value) => value !== undefined);
    setting.costs[key] = values.length ? mean(values) : null;
  }
  return setting.costs[key];
}

function tooltip(row) {
  const setting = settingOf(row);
  const runs = runsOf(row.setting).filter((run) => metric().key in run.values);
  const values = runs.map((run) => `seed ${run.seed ?? "?"}: ${formatValue(run.values[metric().key])}`).join(", ");
  const spread = row.sd === null ? "with one seed" : `± ${formatValue(row.sd)} (sd) over ${counted(row.n, "seed")}`;
  const interval = row.interval ? `, ${intervalText(row)}` : "";
  const behind = row.difference ? `\n${differenceText(row)}` : "";
  return `${setting.name}\n${metric().label} ${formatValue(row.mean)} ${spread}${interval}\n${values}${behind}`;
}

// Of how many seeds, if some have no value.
function seedCount(row) {
  const { runs, unfinished_seeds: unfinished } = settingOf(row);
  const total = runs.length + unfinished.length;
  return row.n === total ? String(total) : `${row.n} of ${total}`;
}

// The interval with the mean that it is of, if that is not the usual one.
const intervalText = (row) => {
  const scaled = formatValue(row.scale_mean);
  return `${scaled === formatValue(row.mean) ? "" : `mean of logarithms ${scaled}, `}95 % interval ${between(row.interval)}`;
};
const between = ([low, high]) => `${formatValue(low)} to ${formatValue(high)}`;
const pText = (p) => `p ${p < 0.001 ? "" : "= "}${pValue(p)}`;
// The ends of a difference from the best: below zero is ahead of it.
const betweenEnds = ([low, high]) => (low < 0 ? `${formatValue(-low)} ahead to ${formatValue(high)} behind` : between([low, high]));
const behindText = ([difference, low, high, p], what) => `${formatValue(difference)} behind the best${what}, 95 % interval ${betweenEnds([low, high])}, ${pText(p)}`;
const differenceText = ({ difference, both_sources: bothSources }) => `${behindText(difference, "")}, ${TESTS[difference[4]]}`
  + (bothSources ? `; over other test examples as well ${betweenEnds(bothSources)}` : "");

function pick(index) {
  state.picked = state.picked === index ? null : index;
  for (const row of document.querySelectorAll("#table tr.row")) {
    const picked = Number(row.dataset.setting) === state.picked;
    row.classList.toggle("picked", picked);
    for (const button of row.querySelectorAll(".pick")) button.setAttribute("aria-pressed", String(picked));
  }
  showCurves();
  showScatter();
}

function badge(index) {
  const rank = rankOf(index);
  return make("span", { class: color(rank) ? "dot" : "dot mute", style: color(rank) }, rank < 0 ? "–" : String(rank + 1));
}

// --- the table -------------------------------------------------------------------------------------------------------

// A column: how it is called, what it sorts by, its cell; `wide` ones are left out on a phone.
function columns() {
  const { keys, chosen_keys: chosenKeys, costs } = comparison();
  return [
    { id: "rank", label: "#", kind: "rank", of: (row) => rankOf(row.setting), cell: rankCell },
    { id: "setting", label: "setting", kind: "setting", of: (row) => settingOf(row).name, cell: (row) => [nameButton(row)] },
    ...keys.map((key, index) => ({
      id: `value:${index}`, label: key, kind: "wide", of: (row) => settingOf(row).values[index],
      cell: (row) => [index ? settingOf(row).values[index] : nameButton(row, settingOf(row).values[0])],
    })),
    ...chosenKeys.map((key, index) => ({
      id: `chosen:${index}`, label: key, kind: "wide", of: (row) => settingOf(row).chosen[index], cell: (row) => [settingOf(row).chosen[index]],
    })),
    { id: "mean", label: metric().label, kind: "number mean", of: (row) => row.mean, cell: meanCell },
    { id: "strip", label: "", kind: "wide", cell: (row) => [strip(row)] },
    { id: "seeds", label: "seeds", kind: "number wide", of: (row) => row.n, cell: (row) => [seedCount(row)] },
    { id: "behind", label: "behind", kind: "number wide", of: (row) => (row.difference ? row.difference[0] : rankOf(row.setting) ? null : -1), cell: (row) => [row.difference ? formatValue(row.difference[0]) : "–"] },
    { id: "p", label: "p", kind: "number p", of: (row) => (row.difference ? -row.difference[3] : rankOf(row.setting) ? null : -2), cell: (row) => [row.difference ? pValue(row.difference[3]) : "–"] },
    ...costs.filter((cost) => cost.key === STEPS || (varies(cost) && !cost.is_by_context)).map((cost) => ({
      id: cost.key, label: cost.label, kind: "number wide", of: (row) => costOf(row.setting, cost.key),
      cell: (row) => [costOf(row.setting, cost.key) === null ? "–" : fixed(costOf(row.setting, cost.key), cost.digits)],
    })),
  ];
}

// Costs that are equal for all settings are hidden, except steps, which make settings comparable.
const STEPS = "steps";
const prices = () => comparison().costs.filter((cost) => cost.key !== STEPS);
const varies = (cost) => new Set(metric().rows.map((row) => costOf(row.setting, cost.key))).size > 1;

function rankCell(row) {
  const open = state.open.has(row.setting);
  return [make("button", {
    type: "button", "aria-expanded": String(open), "aria-label": `Runs of rank ${rankOf(row.setting) + 1}, ${settingOf(row).name}`,
    onclick: (event) => unfold(row, event.currentTarget),
  }, make("span", { class: "turn", "aria-hidden": "true" }, "▸"), badge(row.setting))];
}

const nameButton = (row, text = settingOf(row).name) => make("button", {
  type: "button", class: "pick", "aria-pressed": String(row.setting === state.picked), "aria-label": `${settingOf(row).name}: isolate in the charts`,
}, text);

const meanCell = (row) => [formatValue(row.mean), row.sd === null ? null : make("span", { class: "sd" }, ` ± ${formatValue(row.sd)}`)];

function unfold(row, button) {
  const open = !state.open.has(row.setting);
  state.open[open ? "add" : "delete"](row.setting);
  button.setAttribute("aria-expanded", String(open));
  const line = button.closest("tr");
  if (open) line.after(detail(row));
  else line.nextElementSibling.remove();
}

// The runs of a setting, each with its folder and its page.
function detail(row) {
  const costs = comparison().costs.filter((cost) => !cost.is_by_context);
  const head = ["seed", metric().label, ...costs.map((cost) => cost.label), "folder", ""].map((text) => make("th", { scope: "col" }, text));
  const lines = runsOf(row.setting).map((run) => make("tr", {},
    make("td", {}, String(run.seed ?? "–")),
    make("td", {}, metric().key in run.values ? formatValue(run.values[metric().key]) : "–"),
    ...costs.map((cost) => make("td", {}, cost.key in run.costs ? fixed(run.costs[cost.key], cost.digits) : "–")),
    make("td", {}, run.href ? make("a", { href: run.href }, run.folder) : run.folder),
    make("td", {}, run.page ? make("a", { href: run.page }, "page") : "")));
  const texts = [row.interval ? intervalText(row) : "", row.difference ? differenceText(row) : ""].filter(Boolean);
  const note = texts.length ? make("p", { class: "note" }, texts.join("; ")) : null;
  return make("tr", { class: "detail" }, make("td", { colspan: columns().length }, note,
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines)))));
}

function sorted(rows) {
  const column = columns().find((one) => one.id === state.sort.by && one.of) ?? columns()[0];
  const compare = (one, other) => {
    const [a, b] = [column.of(one), column.of(other)];
    if (a === null || b === null) return (a === null) - (b === null) || rankOf(one.setting) - rankOf(other.setting);
    const order = typeof a === "number" ? a - b : inOrder(a, b);
    return (state.sort.up ? order : -order) || rankOf(one.setting) - rankOf(other.setting);
  };
  return [...rows].sort(compare);
}

function listed() {
  const words = state.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return metric().rows.filter((row) => {
    const { name, values } = settingOf(row);
    const text = [name, ...values.map((value, index) => `${comparison().keys[index]}=${value}`)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word)) && Object.entries(state.chosen).every(([index, value]) => values[index] === value);
  });
}

function showTable() {
  const shown = columns();
  const heads = shown.map((column) => make("th", {
    scope: "col", class: column.kind, "data-column": column.id,
    "aria-sort": column.id === state.sort.by ? (state.sort.up ? "ascending" : "descending") : null,
  }, column.of ? make("button", { type: "button", onclick: () => sortBy(column.id) }, column.label) : ""));
  find("table").tHead.replaceChildren(make("tr", {}, ...heads));
  showRows();
}

function showRows() {
  const [shown, rows] = [columns(), sorted(listed())];
  const lines = rows.flatMap((row) => {
    const line = make("tr", {
      class: ["row", rankOf(row.setting) === 0 && "first", row.setting === state.picked && "picked"].filter(Boolean).join(" "), "data-setting": row.setting,
      onclick: (event) => { if (!event.target.closest("[aria-expanded]")) pick(row.setting); },
    }, ...shown.map((column) => make("td", {
      class: column.kind + (column.id === "p" && row.difference && row.difference[3] >= SIGNIFICANCE_LEVEL ? " even" : ""),
      "data-row": ["mean", "strip", "behind", "p"].includes(column.id) ? row.setting : null,
    }, ...column.cell(row))));
    return state.open.has(row.setting) ? [line, detail(row)] : [line];
  });
  find("table").tBodies[0].replaceChildren(...lines);
  const all = metric().rows.length;
  find("count").textContent = rows.length === all ? counted(all, "setting") : `${rows.length} of ${counted(all, "setting")}`;
}

function sortBy(id) {
  state.sort = { by: id, up: state.sort.by === id ? !state.sort.up : true };
  showTable();
  document.querySelector(`#table th[data-column="${id}"] button`).focus();
}

function showFilters() {
  const text = make("input", { type: "search", id: "text", autocomplete: "off", spellcheck: "false", placeholder: "any words", value: state.text });
  text.addEventListener("input", () => { state.text = text.value; showRows(); });
  const menus = comparison().keys.map((key, index) => {
    const values = [...new Set(comparison().settings.map((setting) => setting.values[index]))];
    if (values.length > 30) return null;
    values.sort(inOrder);
    const menu = make("select", { "data-key": index }, make("option", { value: "" }, "all"), ...values.map((value) => make("option", { value: `=${value}` }, value)));
    menu.addEventListener("change", () => {
      if (menu.value) state.chosen[index] = menu.value.slice(1);
      else delete state.chosen[index];
      showRows();
    });
    return make("label", {}, key, menu);
  });
  find("filters").replaceChildren(make("label", {}, "Find", text), ...menus.filter(Boolean));
}

// --- scales ----------------------------------------------------------------------------------------------------------

// From the least to the greatest, but for what lies far from the rest.
function domain(values) {
  const order = [...values].sort((a, b) => a - b);
  const at = (share) => order[Math.round(share * (order.length - 1))];
  const reach = 3 * (at(0.75) - at(0.25)) || order.at(-1) - order[0];
  const [low, high] = [Math.max(order[0], at(0.25) - reach), Math.min(order.at(-1), at(0.75) + reach)];
  const alike = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high)); // but for the last digits
  return !alike ? [low, high] : [low - (Math.abs(low) * 0.05 || 1), high + (Math.abs(high) * 0.05 || 1)];
}

// A domain that values lie within, too: the ends of bars.
const holding = ([low, high], values) => [Math.min(low, ...values), Math.max(high, ...values)];
const endsOf = ({ mean, sd }) => (sd === null ? [mean] : [mean - sd, mean + sd]);
const padded = ([low, high], share = 0.06) => [low - share * (high - low), high + share * (high - low)];

function scale([low, high], from, to, logarithmic = false) {
  const by = logarithmic ? Math.log : (value) => value;
  const [start, end] = [by(low), by(high)];
  return (value) => from + ((by(Math.min(Math.max(value, low), high)) - start) / (end - start)) * (to - from);
}

function ticks([low, high], count, logarithmic = false) {
  if (logarithmic) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) for (const digit of [1, 2, 5]) ticks.push(digit * 10 ** power);
    const within = ticks.filter((value) => value >= low && value <= high);
    if (within.length > 1) return within;
  }
  const rough = (high - low) / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((digit) => digit * unit >= rough);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) ticks.push(+value.toPrecision(12));
  return ticks;
}

// One setting on the axis of all: its seeds, its mean, and sd on either side; an arrow where some of these lie beyond.
const STRIP = { width: 120, height: 18, edge: 6 };

function strip(row) {
  const x = scale(metric().domain, STRIP.edge, STRIP.width - STRIP.edge);
  const middle = STRIP.height / 2;
  const seeds = runsOf(row.setting).map((run) => run.values[metric().key]).filter((value) => value !== undefined);
  const bar = row.sd === null ? null : draw("line", { class: "bar", x1: x(row.mean - row.sd), x2: x(row.mean + row.sd), y1: middle, y2: middle });
  const [first, last] = metric().domain;
  const values = [...seeds, ...endsOf(row)];
  const arrow = (tip, side) => draw("path", { class: "beyond", d: `M${tip - 4 * side} ${middle - 4}L${tip} ${middle}L${tip - 4 * side} ${middle + 4}` });
  const arrows = [least(values) < first ? arrow(1, -1) : null, largest(values) > last ? arrow(STRIP.width - 1, 1) : null];
  return draw("svg", { class: "strip", width: STRIP.width, height: STRIP.height, "aria-hidden": "true" }, ...arrows,
    draw("line", { class: "axis", x1: 0, x2: STRIP.width, y1: middle, y2: middle }),
    ...seeds.map((value) => draw("circle", { class: "seed", cx: x(value), cy: middle, r: 2.5 })), bar,
    draw("circle", { class: rankOf(row.setting) === 0 ? "mid first" : "mid", cx: x(row.mean), cy: middle, r: 4 }));
}

// --- what each choice does -------------------------------------------------------------------------------------------

function showEffects() {
  const { effects, is_higher_better: isHigherBetter, rows, label, effects_summary: summary } = metric();
  const estimable = effects.filter((effect) => effect.levels.some(([, value]) => value !== null));
  find("effects").hidden = rows.length < 2 || !estimable.length;
  if (find("effects").hidden) return;
  const note = `Mean ${label} of each value over all values of the other choices alike (main effects, least squares), with a `
    + `95 % interval. p is of an F-test that its values differ, adjusted by Holm's rule for all choices. The choice with the largest effect is first; ${isHigherBetter ? "higher" : "lower"} is better.`;
  find("effects-note").replaceChildren(...[note, ...summary].map((sentence) => make("p", {}, ...marked(sentence))));
  const ends = estimable.flatMap((effect) => effect.levels.flatMap(([, value, low, high]) => [value, low, high])).filter((value) => value !== null);
  const reach = padded(holding(domain(ends), ends), 0.04);
  find("cards").replaceChildren(...estimable.map((effect) => card(effect, reach, isHigherBetter)));
  showPairs();
  showInteractions();
}

function showInteractions() {
  const { interactions } = metric();
  find("interactions").hidden = !interactions.length;
  document.querySelector("#interactions tbody").replaceChildren(...interactions.map(({ names, test: [f, degrees, error, p, adjusted] }) => make("tr", {},
    make("td", {}, names.join(" by ")),
    make("td", {}, `F(${degrees}, ${error}) = ${fixed(f, 2)}, ${pText(p)}`),
    make("td", { class: adjusted < SIGNIFICANCE_LEVEL ? null : "pale" }, `adjusted ${pText(adjusted)}`))));
}

function card({ name, levels, test }, reach, isHigherBetter) {
  const means = levels.map(([, value]) => value).filter((value) => value !== null);
  const best = (isHigherBetter ? Math.max : Math.min)(...means);
  const numeric = levels.every(([value]) => value !== "" && Number.isFinite(Number.parseFloat(value)));
  const order = numeric ? levels : [...levels].sort((one, other) => (one[1] === null) - (other[1] === null) || (isHigherBetter ? -1 : 1) * (one[1] - other[1]));
  const lines = order.flatMap(([value, middle, low, high, difference, count]) => {
    const kind = middle === best ? "best" : "";
    const tip = middle === null ? `${value}: other choices always change along with it, so its effect cannot be estimated`
      : `${value}: ${formatValue(middle)}${low === null ? "" : `, 95 % interval ${formatValue(low)} to ${formatValue(high)}`}, ${counted(count, "setting")}${difference ? `\n${behindText(difference, " value")}, adjusted for all pairs` : ""}`;
    return [
      make("span", { class: `name ${kind}`, tabindex: 0, "data-tip": tip }, value),
      make("span", { "data-tip": tip }, range(middle, low, high, reach, kind)),
      make("span", { class: `value ${kind}`, "data-tip": tip }, middle === null ? "–" : formatValue(middle)),
    ];
  });
  const distance = means.length > 1 ? `${formatValue(Math.max(...means) - Math.min(...means))} between best and worst` : "";
  const spread = ` ${[distance, test ? pText(test[4]) : ""].filter(Boolean).join(", ")}`;
  return make("div", { class: "card" }, make("h3", {}, name, make("span", {}, spread)), make("div", { class: "levels" }, ...lines));
}

function range(middle, low, high, reach, kind) {
  const x = scale(reach, 3, 97);
  const at = (value) => `${x(value).toFixed(2)}%`;
  const parts = [draw("line", { class: "axis", x1: 0, x2: "100%", y1: 9, y2: 9 })];
  if (low !== null) parts.push(draw("line", { class: kind ? "bar first" : "bar", x1: at(low), x2: at(high), y1: 9, y2: 9 }));
  if (middle !== null) parts.push(draw("circle", { class: kind ? "mid first" : "mid", cx: at(middle), cy: 9, r: 4.5 }));
  return draw("svg", { class: "strip", width: "100%", height: 18, "aria-hidden": "true" }, ...parts);
}

const MOST = 12; // values of a choice that make a row or a column

function showPairs() {
  const { keys, settings } = comparison();
  const valuesOf = (index) => [...new Set(settings.map((setting) => setting.values[index]))].sort(inOrder);
  const eligible = [...keys.keys()].filter((index) => valuesOf(index).length <= MOST);
  find("pairs").hidden = eligible.length < 2;
  if (find("pairs").hidden) return;
  const [down, along] = [find("down"), find("along")];
  if (down.dataset.test !== String(state.test)) {
    for (const [menu, number] of [[down, 0], [along, 1]]) {
      menu.replaceChildren(...eligible.map((index) => make("option", { value: index }, keys[index])));
      menu.value = eligible[number];
      menu.dataset.test = state.test;
    }
  }
  const [rows, tops] = [valuesOf(Number(down.value)), valuesOf(Number(along.value))];
  const cells = rows.map((row) => tops.map((top) => metric().rows.filter((one) => {
    const { values } = settingOf(one);
    return values[down.value] === row && values[along.value] === top;
  })));
  const means = cells.map((line) => line.map((group) => (group.length ? mean(group.map((row) => row.mean)) : null)));
  const values = means.flat().filter((value) => value !== null);
  const most = Math.max(...cells.flat().map((group) => group.length));
  const [low, high] = domain(values);
  const goodness = (value) => Math.min(Math.max(metric().is_higher_better ? (value - low) / (high - low) : (high - value) / (high - low), 0), 1);
  const lines = rows.map((row, y) => make("tr", {}, make("th", { scope: "row" }, row), ...tops.map((top, x) => {
    const value = means[y][x];
    if (value === null) return make("td", { class: "none", style: "--share: 0%" }, "–");
    return make("td", {
      tabindex: 0,
      style: `--share: ${Math.round(3 + goodness(value) * 52)}%`,
      "data-tip": `${row}, ${top}: ${formatValue(value)}, mean of ${counted(cells[y][x].length, "setting")}`,
    }, formatValue(value), cells[y][x].length < most ? make("span", {}, ` (${cells[y][x].length})`) : "");
  })));
  const head = make("tr", {}, make("th", {}, `${keys[down.value]} ↓  ${keys[along.value]} →`), ...tops.map((top) => make("th", { scope: "col" }, top)));
  find("grid").replaceChildren(make("thead", {}, head), make("tbody", {}, ...lines));
}

// --- charts ----------------------------------------------------------------------------------------------------------

const EDGE = { left: 74, right: 22, top: 10, bottom: 40 };

function frame(plot, xs, ys, { xlog = false, ylog = false, xname, yname }) {
  const [width, height] = [Math.max(plot.clientWidth, 280), window.innerWidth < 768 ? 300 : 380];
  const [x, y] = [scale(xs, EDGE.left, width - EDGE.right, xlog), scale(ys, height - EDGE.bottom, EDGE.top, ylog)];
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${yname} over ${xname}` });
  for (const value of ticks(ys, 6, ylog)) {
    svg.append(draw("line", { class: "rule", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
      draw("text", { x: EDGE.left - 8, y: y(value), "text-anchor": "end", "dominant-baseline": "central" }, brief(value)));
  }
  for (const value of ticks(xs, width < 500 ? 4 : 8, xlog)) svg.append(draw("text", { x: x(value), y: height - EDGE.bottom + 18, "text-anchor": "middle" }, brief(value)));
  const middle = [(EDGE.left + width - EDGE.right) / 2, (EDGE.top + height - EDGE.bottom) / 2];
  svg.append(draw("text", { class: "title", x: middle[0], y: height - 4, "text-anchor": "middle" }, xname),
    draw("text", { class: "title", x: 14, y: middle[1], "text-anchor": "middle", transform: `rotate(-90 14 ${middle[1]})` }, yname));
  return { svg, x, y, width, height };
}

const highlighted = (index) => {
  const rank = rankOf(index);
  return state.picked === null ? rank >= 0 && rank < MAX_COLORS : index === state.picked;
};
const paint = (index) => color(rankOf(index)) ?? "--dot: var(--ink)";

function showLegend(list) {
  const rows = metric().rows.slice(0, MAX_COLORS);
  const outside = state.picked !== null && !rows.some((row) => row.setting === state.picked);
  const indices = [...rows.map((row) => row.setting), ...(outside ? [state.picked] : [])];
  const items = indices.map((index) => make("li", {}, make("button", {
    type: "button", "aria-pressed": String(index === state.picked), "data-setting": index,
    onclick: () => { pick(index); list.querySelector(`button[data-setting="${index}"]`)?.focus(); },
  }, badge(index), make("span", {}, comparison().settings[index].name))));
  const surplus = comparison().settings.length - indices.length;
  if (surplus > 0) items.push(make("li", { class: "rest" }, `${surplus} more; click a line, or a row of the ranking, to isolate it`));
  list.replaceChildren(...items);
}

function showCurves() {
  const { curves, settings } = comparison();
  find("learning").hidden = !curves.length;
  if (!curves.length) return;
  const curve = curves.find((one) => one.key === find("curve").value) ?? curves[0];
  const lines = settings.flatMap((setting, index) => runsOf(index).filter((run) => run.curves[curve.key]?.[0].length)
    .map((run) => ({ index, run, steps: run.curves[curve.key][0], values: run.curves[curve.key][1] })));
  const values = lines.flatMap((line) => line.values);
  const positive = values.length > 0 && least(values) > 0;
  find("log").disabled = !positive;
  const log = find("log").checked && positive;
  const plot = find("curves");
  if (!lines.length) return void plot.replaceChildren(make("p", { class: "note" }, "No run has this curve."));
  const [low, high] = log ? [least(values), largest(values)] : domain(values);
  const ys = log ? [low / 1.05, high * 1.05] : padded([low, high]);
  const last = largest(lines.map((line) => line.steps.at(-1)));
  const first = Math.min(least(lines.map((line) => line.steps[0])), 0);
  const { svg, x, y } = frame(plot, [first, last], ys, { ylog: log, xname: "step", yname: titled(curve) });
  const group = draw("g", { class: state.picked === null ? null : "isolated" });
  const drawn = [...lines].sort((one, other) => highlighted(one.index) - highlighted(other.index) || rankOf(other.index) - rankOf(one.index));
  for (const line of drawn) {
    line.points = line.steps.map((step, index) => [x(step), y(line.values[index])]);
    line.element = draw("path", { class: highlighted(line.index) ? "line best" : "line", style: highlighted(line.index) ? paint(line.index) : null,
      d: "M" + line.points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L") });
    group.append(line.element);
  }
  svg.append(group);
  const points = drawn.flatMap((line) => line.points.map(([a, b], index) => ({
    x: a, y: b, element: line.element, index: line.index, front: highlighted(line.index),
    tip: () => `${settings[line.index].name}\nseed ${line.run.seed ?? "?"}, step ${fixed(line.steps[index], 0)}: ${curve.label} ${brief(line.values[index])}`,
  })));
  meets(svg, points);
  plot.replaceChildren(svg);
  showLegend(find("curve-legend"));
}

function showScatter() {
  const costs = prices();
  const cost = costs.find((one) => one.key === find("cost").value) ?? costs[0];
  find("costs").hidden = !cost;
  if (!cost) return;
  const points = metric().rows.map((row) => ({ row, index: row.setting, cost: costOf(row.setting, cost.key) })).filter((point) => point.cost !== null);
  const plot = find("scatter");
  if (!points.length) return void plot.replaceChildren(make("p", { class: "note" }, "No run has this cost."));
  const bars = points.filter((point) => highlighted(point.index)).flatMap((point) => endsOf(point.row));
  const ys = padded(holding(domain(points.map((point) => point.row.mean)), bars), 0.08);
  const span = [least(points.map((point) => point.cost)), largest(points.map((point) => point.cost))];
  const xlog = span[0] > 0 && span[1] / span[0] >= 3;
  const xs = xlog ? [span[0] / 1.3, span[1] * 1.3] : padded(domain(span), 0.08);
  const { svg, x, y } = frame(plot, xs, ys, { xlog, xname: cost.label, yname: titled(metric()) });
  const cheap = cost.key === "train_examples_per_second" ? -1 : 1;
  const good = metric().is_higher_better ? -1 : 1;
  const ahead = points.filter((one) => !points.some((other) => cheap * other.cost <= cheap * one.cost && good * other.row.mean <= good * one.row.mean
    && (other.cost !== one.cost || other.row.mean !== one.row.mean))).sort((one, other) => one.cost - other.cost);
  if (ahead.length > 1) svg.append(draw("path", { class: "frontier", d: "M" + ahead.map((one) => `${x(one.cost)} ${y(one.row.mean)}`).join("L") }));
  const group = draw("g", { class: state.picked === null ? null : "isolated" });
  for (const point of [...points].reverse()) {
    const [a, b, front] = [x(point.cost), y(point.row.mean), highlighted(point.index)];
    const spread = front && point.row.sd ? draw("line", { class: "spread", x1: a, x2: a, y1: y(point.row.mean - point.row.sd), y2: y(point.row.mean + point.row.sd) }) : null;
    const element = front
      ? draw("g", { class: "mark", style: paint(point.index) }, spread, draw("circle", { cx: a, cy: b, r: 10 }), draw("text", { x: a, y: b }, String(rankOf(point.index) + 1)))
      : draw("circle", { class: "point", cx: a, cy: b, r: 4.5 });
    Object.assign(point, { x: a, y: b, element, front, tip: () => `${tooltip(point.row)}\n${cost.label}: ${fixed(point.cost, cost.digits)}` });
    group.append(element);
  }
  svg.append(group);
  meets(svg, points);
  plot.replaceChildren(svg);
  showLegend(find("scatter-legend"));
  find("front").textContent = `On the line, the cheapest first: ${ahead.map((one) => settingOf(one.row).name).join("; ")}.`;
}

// The nearest point says what it is, and isolates its setting when it is clicked.
function meets(svg, points) {
  let met = null;
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const [a, b] = [event.clientX - box.left, event.clientY - box.top];
    let [match, least] = [null, POINTER_RADIUS];
    for (const point of points) {
      const away = Math.hypot(point.x - a, point.y - b) - (point.front ? 6 : 0);
      if (away < least) [match, least] = [point, away];
    }
    return match;
  };
  const leave = () => { met?.element.classList.remove("met"); met = null; hideTip(); };
  svg.addEventListener("pointermove", (event) => {
    const match = nearest(event);
    if (match !== met) leave();
    if (!match) return;
    met = match;
    met.element.classList.add("met");
    showTip(met.tip(), event.clientX, event.clientY - 8, event.clientY + 16);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("click", (event) => {
    const match = nearest(event);
    leave();
    if (match) pick(match.index);
    else if (state.picked !== null) pick(state.picked);
  });
}

// --- heat maps -------------------------------------------------------------------------------------------------------

const exampleName = (example) => (example.source.length && !example.name ? symbolsText(example.source) : example.name) || symbolsText(example.reference);

function showMaps() {
  const { maps, settings } = comparison();
  find("maps").hidden = !maps || !maps.examples.length;
  if (find("maps").hidden) return;
  state.example = Math.min(state.example, maps.examples.length - 1);
  find("examples").replaceChildren(...maps.examples.map((example, number) => make("button", {
    type: "button", "aria-pressed": String(number === state.example), dir: "auto",
    onclick: () => { state.example = number; showMaps(); find("examples").children[number].focus(); },
  }, exampleName(example))));
  const example = maps.examples[state.example];
  find("pictures").replaceChildren(...maps.settings.map(({ setting: index, seed }, number) => {
    const one = example.maps[number];
    return make("figure", {}, make("figcaption", {}, badge(index),
      make("span", {}, `${settings[index].name}${seed === null ? "" : `, seed ${seed}`}`),
      make("span", { class: one.is_right === false ? "wrote wrong" : "wrote", dir: direction(one.output) }, `${MARKS[one.is_right]}${outputText(one)}`)), map(example, one));
  }));
}

function map(example, one) {
  const tops = [...example.source, ...one.output.slice(0, one.decoder_states)];
  const gap = one.decoder_states && example.source.length ? 8 : 0;
  const top = darkestWeight(one.weights);
  const size = Math.max(14, Math.min(32, Math.floor(290 / tops.length)));
  const tall = tops.some((symbol) => symbol !== "</s>" && [...shown(symbol)].length > 2);
  const labels = one.output.map(shown);
  const cut = (text) => ([...text].length > 12 ? `${[...text].slice(0, 11).join("")}…` : text);
  const left = 10 + 7.5 * Math.max(...labels.map((text) => [...cut(text)].length));
  const above = tall || tops.includes("</s>") ? 14 + 7.2 * Math.max(...tops.map((symbol) => [...cut(shown(symbol))].length)) : 20;
  const across = (column) => left + column * size + (column >= example.source.length ? gap : 0);
  const [width, height] = [across(tops.length) + 2, above + labels.length * size + 2];
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Weights: ${outputText(one)} reading ${exampleName(example)}` });
  tops.forEach((symbol, column) => {
    const center = across(column) + size / 2;
    const text = cut(shown(symbol));
    svg.append([...text].length > 2
      ? draw("text", { x: center, y: above - 5, transform: `rotate(-90 ${center} ${above - 5})`, "dominant-baseline": "central" }, text)
      : draw("text", { x: center, y: above - 6, "text-anchor": "middle" }, text));
  });
  labels.forEach((label, row) => {
    const y = above + row * size;
    svg.append(draw("text", { x: left - 5, y: y + size / 2, "text-anchor": "end", "dominant-baseline": "central" }, cut(label)));
    tops.forEach((symbol, column) => {
      const weight = one.weights[row * tops.length + column];
      svg.append(draw("rect", { class: "cell", x: across(column), y, width: size, height: size, "data-tip": `${label} read ${shown(symbol)}: ${fixed(weight / 1000, 3)}`,
        style: `fill: color-mix(in oklab, var(--deep) ${(100 * weight) / top}%, var(--paper))` }));
    });
  });
  return svg;
}

// --- failures, and what is the same ----------------------------------------------------------------------------------

function showFailures() {
  find("failures").hidden = !data.failures.length;
  document.querySelector("#failures tbody").replaceChildren(...data.failures.map((run) => make("tr", {},
    make("td", {}, run.href ? make("a", { href: run.href }, run.name) : run.name),
    make("td", {}, make("span", { class: `status ${run.status}` }, run.status_text)),
    make("td", {}, run.error || "–"),
    make("td", {}, ...(run.logs.length ? run.logs.map((log) => make("div", {}, make("a", { href: log.href }, log.text))) : ["–"])))));
}

function showConstant() {
  const { constant } = comparison();
  const parts = constant.filter(([key]) => !key.includes("."));
  find("constant").hidden = !constant.length;
  find("parts").textContent = parts.map(([key, value]) => `${key} ${value}`).join(", ");
  find("options").replaceChildren(...constant.filter(([key]) => key.includes(".")).map(([key, value]) => make("div", {}, make("dt", {}, key), make("dd", {}, value))));
}

// --- what a pointer or the focus meets says more ---------------------------------------------------------------------

function showTip(text, center, above, below) {
  const tip = find("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(Math.max(center - box.width / 2, 4), window.innerWidth - box.width - 4)}px`;
  tip.style.top = `${above - box.height > 4 ? above - box.height : below}px`;
}

const hideTip = () => { find("tip").hidden = true; };

function meet(event) {
  const met = event.target.closest?.("[data-tip], [data-row]");
  if (!met) {
    if (!event.target.closest?.(".plot svg")) hideTip();
    return;
  }
  const box = met.getBoundingClientRect();
  showTip(met.dataset.tip ?? tooltip(metric().rows[rankOf(Number(met.dataset.row))]), box.left + box.width / 2, box.top - 4, box.bottom + 6);
}

// --- beginning -------------------------------------------------------------------------------------------------------

const options = (menu, texts) => menu.replaceChildren(...texts.map(([value, text]) => make("option", { value }, text)));

function showMetric() {
  const { rows } = metric();
  metric().ranks = new Map(rows.map((row, rank) => [row.setting, rank]));
  const within = domain(rows.flatMap((row) => runsOf(row.setting).map((run) => run.values[metric().key]).filter((value) => value !== undefined)));
  const near = rows.filter((row) => within[0] <= row.mean && row.mean <= within[1]); // what lies far from the rest ends at the edge
  metric().domain = padded(holding(within, near.flatMap(endsOf)));
  find("verdict").replaceChildren(...metric().verdict.map((sentence) => make("p", {}, ...marked(sentence))));
  showTable();
  showEffects();
  const { superseded } = comparison();
  find("ranking-note").textContent = "A row holds the runs that differ by their seed alone: mean ± sd. Press ▸ for its runs and their folders, its name to isolate it in the charts below. An arrow points to values beyond the axis. p says how surely the best is better, all comparisons allowed for; gray from 0.05 on."
    + (superseded ? ` ${counted(superseded, "earlier run")} with the setting and seed of a later one ${superseded === 1 ? "is" : "are"} left out.` : "");
  showCurves();
  showScatter();
  showMaps();
}

function showTest() {
  Object.assign(state, { metric: 0, sort: { by: "rank", up: true }, text: "", chosen: {}, picked: null, example: Math.floor((comparison().maps?.examples.length ?? 0) / 2) });
  state.open.clear();
  const { metrics, curves } = comparison();
  options(find("metric"), metrics.map((item, number) => [number, item.label]));
  options(find("cost"), prices().map((cost) => [cost.key, cost.label]));
  if (prices().some((cost) => cost.key === data.against)) find("cost").value = data.against;
  options(find("curve"), curves.map((curve) => [curve.key, curve.label]));
  for (const id of ["metrics", "ranking"]) find(id).hidden = !metrics.length;
  if (!metrics.length) return nothing("These runs have no metric with a known direction.");
  const first = curves.length ? data.runs.flatMap((run) => run.curves[curves[0].key]?.[1] ?? []).filter((value) => value > 0) : [];
  find("log").checked = first.length > 0 && !metrics[0].is_higher_better && largest(first) / least(first) > 5;
  showFilters();
  showMetric();
  showConstant();
}

function nothing(sentence) {
  find("verdict").replaceChildren(make("p", {}, sentence));
  for (const id of ["ranking", "effects", "learning", "costs", "maps", "constant"]) find(id).hidden = true;
}

function begin() {
  const all = Object.values(data.counts).reduce((sum, number) => sum + number, 0);
  const statuses = Object.entries(data.counts).map(([status, number]) => `${number} ${status}`).join(", ");
  const tests = data.comparisons.length > 1 ? ` Tested on ${data.comparisons.length} different tests or metrics, which are not compared with each other: choose below.` : "";
  find("counts").textContent = `${counted(all, "run")}: ${statuses}. Written ${data.made}.${tests}`;
  showFailures();
  find("selection").hidden = !data.comparisons.length;
  if (!data.comparisons.length) return nothing("No run is finished, so there is nothing to compare.");
  find("tests").hidden = data.comparisons.length === 1;
  options(find("test"), data.comparisons.map((one, number) => [number, `${one.title}, ${counted(one.settings.length, "setting")}`]));
  find("test").addEventListener("change", (event) => { state.test = Number(event.target.value); showTest(); });
  find("metric").addEventListener("change", (event) => { state.metric = Number(event.target.value); showMetric(); });
  find("down").addEventListener("change", showPairs);
  find("along").addEventListener("change", showPairs);
  find("curve").addEventListener("change", showCurves);
  find("log").addEventListener("change", showCurves);
  find("cost").addEventListener("change", showScatter);
  showTest();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    showCurves();
    showScatter();
  });
}

document.addEventListener("pointerover", meet);
document.addEventListener("focusin", meet);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  hideTip();
  if (state.picked !== null) pick(state.picked);
});
window.addEventListener("scroll", hideTip, { passive: true });

begin();
document.documentElement.dataset.drawn = Math.round(performance.now()); // milliseconds since the page was requested
