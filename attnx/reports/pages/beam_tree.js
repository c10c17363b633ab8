"use strict";

// The beginnings that a search continued, as a tree: a column for each step, the likeliest beginning on top. A node is
// [parent, symbol, log-probability of the symbol in thousandths]; -1 is the parent of a first symbol.

const NODE = { width: 40, height: 24, column: 78, row: 34, margin: 8 }; // pixels
const LONGEST_NAME = 5; // letters that a node has room for
const THICKEST_EDGE = 7; // pixels of probability 1

// Nodes with their depth, the log-probability of what they end, their row, and whether something follows them.
function layOut(beams) {
  const nodes = [];
  const levels = []; // the nodes of each depth
  for (const [index, symbol, thousandths] of beams) {
    const parent = nodes[index], logProbability = thousandths / 1000;
    const depth = parent ? parent.depth + 1 : 0, total = (parent ? parent.total : 0) + logProbability;
    const node = { parent, symbol, logProbability, total, depth, isParent: false };
    if (parent) parent.isParent = true;
    nodes.push(node);
    (levels[depth] ??= []).push(node);
  }
  for (const level of levels) level.sort((first, second) => second.total - first.total).forEach((node, row) => { node.row = row; });
  return nodes;
}

const centerOf = ({ depth, row }) => [NODE.margin + NODE.width / 2 + depth * NODE.column, NODE.margin + NODE.height / 2 + row * NODE.row];

function beamTree(beams, path) {
  const nodes = layOut(beams);
  const onPath = new Set(path.map((index) => nodes[index]));
  const size = [Math.max(...nodes.map((node) => centerOf(node)[0])) + NODE.width / 2 + NODE.margin + 20, Math.max(...nodes.map((node) => centerOf(node)[1])) + NODE.height / 2 + NODE.margin];
  const winner = nodes[path[path.length - 1]];
  const drawn = nodes.map((node) => nodeGroup(node, onPath.has(node), node === winner));
  const text = `Beams: ${counted(nodes.length, "beginning")}; the output is ${symbolsText(path.map((index) => nodes[index].symbol))}`;
  const tree = draw("svg", { class: "beam-tree", role: "img", "aria-label": text, width: size[0], height: size[1] });
  tree.append(...nodes.filter((node) => node.parent).map((node) => edge(node, onPath.has(node))), ...drawn);
  return tree;
}

function classOf(node, isOnPath) {
  const isPruned = !node.isParent && !isOnPath && node.symbol !== "</s>";
  return isOnPath ? "on-path" : isPruned ? "pruned" : "alive";
}

function edge(node, isOnPath) {
  const [[x, y], [endX, endY]] = [centerOf(node.parent), centerOf(node)];
  const [start, end] = [x + NODE.width / 2, endX - NODE.width / 2];
  const middle = (start + end) / 2;
  return draw("path", { class: `edge ${classOf(node, isOnPath)}`, "data-depth": node.depth,
    d: `M${start} ${y}C${middle} ${y} ${middle} ${endY} ${end} ${endY}`, "stroke-width": (0.75 + THICKEST_EDGE * Math.exp(node.logProbability)).toFixed(2) });
}

function nodeGroup(node, isOnPath, isWinner) {
  const [x, y] = centerOf(node);
  const name = shown(node.symbol);
  const short = [...name].length > LONGEST_NAME ? `${[...name].slice(0, LONGEST_NAME - 1).join("")}…` : name;
  const title = `${name}: probability ${Math.exp(node.logProbability).toFixed(3)}, of the beginning ${Math.exp(node.total).toFixed(3)}`;
  const group = draw("g", { class: `node ${classOf(node, isOnPath)}`, "data-depth": node.depth, "data-symbol": node.symbol }, draw("title", {}, title),
    draw("rect", { x: x - NODE.width / 2, y: y - NODE.height / 2, width: NODE.width, height: NODE.height, rx: 6 }), draw("text", { x, y }, short));
  if (isWinner) group.append(draw("text", { class: "winner", x: x + NODE.width / 2 + 10, y }, "★"));
  return group;
}

// Later steps are not there yet; a pruned beginning turns grey when the search goes on without it.
function drawTree(tree, step) {
  for (const element of tree.querySelectorAll("[data-depth]")) {
    const depth = Number(element.dataset.depth);
    element.classList.toggle("later", depth > step);
    element.classList.toggle("now", depth === step);
    element.classList.toggle("past", depth < step);
  }
}
