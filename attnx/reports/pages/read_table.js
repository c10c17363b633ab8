"use strict";

// What attention computes at a step: a column for each position, its score and its weight as bars with numbers. A
// position that is forbidden is hatched. A head is {positions, scores, allowed, weights, gain}: thousandths, step by
// step; a score is null where a position did not exist yet; `allowed` has starts and ends of what each step may read.

const POSITION_WIDTH = { smallest: 12, numbered: 42, largest: 72 }; // pixels; from numbered on, numbers have room
const BAR_HEIGHT = 44; // pixels
const ROWS = ["score", "gain", "weight"];

// The numbers of each row at a step; weights alone where the head is not traced.
function readAt({ view, head, columns }, step) {
  const positions = head ? head.positions : columns.length;
  const at = (numbers) => numbers && numbers.slice(step * positions, (step + 1) * positions);
  const saved = view.weights.slice(step * columns.length, (step + 1) * columns.length);
  return { score: head && at(head.scores), gain: head && at(head.gain), weight: (head && at(head.weights)) || saved };
}

function isAllowed({ head }, step, position) {
  const ranges = head && head.allowed && head.allowed[step];
  if (!ranges) return true;
  return ranges.some((start, index) => index % 2 === 0 && start <= position && position < ranges[index + 1]);
}

function readTable(selection, labels) {
  const shownRows = ROWS.filter((row) => readAt(selection, 0)[row]);
  const head = make("tr", {}, make("td", {}),
    ...labels.map((symbol) => make("th", { scope: "col", title: symbol, dir: "auto" }, make("span", {}, shown(symbol)))));
  const rows = shownRows.map((row) => make("tr", { "data-row": row },
    make("th", { scope: "row" }, row), ...labels.map(() => make("td", {}, make("i", { class: "bar" }), make("b", {})))));
  const table = make("table", { class: "read-table" }, make("thead", {}, head), make("tbody", {}, ...rows));
  scaleRows(table, selection);
  return table;
}

// The scale of each row's bars holds at all steps: its zero line, and how many thousandths a bar's height is. What is
// forbidden does not count, and may have a bar that is cut off.
function scaleRows(table, selection) {
  const { view, head } = selection;
  const all = { score: head && head.scores, gain: head && head.gain };
  const counts = (number, index) => number !== null && isAllowed(selection, Math.floor(index / head.positions), index % head.positions);
  for (const row of table.tBodies[0].rows) {
    const numbers = (all[row.dataset.row] || []).filter(counts);
    const [least, most] = numbers.reduce(([low, high], number) => [Math.min(low, number), Math.max(high, number)], [0, 0]);
    row.dataset.range = row.dataset.row === "weight" ? darkestWeight(view.weights) : most - least || 1;
    const share = row.dataset.row === "weight" ? 1 : most / row.dataset.range;
    row.style.setProperty("--zero", `${Math.round(share * BAR_HEIGHT)}px`);
  }
}

function drawRead(table, selection, labels, step) {
  const numbers = readAt(selection, step);
  const forbidden = labels.map((_, position) => !isAllowed(selection, step, position));
  for (const row of table.tBodies[0].rows) {
    const kind = row.dataset.row;
    labels.forEach((symbol, position) => {
      drawPosition(row.cells[position + 1], { kind, symbol, number: numbers[kind][position], range: Number(row.dataset.range), isForbidden: forbidden[position] });
    });
  }
}

function drawPosition(cell, { kind, symbol, number, range, isForbidden }) {
  const [bar, text] = cell.children;
  const isMissing = number === null || number === undefined;
  cell.classList.toggle("forbidden", isForbidden);
  bar.classList.toggle("negative", number < 0);
  bar.style.transform = `scaleY(${isMissing ? 0 : (number / range).toFixed(4)})`;
  text.textContent = isMissing || (isForbidden && kind === "weight") ? "" : (number / 1000).toFixed(2);
  const spoken = isMissing ? "not there yet" : `${kind} ${weightText(number)}`;
  cell.setAttribute("aria-label", `${shown(symbol)}, ${spoken}${isForbidden ? ", forbidden" : ""}`);
}

// Columns as wide as there is room for; narrow ones have no numbers.
function fitRead(scroll) {
  const table = scroll.querySelector("table");
  const [name, ...positions] = table.tHead.rows[0].cells;
  const room = Math.floor((scroll.parentNode.clientWidth - name.offsetWidth - 4) / positions.length);
  const width = Math.min(Math.max(room, POSITION_WIDTH.smallest), POSITION_WIDTH.largest);
  const isNumbered = width >= POSITION_WIDTH.numbered || positions.length <= 24;
  table.style.setProperty("--position", `${isNumbered ? Math.max(width, POSITION_WIDTH.numbered) : width}px`);
  table.classList.toggle("narrow", !isNumbered);
}

// Scroll to the position of the largest weight, and never the page.
function keepReadInView(scroll, selection, step) {
  const weights = readAt(selection, step).weight;
  const heaviest = weights.indexOf(Math.max(...weights));
  const heads = scroll.querySelector("table").tHead.rows[0].cells;
  const [first, cell] = [heads[0], heads[heaviest + 1]];
  const start = cell.offsetLeft - first.offsetWidth;
  if (start < scroll.scrollLeft) scroll.scrollLeft = start;
  const end = cell.offsetLeft + cell.offsetWidth - scroll.clientWidth;
  if (end > scroll.scrollLeft) scroll.scrollLeft = end;
}
