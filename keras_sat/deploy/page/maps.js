// Maps as light and as words, by the rules of brightness.py and player.py.

const FULL_LIGHT = 3; // times an even share: the least weight that is drawn with full light

const evenShare = (map) => map.reduce((sum, x) => sum + x, 0) / map.length;

// Return the light of each cell as a byte, 0 to 254, for a word with the fraction `fromPhoto` from the photo.
export function lightOf(map, fromPhoto = 1) {
  const full = Math.max(...map, FULL_LIGHT * evenShare(map), 1e-12) / Math.max(fromPhoto, 1e-6);
  return Uint8Array.from(map, (x) => Math.round((254 * Math.max(x, 0)) / full));
}

// Return in words where a map has its maximum, for screen readers.
export function whereOf(map, rows, columns) {
  const peak = Math.max(...map), least = Math.min(...map);
  if (peak - least <= 1e-6 * peak) return "looks everywhere alike.";
  const place = map.indexOf(peak), row = Math.floor(place / columns), column = place % columns;
  const vertical = ["top", "", "bottom"][Math.floor((3 * (row + 0.5)) / rows)];
  const horizontal = ["left", "", "right"][Math.floor((3 * (column + 0.5)) / columns)];
  const corner = [vertical, horizontal].filter(Boolean).join(" ") || "centre";
  const times = peak / evenShare(map);
  return `looks most at the ${corner}; one of ${map.length} cells gets ${((100 * times) / map.length).toFixed(0)} %: ${times.toFixed(1)} times an even share.`;
}

// Return what the player shows of a result, see `fillPlayer` and `startPlayer`. `aspect` is width by height.
export function shownOf(result, aspect, photo = null) {
  const { words, maps, rows, columns, fromPhoto, confidence } = result;
  const percents = fromPhoto?.map((share) => Math.round(100 * share));
  const light = new Uint8Array(words.length * rows * columns);
  maps.forEach((map, i) => light.set(lightOf(map, fromPhoto ? fromPhoto[i] : 1), i * rows * columns));
  const notes = maps.map((map, i) => `${percents ? `${percents[i]} % from the photo; ` : ""}${whereOf(map, rows, columns)}`);
  const alone = `The photo alone${confidence === null ? "" : `; ${confidenceIn(confidence)}`}`;
  const shown = Math.min(Math.max(aspect, 0.2), 5); // a longer panorama would be drawn as a line
  return { aspect: shown.toFixed(4), photo, words, note: words.length ? `${alone}.` : "The caption is empty.", rows, columns, maps: light, notes, fromPhoto: percents };
}

export const confidenceIn = (confidence) => `confidence ${Math.round(100 * confidence)} %`;
