/* Results of a search: pages ranked by BM25 (Robertson and Zaragoza 2009), and names of the API.

   A page's score is that of all its text and that of its best section, to which the result leads.
   FREQUENCIES is written by docs/extensions/search.py. */
const SATURATION = 3; /* frequency at which a word has half of its highest score: k1 */
const SYNONYM_WEIGHT = 0.5; /* weight of synonyms, and of words alike */
const STEM_LENGTH = 5; /* letters from which a word is alike to a longer one that begins with it */
const FILLERS = new Set( /* words that are left out of a query that has others */
  ("can data dataset get getting got give help just keep like long make makes mean means much " +
   "many need one please really said say says show tell thing things use used using want way " +
   "work works").split(" "),
);
const PAGE_WEIGHTS = [
  [/^(evaluation\/index|performance\/(index|scaling))\b/, 0.8],
  [/^walks\b/, 0.7],
  [/^reference\/(commands|job-file)\b/, 0.8],
  [/^(design|evaluation|performance|contribute|references)\b/, 0.3],
  [/^reference\/api\b/, 0.5],
  [/^how\b/, 0.6],
];
const weightOf = (page) => PAGE_WEIGHTS.find(([pages]) => pages.test(page))?.[1] ?? 1;

/* Whether one of two words begins the other. For an unknown word three letters are enough, and
   from four letters on it may be within the other. */
const isAlike = (one, other, isKnown) => {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  if (isKnown) return short.length >= STEM_LENGTH && long.startsWith(short);
  return short.length > 3 ? long.includes(short) : short.length > 2 && long.startsWith(short);
};

/* The synonyms of a word, or else of a word that is alike. */
const synonymsOf = (word) => {
  const all = FREQUENCIES.synonyms;
  return all[word] ?? all[Object.keys(all).find((one) => isAlike(one, word, true))] ?? [];
};

/* Score of each place by one word of the query: the best of its stem and of those alike. */
const scoresOfWord = (word, { places, words }) => {
  const synonyms = synonymsOf(word);
  const isKnown = synonyms.length > 0 || word in words;
  const stems = [[word, 1], ...synonyms.map((stem) => [stem, SYNONYM_WEIGHT])];
  for (const stem in words)
    if (stem !== word && isAlike(stem, word, isKnown)) stems.push([stem, SYNONYM_WEIGHT]);
  const best = new Map();
  for (const [stem, weight] of stems) {
    const found = Object.entries(words[stem] ?? {});
    const rarity = Math.log(1 + places.length / found.length);
    for (const [number, frequency] of found) {
      const score = (weight * rarity * frequency) / (frequency + SATURATION);
      best.set(places[number], Math.max(score, best.get(places[number]) ?? 0));
    }
  }
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
  const parts = splitQuery(query.toLowerCase());
  const compounds = query.toLowerCase().match(/\w+-\w+/g) ?? [];
  const joined = compounds.map((word) => word.replace("-", ""));
  const words = [...parts, ...joined].filter((word) => !stopwords.has(word));
  const telling = words.filter((word) => !FILLERS.has(word));
  return new Set((telling.length ? telling : words).map((word) => stemmer.stemWord(word)));
};

const searchOfSphinx = Search._performSearch;
Search._performSearch = (query, ...others) => {
  const words = stemsOf(query);
  const best = new Map();
  for (const [place, score] of scoresOfQuery(words, FREQUENCIES.sections)) {
    const page = place.split("#")[0];
    if (score > (best.get(page)?.score ?? 0)) best.set(page, { place, score });
  }
  const names = searchOfSphinx(query, ...others).filter((one) => one[6] === "object");
  const results = [...names];
  for (const [page, score] of scoresOfQuery(words, FREQUENCIES.pages)) {
    const section = best.get(page);
    const index = Search._index.docnames.indexOf(page);
    const title = Search._index.titles[index];
    const heading = FREQUENCIES.headings[section.place];
    const within = heading !== title;
    results.push([
      page,
      within ? `${title} > ${heading}` : title,
      within ? `#${section.place.split("#")[1]}` : "",
      null,
      (score + section.score) * weightOf(page),
      Search._index.filenames[index],
      "text",
    ]);
  }
  return results.sort((one, other) => one[4] - other[4]);
};

/* Scores of names of the API, which Sphinx finds. */
var Scorer = {
  score: (result) => result[4] * weightOf(result[0]),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
