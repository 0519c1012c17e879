// Resize images exactly as Python's Pillow does, since captions depend on single bits: first along one axis, then along
// the other, with 22-bit weights, rounded to 8 bits after each.

const ONE = 2 ** 22;

// Return, for each pixel of a line resized from `before` to `length`, the first source pixel and the weights from there on.
function weightsOf(before, length) {
  const scale = before / length, reach = Math.max(scale, 1); // when downsampling, each pixel is a mean of many
  return Array.from({ length }, (_, pixel) => {
    const centre = (pixel + 0.5) * scale;
    const first = Math.max(Math.floor(centre - reach + 0.5), 0), end = Math.min(Math.floor(centre + reach + 0.5), before);
    const parts = [];
    for (let i = first; i < end; i++) parts.push(Math.max(1 - Math.abs((i - centre + 0.5) / reach), 0));
    const sum = parts.reduce((a, b) => a + b, 0);
    return { first, weights: parts.map((part) => Math.floor((part / sum) * ONE + 0.5)) };
  });
}

// Resize lines of `before` pixels to `length`. They become columns of `target`, RGB with `columns` pixels per line, from
// column `at` on: an image that is resized twice is upright again.
export function stretchLines(source, channels, before, target, length, columns, at = 0) {
  const pixels = weightsOf(before, length), lines = source.length / (channels * before);
  for (let line = 0; line < lines; line++) {
    pixels.forEach(({ first, weights }, pixel) => {
      for (let channel = 0; channel < 3; channel++) {
        let sum = ONE / 2; // to round
        let place = (line * before + first) * channels + channel;
        for (let i = 0; i < weights.length; i++, place += channels) sum += weights[i] * source[place];
        target[(pixel * columns + at + line) * 3 + channel] = Math.min(Math.floor(sum / ONE), 255);
      }
    });
  }
}

// Return RGBA pixels made smaller: the means of squares of `times` by `times` pixels.
export function reduced(rgba, width, height, times) {
  if (times === 1) return rgba;
  const columns = Math.ceil(width / times), rows = Math.ceil(height / times);
  const target = new Uint8ClampedArray(columns * rows * 4);
  for (let row = 0, i = 0; row < rows; row++) {
    const top = row * times, bottom = Math.min(top + times, height);
    for (let column = 0; column < columns; column++) {
      const left = column * times, right = Math.min(left + times, width);
      for (let channel = 0; channel < 4; channel++) {
        let sum = 0;
        for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) sum += rgba[(y * width + x) * 4 + channel];
        target[i++] = sum / ((bottom - top) * (right - left));
      }
    }
  }
  return target;
}
