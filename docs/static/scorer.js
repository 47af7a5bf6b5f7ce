/* A page with some words of a query is found, too. Its words' scores add up; a rare word has more. */
const searchWholeQuery = Search._performSearch;
Search._performSearch = (query, words, excluded, ...others) => {
  const results = searchWholeQuery(query, words, excluded, ...others);
  const scores = new Map();
  for (const word of words) {
    const found = Search.performTermsSearch(new Set([word]), excluded);
    const rarity = Math.log(1 + Search._index.docnames.length / found.length);
    for (const result of found) {
      const before = scores.get(result[0])?.score ?? 0;
      scores.set(result[0], { result, score: before + rarity * Scorer.score(result) });
    }
  }
  for (const result of results) result[4] += scores.get(result[0])?.score ?? 0;
  const listed = new Set(results.map((result) => result[0]));
  for (const { result, score } of scores.values())
    if (!listed.has(result[0])) results.push(result.with(4, score));
  return results.sort((one, other) => one[4] - other[4]);
};

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
