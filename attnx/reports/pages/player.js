"use strict";

// The player: what each decoding step of the example computes, one step after another. A hypothesis has
//   trace    {heads, candidates}: see read_table.js and strips.js for a head; candidates.js for candidates, step by step
//   reason   why it has no trace: only saved weights are played
//   beams, paths   on the best hypothesis: see beam_tree.js; the nodes of each hypothesis, in order

const player = { step: 0, timer: null, panels: [] };

const stepCount = () => Math.max(0, ...data.runs.map((_, run) => chosen(run)).filter(Boolean).map(({ hypothesis }) => hypothesis.output.length));

// --- steps -----------------------------------------------------------------------------------------------------------

// Build the panels of the example, at its first step; `pick` goes to that of a picked output symbol.
function showPlayer() {
  pause();
  player.panels = data.runs.map((_, run) => panel(run));
  find("panels").replaceChildren(...player.panels.map(({ element }) => element));
  find("step").max = stepCount();
  fitPlayer();
  if (state.row === null) drawStep(0);
}

function fitPlayer() {
  for (const scroll of document.querySelectorAll(".read-scroll")) fitRead(scroll);
}

function drawStep(step) {
  player.step = step;
  for (const { draws, steps } of player.panels) for (const draw of draws) draw(Math.min(step, steps - 1));
  const text = `step ${step + 1} of ${stepCount()}`;
  find("step").value = step + 1;
  find("step").setAttribute("aria-valuetext", text);
  find("step-name").textContent = text;
  find("back").disabled = step === 0;
  find("forward").disabled = step === stepCount() - 1;
}

// A step is its output symbol, which is picked everywhere on the page.
function goTo(step) {
  pick(Math.min(Math.max(step, 0), stepCount() - 1));
}

// --- playing ---------------------------------------------------------------------------------------------------------

function play() {
  if (player.step >= stepCount() - 1) goTo(0);
  else goTo(player.step + 1);
  find("chosen").setAttribute("aria-live", "off"); // a reader of every step would not keep up
  showPlaying(true);
  player.timer = setTimeout(advance, delay());
}

function advance() {
  goTo(player.step + 1);
  if (player.step >= stepCount() - 1) pause();
  else player.timer = setTimeout(advance, delay());
}

function pause() {
  clearTimeout(player.timer);
  player.timer = null;
  find("chosen").setAttribute("aria-live", "polite");
  showPlaying(false);
}

const delay = () => 1000 / Number(find("speed").value);
const toggle = () => (player.timer === null ? play() : pause());

function showPlaying(isPlaying) {
  find("play").replaceChildren(make("span", { "aria-hidden": "true" }, isPlaying ? "❚❚ " : "▶ "), isPlaying ? "Pause" : "Play");
}

function stepBy(by) {
  pause();
  goTo(player.step + by);
}

// Space is that of a focused button or menu; arrow keys are those of a focused menu.
function pressKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("select")) return;
  const acts = { ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1), Home: () => stepBy(-Infinity), End: () => stepBy(Infinity), " ": toggle };
  const act = acts[event.key];
  if (!act || (event.key === " " && event.target.closest("button"))) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

function startPlayer() {
  find("play").addEventListener("click", toggle);
  find("back").addEventListener("click", () => stepBy(-1));
  find("forward").addEventListener("click", () => stepBy(1));
  find("step").addEventListener("input", () => { pause(); goTo(Number(find("step").value) - 1); });
  find("player").addEventListener("keydown", pressKey);
  window.addEventListener("resize", fitPlayer);
}
