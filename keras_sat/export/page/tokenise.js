// Cut a sentence into words by the same rules as `data_utils.tokenise`.

import { WORD_RULES } from "./rules.js"; // of data_utils/captions.py

// In JavaScript, \w and \d alone are of the English alphabet.
const WORD = new RegExp(WORD_RULES.replaceAll("LETTER", "[\\w\\p{Mn}\\p{Mc}\\u200c\\u200d]")
  .replaceAll("\\w", "\\p{L}\\p{N}_").replaceAll("\\d", "\\p{Nd}"), "gu");

export function tokenise(text) {
  const straight = text.normalize("NFC").replace(/[‘’]/g, "'").replace(/[“”]/g, '"');
  return straight.toLowerCase().replaceAll("`", "'").match(WORD) ?? [];
}
