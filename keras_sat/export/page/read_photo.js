// Turn a file into the pixels for the network. A file that cannot be read raises a Problem.

import { Problem } from "./captioner.js";
import { element } from "./figure.js";
import { WHOLE } from "./rectangle.js";
import { reduced, stretchLines } from "./stretch.js";

const MOST_PIXELS = 60e6;
const LONGEST_SIDE = 16_384; // some browsers draw nothing on a larger canvas
const STRIP = 2e6; // pixels that are taken out of a picture at a time
const SHOWN_SIDE = 1024; // of the photo on the page
const KINDS = [[/^$/, "is empty."], [/^\xff\xd8|^\x89PNG|^GIF8|^RIFF.{4}WEBP/s, "is damaged. Choose another photo."],
  [/^.{4}ftyp(?:hei|hev|mif1|msf1)/s, "is a HEIC photo, which this browser cannot read. Save it as JPEG and choose it again."]];

// Return { pixels, canvas, width, height } of the part of a photo that `sides` show: RGB pixels in the network's size, the
// picture to show, and its size.
export async function readPhoto(file, [height, width], sides = WHOLE) {
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  const picture = await createImageBitmap(file, { colorSpaceConversion: "none" }).catch(() => {
    const name = `“${file.name || "the picture"}”`, known = KINDS.find(([start]) => start.test(head));
    if (known) throw new Problem(`The file ${name} ${known[1]}`);
    const kind = file.type ? ` (${file.type})` : "";
    throw new Problem(`This browser cannot read ${name}${kind} as a picture. JPEG, PNG and WebP files work.`);
  });
  try {
    if (picture.width * picture.height > MOST_PIXELS || Math.max(picture.width, picture.height) > LONGEST_SIDE) {
      throw new Problem(`This picture has ${picture.width} x ${picture.height} pixels; the page accepts up to ${MOST_PIXELS / 1e6} million, and ${LONGEST_SIDE} per side. Make it smaller and choose it again.`);
    }
    const isJpeg = head.startsWith("\xff\xd8"); // whatever its name
    const times = isJpeg ? reductionOf(picture, Math.max(height, width), sides) : 1, crop = await cropOf(picture, sides, times);
    try {
      return { pixels: pixelsOf(crop, height, width, times), canvas: drawn(crop), width: crop.width, height: crop.height };
    } finally {
      crop.close();
    }
  } finally {
    picture.close();
  }
}

// Return how much smaller a JPEG is made before a crop of it is resized to `longest`, as in Python.
function reductionOf({ width, height }, longest, { left, top, right, bottom }) {
  const least = Math.ceil((2 * longest) / Math.min(right - left, bottom - top));
  return [8, 4, 2, 1].find((n) => n === 1 || Math.min(width, height) >= n * least);
}

// Return an ImageBitmap of the part that `sides` show, in whole squares of `times` by `times` pixels; at least one.
function cropOf(picture, { left, top, right, bottom }, times) {
  const ends = (length, low, high) => {
    const squares = Math.ceil(length / times), [from, to] = [low, high].map((side) => Math.floor(side * squares + 0.5));
    const first = Math.min(from, squares - 1);
    return [first * times, Math.min(Math.max(to, first + 1) * times, length) - first * times];
  };
  const [x, width] = ends(picture.width, left, right), [y, height] = ends(picture.height, top, bottom);
  return createImageBitmap(picture, x, y, width, height);
}

// Return a canvas with an ImageBitmap, on white as the network sees it. The file itself may be animated.
function drawn(picture) {
  const scale = Math.min(SHOWN_SIDE / Math.max(picture.width, picture.height), 1);
  const [width, height] = [picture.width, picture.height].map((side) => Math.max(Math.round(scale * side), 1));
  const canvas = element("canvas", { width, height }), brush = canvas.getContext("2d");
  Object.assign(brush, { fillStyle: "#fff", imageSmoothingQuality: "high" });
  brush.fillRect(0, 0, width, height);
  brush.drawImage(picture, 0, 0, width, height);
  return canvas;
}

// Return the RGB pixels of an ImageBitmap in the network's size. It is made `times` smaller before it is resized.
function pixelsOf(picture, height, width, times) {
  const columns = Math.ceil(picture.width / times), lines = Math.ceil(picture.height / times);
  const rows = times * Math.max(Math.floor(STRIP / picture.width / times), 1); // of a strip
  const strip = element("canvas", { width: picture.width, height: Math.min(rows, picture.height) });
  const brush = strip.getContext("2d", { willReadFrequently: true });
  const across = new Uint8Array(width * lines * 3);
  for (let top = 0; top < picture.height; top += rows) {
    const tall = Math.min(rows, picture.height - top);
    brush.fillStyle = "#fff"; // for transparent pixels
    brush.fillRect(0, 0, strip.width, strip.height);
    brush.drawImage(picture, 0, -top);
    const { data } = brush.getImageData(0, 0, picture.width, tall);
    stretchLines(reduced(data, picture.width, tall, times), 4, columns, across, width, lines, top / times);
  }
  const pixels = new Uint8Array(height * width * 3);
  stretchLines(across, 3, lines, pixels, height, width);
  return pixels;
}
