"use strict";

// A panel of the player: what each decoding step of a run's hypothesis computes, a stage under another. A stage is its
// element and what draws a step into it.

// The head of the chosen view; null of the mean over heads, and where nothing is traced.
function headOf({ hypothesis, view }) {
  const heads = hypothesis.trace ? hypothesis.trace.heads : [];
  return heads[hypothesis.views.indexOf(view) - (hypothesis.views.length > 1 ? 1 : 0)] || null;
}

// What is drawn at each step, as functions of it, and the element that holds it all.
function panel(run) {
  const selection = chosen(run);
  const name = make("h3", { class: data.runs.length > 1 ? "" : "hidden" }, data.runs[run].name);
  if (!selection) return { element: make("div", { class: "panel" }, name, make("p", { class: "note" }, "This run did not save this example.")), draws: [] };
  const traced = { ...selection, head: headOf(selection) };
  const stages = [written(traced), headMenu(run, traced), queryStage(traced), readStage(run, traced), contextStage(traced), candidateStage(traced), treeStage(run, traced)].filter(Boolean);
  const element = make("div", { class: "panel", "data-panel": run }, name, ...stages.map(({ element }) => element), ...notes(traced));
  return { element, draws: stages.map(({ draw }) => draw), steps: selection.hypothesis.output.length };
}

const stage = (name, meaning, ...content) => make("div", { class: "stage" },
  make("div", { class: "stage-name" }, make("strong", {}, name), make("small", {}, meaning)), make("div", { class: "stage-content" }, ...content));

function written({ hypothesis }) {
  const all = hypothesis.output.map((symbol) => make("span", { class: "symbol" }, shown(symbol)));
  const element = stage("output", "written so far", make("span", { class: "written", dir: direction(hypothesis.output) }, ...all.flatMap((one) => [one, " "])));
  return { element, draw: (step) => all.forEach((one, place) => { one.className = `symbol ${place < step ? "past" : place === step ? "now" : "later"}`; }) };
}

function headMenu(run, { hypothesis, view }) {
  if (hypothesis.views.length < 2) return null;
  const menu = choiceMenu("player-head", hypothesis.views.map(({ name }) => name), hypothesis.views.indexOf(view), (number) => {
    state.views[run] = number;
    show();
    document.querySelector(`[data-panel="${run}"] [data-menu="player-head"]`).focus();
  });
  return { element: stage("head", "", make("label", {}, make("span", { class: "hidden" }, "head"), menu)), draw: () => {} };
}

function stripStage(name, meaning, strip) {
  const canvas = make("canvas", { class: "numbers", height: 1, role: "img" });
  const text = make("small", {});
  const draw = (step) => {
    drawStrip(canvas, strip, step);
    text.textContent = stripText(strip, step);
    canvas.setAttribute("aria-label", `${name}: ${text.textContent}`);
  };
  return { element: stage(name, meaning, canvas, text), draw };
}

const queryStage = ({ head }) => head && stripStage("query", "what the decoder asks with", head.query);
const contextStage = ({ head }) => head && stripStage("context", "the values, summed by the weights", head.context);

function readStage(run, selection) {
  const { head, columns } = selection;
  const labels = head && head.positions > columns.length ? [...columns, "</s>"] : columns;
  const table = readTable(selection, labels);
  const scroll = make("div", { class: "read-scroll", tabindex: "0", role: "region", "aria-label": "Scores and weights of the positions" }, table);
  const { scorer, normalizer } = data.runs[run].parts;
  const meaning = head ? `${scorer || "scorer"}, then ${normalizer || "normalizer"}` : "saved";
  return { element: stage(head ? "scores, weights" : "weights", meaning, scroll), draw: (step) => { drawRead(table, selection, labels, step); keepReadInView(scroll, selection, step); } };
}

function candidateStage({ hypothesis }) {
  const steps = hypothesis.trace ? hypothesis.trace.candidates : [];
  if (!steps.length) return null;
  const list = candidateList(steps);
  return { element: stage("next symbol", "the likeliest, by probability", list), draw: (step) => drawCandidates(list, steps[step], hypothesis.output[step]) };
}

function treeStage(run, { hypotheses, hypothesis }) {
  const { beams, paths } = hypotheses[0];
  const path = beams && paths[hypotheses.indexOf(hypothesis)];
  if (!path || !path.length) return null;
  const tree = beamTree(beams, path);
  const scroll = make("div", { class: "tree-scroll", tabindex: "0", role: "region", "aria-label": "Beams" }, tree);
  const legend = make("small", {}, "A line is as wide as its symbol is likely; grey was pruned; ★ is the output.");
  return { element: stage("beams", "beginnings that the search continued", scroll, legend), draw: (step) => { drawTree(tree, step); scroll.scrollLeft = (step + 2) * NODE.column - scroll.clientWidth; } };
}

function notes({ hypothesis, head }) {
  const lines = [];
  if (hypothesis.reason) lines.push(`Only saved weights: ${hypothesis.reason}.`);
  if (hypothesis.trace && hypothesis.trace.heads.length > 1 && !head) lines.push("These weights are the mean over heads; choose a head for its query, scores and context.");
  if (head && head.allowed) lines.push("Hatched: forbidden, or not there yet.");
  if (head && head.gain) lines.push("The weights are the normalizer's, times the scope's gain.");
  return lines.map((line) => make("p", { class: "note" }, line));
}
