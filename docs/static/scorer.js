/* Scores of a search: pages for users come before the API, design papers and evaluations. */
const WEIGHTS = [
  [/^walks\b/, 0.7],
  [/^reference\/(commands|job-file)\b/, 0.8],
  [/^(design|evaluation|performance|contribute|references)\b/, 0.2],
  [/^reference\/api\b/, 0.5],
  [/^how\b/, 0.6],
];
var Scorer = {
  score: ([docname, title, anchor, description, score]) => {
    const found = WEIGHTS.find(([pages]) => pages.test(docname));
    return score * (found ? found[1] : 1);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
