// Cut a sentence into words as `data_utils.tokenise` does: lower case, no punctuation, contractions cut as the Penn
// Treebank cuts them.

const LETTER = "[\\p{L}\\p{N}_\\p{Mn}\\p{Mc}\\u200c\\u200d]";
const CONTRACTION = "(?:n't|'(?:s|m|d|re|ve|ll))";
const BEFORE = "(?<![\\p{L}\\p{N}_])", BEHIND = "(?![\\p{L}\\p{N}_])";
const WORD = new RegExp([
  "(?:[a-z]\\.){2,}", // u.s., p.m.
  `${BEFORE}(?:mr|mrs|ms|dr|st|jr|sr|vs|mt)\\.`, // mr.
  `${CONTRACTION}(?!${LETTER})`, // the second half of dog's, isn't
  "'n'", // rock 'n' roll
  `can(?=not${BEHIND})|(?:gon|wan)(?=na${BEHIND})|got(?=ta${BEHIND})`, // the Treebank cuts these in two
  `${LETTER}+?(?=n't(?!${LETTER}))`, // the first half of isn't
  "\\p{Nd}+(?:[.,:/]\\p{Nd}+)+", // 3.50, 1,000, 5:30, 1/2
  `${LETTER}+(?:(?!${CONTRACTION}(?!${LETTER}))[-/@.']${LETTER}+)*`, // snow-covered, o'clock
  "[$%&#@*+=]", // signs that are read aloud
].join("|"), "gu");

export function tokenise(text) {
  const straight = text.normalize("NFC").replace(/[‘’]/g, "'").replace(/[“”]/g, '"');
  return straight.toLowerCase().replaceAll("`", "'").match(WORD) ?? [];
}
