// A grey patch over a part of the photo: what does the network write when it does not see this part?

import { element } from "./figure.js";
import { coveredCells } from "./rectangle.js";

const GREY = 128;

// Return a copy of RGB pixels with a patch.
export function coveredPixels(pixels, [height, width], { left, top, right, bottom }) {
  const covered = pixels.slice();
  for (let row = Math.round(top * height); row < Math.round(bottom * height); row++) {
    covered.fill(GREY, 3 * (row * width + Math.round(left * width)), 3 * (row * width + Math.round(right * width)));
  }
  return covered;
}

// Return a copy of a canvas with a patch.
export function coveredCanvas(canvas, { left, top, right, bottom }) {
  const { width, height } = canvas, copy = element("canvas", { width, height }), brush = copy.getContext("2d");
  brush.drawImage(canvas, 0, 0);
  brush.fillStyle = `rgb(${GREY}, ${GREY}, ${GREY})`;
  brush.fillRect(left * width, top * height, (right - left) * width, (bottom - top) * height);
  return copy;
}

// Return the weight of a map under a patch. `side` is that of the photo, in units of the patch.
export function covers(patch, map, rows, columns, side) {
  const covered = coveredCells(patch, rows, columns, side);
  return map.reduce((sum, x, i) => sum + x * covered[i], 0);
}

// Return for each word whether it is in a longest common subsequence with other words.
export function keptIn(words, others) {
  const lengths = Array.from({ length: words.length + 1 }, () => new Array(others.length + 1).fill(0));
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      lengths[i][j] = words[i] === others[j] ? 1 + lengths[i + 1][j + 1] : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  let j = 0;
  return words.map((word, i) => {
    while (word !== others[j] && lengths[i][j + 1] > lengths[i + 1][j]) j++;
    return word === others[j] && ++j > 0;
  });
}
