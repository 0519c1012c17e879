// Stretch pictures as Python's Pillow does, bit for bit, since captions depend on single bits: one side first, then the
// other, with weights of 22 bits and rounded to 8 bits after each.

const ONE = 2 ** 22;

// Return for each pixel of a line of `length` the first of the `before` pixels that it is made of, and their weights.
function weightsOf(before, length) {
  const scale = before / length, reach = Math.max(scale, 1); // with fewer pixels afterwards, each is a mean of many
  return Array.from({ length }, (_, pixel) => {
    const centre = (pixel + 0.5) * scale;
    const first = Math.max(Math.floor(centre - reach + 0.5), 0), end = Math.min(Math.floor(centre + reach + 0.5), before);
    const parts = [];
    for (let i = first; i < end; i++) parts.push(Math.max(1 - Math.abs((i - centre + 0.5) / reach), 0));
    const sum = parts.reduce((a, b) => a + b, 0);
    return { first, weights: parts.map((part) => Math.floor((part / sum) * ONE + 0.5)) };
  });
}

// Write a line of pixels, RGB or RGBA, into another one that is longer or shorter, as RGB.
function stretchLine(source, at, step, pixels, target, to, toStep) {
  pixels.forEach(({ first, weights }, pixel) => {
    for (let channel = 0; channel < 3; channel++) {
      let sum = ONE / 2; // to round
      for (let i = 0, place = at + first * step + channel; i < weights.length; i++, place += step) sum += weights[i] * source[place];
      target[to + pixel * toStep + channel] = Math.min(Math.floor(sum / ONE), 255);
    }
  });
}

// Return lines of RGBA pixels with another width, as RGB.
export function stretchedAcross(rgba, width, height, newWidth) {
  const pixels = weightsOf(width, newWidth), target = new Uint8Array(height * newWidth * 3);
  for (let y = 0; y < height; y++) stretchLine(rgba, y * width * 4, 4, pixels, target, y * newWidth * 3, 3);
  return target;
}

// Return RGB pixels with another height.
export function stretchedDown(rgb, width, height, newHeight) {
  const pixels = weightsOf(height, newHeight), target = new Uint8Array(newHeight * width * 3);
  for (let x = 0; x < width; x++) stretchLine(rgb, x * 3, width * 3, pixels, target, x * 3, width * 3);
  return target;
}

// Return RGBA pixels made smaller: the means of squares of `times` by `times` pixels.
export function reduced(rgba, width, height, times) {
  const columns = Math.ceil(width / times), rows = Math.ceil(height / times);
  const target = new Uint8ClampedArray(columns * rows * 4);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const right = Math.min((column + 1) * times, width), bottom = Math.min((row + 1) * times, height);
      const count = (right - column * times) * (bottom - row * times);
      for (let channel = 0; channel < 4; channel++) {
        let sum = 0;
        for (let y = row * times; y < bottom; y++) for (let x = column * times; x < right; x++) sum += rgba[(y * width + x) * 4 + channel];
        target[(row * columns + column) * 4 + channel] = sum / count;
      }
    }
  }
  return target;
}
