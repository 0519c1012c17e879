// From a file to the pixels that the network is given. What cannot be read is a Problem whose message is for the reader.

import { Problem } from "./captioner.js";
import { reduced, stretchedAcross, stretchedDown } from "./stretch.js";

const MOST_PIXELS = 60e6;
const LONGEST_SIDE = 16_384; // some browsers draw nothing where a canvas is longer
const STRIP = 2e6; // pixels that are taken out of a picture at a time

// Return { pixels, width, height, address }: pixels RGB (size * size * 3); the address shows the picture on a page.
export async function readPhoto(file, [height, width]) {
  const address = URL.createObjectURL(file);
  try {
    const seen = await sizeOf(address, file);
    if (seen.width * seen.height > MOST_PIXELS) {
      const millions = Math.round((seen.width * seen.height) / 1e6);
      throw new Problem(`This picture has ${millions} million pixels, and the page takes up to ${MOST_PIXELS / 1e6} million. Make it smaller and choose it again.`);
    }
    if (Math.max(seen.width, seen.height) > LONGEST_SIDE) throw new Problem(`This picture is ${seen.width} x ${seen.height} pixels, and the page takes sides of up to ${LONGEST_SIDE}. Make it smaller and choose it again.`);
    const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" }).catch(() => { throw cannotRead(file); });
    try {
      const isJpeg = (await startOf(file)) === 0xffd8; // whatever its name says
      return { pixels: pixelsOf(bitmap, height, width, isJpeg), address, width: bitmap.width, height: bitmap.height };
    } finally {
      bitmap.close();
    }
  } catch (error) {
    URL.revokeObjectURL(address);
    throw error;
  }
}

// Return the RGB pixels of a picture (an ImageBitmap, a canvas or a video frame) in the network's size.
export function pixelsOf(picture, height, width, isJpeg = false) {
  const shortest = Math.min(picture.width, picture.height);
  // Large JPEGs are decoded at a fraction of their size in Python.
  const times = isJpeg ? [8, 4, 2, 1].find((n) => n === 1 || shortest >= n * 2 * Math.max(height, width)) : 1;
  let rows = Math.max(Math.floor(STRIP / picture.width), times);
  rows -= rows % times;
  const strip = document.createElement("canvas");
  strip.width = picture.width;
  strip.height = Math.min(rows, picture.height);
  const brush = strip.getContext("2d", { willReadFrequently: true });
  const lines = [];
  for (let top = 0; top < picture.height; top += rows) {
    const tall = Math.min(rows, picture.height - top);
    brush.fillStyle = "#fff"; // what is transparent lies over white
    brush.fillRect(0, 0, strip.width, strip.height);
    brush.drawImage(picture, 0, top, picture.width, tall, 0, 0, picture.width, tall);
    const { data } = brush.getImageData(0, 0, picture.width, tall);
    const small = times > 1 ? reduced(data, picture.width, tall, times) : data;
    lines.push(stretchedAcross(small, Math.ceil(picture.width / times), Math.ceil(tall / times), width));
  }
  const all = new Uint8Array(lines.reduce((sum, part) => sum + part.length, 0));
  lines.reduce((place, part) => { all.set(part, place); return place + part.length; }, 0);
  return stretchedDown(all, width, all.length / (3 * width), height);
}

// Return the size of a picture, which a browser knows before it has decoded the pixels.
function sizeOf(address, file) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve({ width: image.naturalWidth, height: image.naturalHeight });
    image.onerror = () => reject(cannotRead(file));
    image.src = address;
  });
}

async function startOf(file) {
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return first * 256 + second;
}

function cannotRead(file) {
  const kind = file.type ? ` (${file.type})` : "";
  return new Problem(`This browser cannot read “${file.name || "the picture"}”${kind} as a picture. JPEG, PNG and WebP files work.`);
}
