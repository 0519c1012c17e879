// Attention maps as brightness and as text, by the rules of brightness.py and player.py.

const FULL_LIGHT = 3; // times the uniform weight: the least weight that is drawn with full light

const uniform = (map) => map.reduce((sum, x) => sum + x, 0) / map.length;

// Return the light of each cell, 0 to 254, for a word with the fraction `fromPhoto` from the photo.
function lightOf(map, fromPhoto = 1) {
  const full = Math.max(...map, FULL_LIGHT * uniform(map), 1e-12) / Math.max(fromPhoto, 1e-6);
  return Array.from(map, (x) => Math.round((254 * Math.max(x, 0)) / full));
}

// Return in words where a map has its maximum, for screen readers.
function whereOf(map, rows, columns) {
  const peak = Math.max(...map), least = Math.min(...map);
  if (peak - least <= 1e-6 * peak) return "looks everywhere alike.";
  const place = map.indexOf(peak), row = Math.floor(place / columns), column = place % columns;
  const vertical = ["top", "", "bottom"][Math.floor((3 * (row + 0.5)) / rows)];
  const horizontal = ["left", "", "right"][Math.floor((3 * (column + 0.5)) / columns)];
  const corner = [vertical, horizontal].filter(Boolean).join(" ") || "centre";
  const times = peak / uniform(map);
  return `looks most at the ${corner}; one of ${map.length} cells gets ${((100 * times) / map.length).toFixed(0)} %: ${times.toFixed(1)} times the uniform weight.`;
}

// Return the values of a result for the player, see `fillPlayer` and `startPlayer`. `aspect` is width over height.
export function shownOf({ words, maps, rows, columns, fromPhoto, confidence }, aspect, photo = null) {
  const percents = fromPhoto?.map((fraction) => Math.round(100 * fraction));
  const sure = confidence === null ? "" : `; ${confidenceIn(confidence)}`;
  return {
    aspect: aspect.toFixed(4), photo, words, rows, columns, fromPhoto: percents,
    note: words.length ? `The photo alone${sure}.` : "The caption is empty.",
    maps: Uint8Array.from(maps.flatMap((map, i) => lightOf(map, fromPhoto?.[i]))),
    notes: maps.map((map, i) => (percents ? `${percents[i]} % from the photo; ` : "") + whereOf(map, rows, columns)),
  };
}

export const confidenceIn = (confidence) => `confidence ${Math.round(100 * confidence)} %`;
