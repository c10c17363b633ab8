// What a search of the site finds first: guides, then commands and choices, then Python, then records of decisions.
// Sphinx reads `Scorer`; its other numbers are Sphinx's own.
const RANKS = [["decisions/", -30], ["changelog", -30], ["contributing", -15], ["architecture", 0], ["benchmarks", 0],
  ["reference/packages/", -15], ["reference/", 15]];

var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const [, rank] = RANKS.find(([start]) => page.startsWith(start)) || ["", 20];
    return score + rank;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
