"use strict";

// Symbols and outputs as text, and the scale of weights, on the pages of runs and of reports.

const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

// A symbol as it can be seen: a space is drawn, a mark that stands alone gets something to stand on.
const shown = (symbol) => symbol.replace(/ /g, "␣").replace(/^\p{M}/u, "◌$&") || "∅"; // "" is one, too
const direction = (symbols) => (RIGHT_TO_LEFT.test(symbols.join("")) ? "rtl" : "ltr");
const letters = (symbols) => symbols.every((symbol) => [...symbol].length === 1 || symbol === "</s>");
const digits = (symbols) => symbols.every((symbol) => /^\p{Nd}$/u.test(symbol));

// Symbols as text: letters are joined, so that their script can connect them; numbers are separated.
function symbolsText(symbols) {
  const words = symbols.filter((symbol) => symbol !== "</s>");
  return letters(words) && !(words.length && digits(words)) ? shown(words.join("")) : words.map(shown).join(" ");
}

const counted = (number, name) => `${number} ${name}${number === 1 ? "" : "s"}`;
// The output as text; of rows of numbers their count.
const outputText = ({ output, numeric }) => (numeric ? counted(output.length, "step") : symbolsText(output));

const FULL_SCALE_FROM = 100; // thousandths: if no weight of a map is larger, its scale ends at the largest

// The weight that is darkest: 1, or where all weights are faint the largest of them, rounded up to a digit.
function darkestWeight(weights) {
  const largest = weights.reduce((most, weight) => Math.max(most, weight), 0);
  if (largest === 0 || largest >= FULL_SCALE_FROM) return 1000;
  const unit = 10 ** Math.floor(Math.log10(largest));
  return Math.ceil(largest / unit) * unit;
}
