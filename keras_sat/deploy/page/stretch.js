// Stretch pictures as Python's Pillow does, to the pixel: captions hang on a bit. One side is stretched first, then the
// other, each pixel weighed in 22 bits and rounded to 8.

// Return for each pixel of a line of `length` the first pixel of one of `before` that it is made of, and the weights.
export function weightsOf(before, length) {
  const scale = before / length, reach = Math.max(scale, 1); // with fewer pixels afterwards, each is a mean of many
  return Array.from({ length }, (_, pixel) => {
    const centre = (pixel + 0.5) * scale;
    const first = Math.max(Math.floor(centre - reach + 0.5), 0), end = Math.min(Math.floor(centre + reach + 0.5), before);
    const shares = [];
    for (let i = first; i < end; i++) shares.push(Math.max(1 - Math.abs((i - centre + 0.5) / reach), 0));
    const sum = shares.reduce((a, b) => a + b, 0);
    return { first, weights: shares.map((share) => Math.floor((share / sum) * 4194304 + 0.5)) };
  });
}

// Write the pixels of a line, RGB or RGBA, into another one that is longer or shorter.
function stretchLine(source, at, step, weights, target, to, toStep) {
  weights.forEach(({ first, weights: shares }, pixel) => {
    let red = 2097152, green = 2097152, blue = 2097152; // a half, so that the whole part is rounded
    for (let i = 0, place = at + first * step; i < shares.length; i++, place += step) {
      red += shares[i] * source[place];
      green += shares[i] * source[place + 1];
      blue += shares[i] * source[place + 2];
    }
    const place = to + pixel * toStep;
    target[place] = Math.min(Math.floor(red / 4194304), 255);
    target[place + 1] = Math.min(Math.floor(green / 4194304), 255);
    target[place + 2] = Math.min(Math.floor(blue / 4194304), 255);
  });
}

// Return lines of RGBA pixels with another width, as RGB.
export function stretchedAcross(rgba, width, height, newWidth) {
  const across = weightsOf(width, newWidth), target = new Uint8Array(height * newWidth * 3);
  for (let y = 0; y < height; y++) stretchLine(rgba, y * width * 4, 4, across, target, y * newWidth * 3, 3);
  return target;
}

// Return RGB pixels with another height.
export function stretchedDown(rgb, width, height, newHeight) {
  const down = weightsOf(height, newHeight), target = new Uint8Array(newHeight * width * 3);
  for (let x = 0; x < width; x++) stretchLine(rgb, x * 3, width * 3, down, target, x * 3, width * 3);
  return target;
}

// Return RGBA pixels made smaller by a whole number: the mean of squares of `times` by `times` pixels.
export function reduced(rgba, width, height, times) {
  const columns = Math.ceil(width / times), rows = Math.ceil(height / times);
  const target = new Uint8ClampedArray(columns * rows * 4);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const right = Math.min((column + 1) * times, width), bottom = Math.min((row + 1) * times, height);
      let red = 0, green = 0, blue = 0, count = 0;
      for (let y = row * times; y < bottom; y++) {
        for (let x = column * times; x < right; x++, count++) {
          const place = (y * width + x) * 4;
          red += rgba[place];
          green += rgba[place + 1];
          blue += rgba[place + 2];
        }
      }
      target.set([red / count, green / count, blue / count, 255], (row * columns + column) * 4);
    }
  }
  return target;
}
