"use strict";

// The likeliest next symbols of a step: [symbol, probability in thousandths], likeliest first, the chosen one among them.

function candidateList(steps) {
  const count = Math.max(...steps.map((step) => step.length));
  const items = Array.from({ length: count }, () => make("li", {}, make("bdi", {}), make("span", { class: "track" }, make("i", {})),
    make("b", {}), make("span", { class: "choice" })));
  return make("ol", { class: "candidates" }, ...items);
}

function drawCandidates(list, candidates, chosenSymbol) {
  [...list.children].forEach((item, rank) => {
    const [symbol, share] = candidates[rank] || ["", 0];
    const [name, track, number, choice] = item.children;
    const isChosen = rank < candidates.length && symbol === chosenSymbol;
    item.classList.toggle("empty", rank >= candidates.length);
    item.classList.toggle("is-chosen", isChosen);
    name.textContent = rank < candidates.length ? shown(symbol) : "";
    track.firstChild.style.transform = `scaleX(${share / 1000})`;
    number.textContent = rank < candidates.length ? weightText(share) : "";
    choice.textContent = isChosen ? "chosen" : "";
  });
}
