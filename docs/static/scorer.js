/* Results of a search: pages by the scores of their words, and names of the API.

   A page's score is that of all its text and that of its best section, to which the result leads.
   SCORES is written by docs/extensions/search.py. */

/* Whether two words differ by one letter, which may be missing in the shorter one. */
const isMistyped = (short, long) => {
  const at = [...short].findIndex((letter, n) => letter !== long[n]);
  const rest = long.slice(at + 1);
  return at > 0 && (short.slice(at) === rest || short.slice(at + 1) === rest);
};

/* Whether one of two words begins the other. For an unknown word three letters are enough, from
   four letters on it may be within the other, and long words may differ by one letter. */
const isAlike = (one, other, isKnown) => {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  const isLong = short.length >= SCORES.stemLength;
  if (isKnown) return isLong && long.startsWith(short);
  if (isLong && isMistyped(short, long)) return true;
  return short.length > 3 ? long.includes(short) : short.length > 2 && long.startsWith(short);
};

/* The synonyms of a word, or else of a word that is alike. */
const synonymsOf = (word) => {
  const all = SCORES.synonyms;
  return all[word] ?? all[Object.keys(all).find((one) => isAlike(one, word, true))] ?? [];
};

/* Score of each place by one word of the query: the best of its stem, its synonyms and words
   alike. */
const scoresOfWord = (word, { places, words }) => {
  const synonyms = synonymsOf(word);
  const isKnown = synonyms.length > 0 || word in words;
  const alike = Object.keys(words).filter((one) => one !== word && isAlike(one, word, isKnown));
  const others = [...synonyms, ...alike].map((stem) => [stem, SCORES.synonymWeight]);
  const best = new Map();
  for (const [stem, weight] of [[word, 1], ...others])
    for (const [number, score] of Object.entries(words[stem] ?? {}))
      best.set(places[number], Math.max(weight * score, best.get(places[number]) ?? 0));
  return best;
};

/* Sum of the words' scores, for each page or section. */
const scoresOfQuery = (query, index) => {
  const sums = new Map();
  for (const word of query)
    for (const [place, score] of scoresOfWord(word, index))
      sums.set(place, (sums.get(place) ?? 0) + score);
  return sums;
};

/* The stems of a query; unlike Sphinx's, numbers such as exit codes are among them. A word with a
   hyphen is one word as well: kmeans for k-means. */
const stemsOf = (query) => {
  const stemmer = new Stemmer();
  const compounds = query.match(/\w+-\w+/g) ?? [];
  const words = [...splitQuery(query), ...compounds.map((word) => word.replace("-", ""))];
  const telling = words.filter((word) => !SCORES.fillers.includes(word));
  return new Set((telling.length ? telling : words).map((word) => stemmer.stemWord(word)));
};

const searchOfSphinx = Search._performSearch;
Search._performSearch = (query, ...others) => {
  const words = stemsOf(query.toLowerCase());
  const best = new Map();
  for (const [place, score] of scoresOfQuery(words, SCORES.sections)) {
    const page = place.split("#")[0];
    if (score > (best.get(page)?.score ?? 0)) best.set(page, { place, score });
  }
  const results = searchOfSphinx(query, ...others).filter((one) => one[6] === "object");
  for (const [page, score] of scoresOfQuery(words, SCORES.pages)) {
    const section = best.get(page);
    const index = Search._index.docnames.indexOf(page);
    const title = Search._index.titles[index];
    const heading = SCORES.headings[section.place];
    const within = heading !== title;
    results.push([
      page,
      within ? `${title} > ${heading}` : title,
      within ? `#${section.place.split("#")[1]}` : "",
      null,
      (score + section.score) * (SCORES.weights[page] ?? 1),
      Search._index.filenames[index],
      "text",
    ]);
  }
  return results.sort((one, other) => one[4] - other[4]);
};

/* Scores of names of the API, which Sphinx finds: about that of a page with one word of the query. */
var Scorer = {
  objNameMatch: 4,
  objPartialMatch: 2,
  objPrio: {},
  objPrioDefault: 0,
  title: 0,
  partialTitle: 0,
  term: 0,
  partialTerm: 0,
};
