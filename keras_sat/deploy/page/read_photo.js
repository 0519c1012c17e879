// Turn a file into the pixels for the network. A file that cannot be read raises a Problem.

import { Problem } from "./captioner.js";
import { element } from "./figure.js";
import { reduced, stretchLines } from "./stretch.js";

const MOST_PIXELS = 60e6;
const LONGEST_SIDE = 16_384; // some browsers draw nothing on a larger canvas
const STRIP = 2e6; // pixels that are taken out of a picture at a time

// Return { pixels, width, height }: RGB pixels in the network's size, and the size of the photo.
export async function readPhoto(file, [height, width]) {
  const picture = await createImageBitmap(file, { colorSpaceConversion: "none" }).catch(() => {
    const kind = file.type ? ` (${file.type})` : "";
    throw new Problem(`This browser cannot read “${file.name || "the picture"}”${kind} as a picture. JPEG, PNG and WebP files work.`);
  });
  try {
    if (picture.width * picture.height > MOST_PIXELS || Math.max(picture.width, picture.height) > LONGEST_SIDE) {
      throw new Problem(`This picture has ${picture.width} x ${picture.height} pixels; the page accepts up to ${MOST_PIXELS / 1e6} million, and ${LONGEST_SIDE} per side. Make it smaller and choose it again.`);
    }
    const isJpeg = new Uint8Array(await file.slice(0, 2).arrayBuffer()).join() === "255,216"; // whatever its name
    return { pixels: pixelsOf(picture, height, width, isJpeg), width: picture.width, height: picture.height };
  } finally {
    picture.close();
  }
}

// Return the RGB pixels of an ImageBitmap in the network's size.
function pixelsOf(picture, height, width, isJpeg) {
  const shortest = Math.min(picture.width, picture.height);
  // As in Python, large JPEGs are reduced before they are resized.
  const times = isJpeg ? [8, 4, 2, 1].find((n) => n === 1 || shortest >= n * 2 * Math.max(height, width)) : 1;
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
