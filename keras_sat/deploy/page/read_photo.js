// From a file to the pixels that the network gets. A file that cannot be read is a Problem.

import { Problem } from "./captioner.js";
import { reduced, stretchedAcross, stretchedDown } from "./stretch.js";

const MOST_PIXELS = 60e6;
const LONGEST_SIDE = 16_384; // some browsers draw nothing where a canvas is longer
const STRIP = 2e6; // pixels that are taken out of a picture at a time

// Return { pixels, width, height, address }: pixels RGB (height * width * 3); the address is for <img>.
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
      const isJpeg = new Uint8Array(await file.slice(0, 2).arrayBuffer()).join() === "255,216"; // whatever its name
      return { pixels: pixelsOf(bitmap, height, width, isJpeg), address, width: bitmap.width, height: bitmap.height };
    } finally {
      bitmap.close();
    }
  } catch (error) {
    URL.revokeObjectURL(address);
    throw error;
  }
}

// Return the RGB pixels of an ImageBitmap in the network's size.
function pixelsOf(picture, height, width, isJpeg) {
  const shortest = Math.min(picture.width, picture.height);
  // As in Python, large JPEGs are made smaller before they are stretched.
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
    brush.fillStyle = "#fff"; // behind transparent pixels
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

// Return the size of a picture, before its pixels are decoded.
function sizeOf(address, file) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve({ width: image.naturalWidth, height: image.naturalHeight });
    image.onerror = () => reject(cannotRead(file));
    image.src = address;
  });
}

function cannotRead(file) {
  const kind = file.type ? ` (${file.type})` : "";
  return new Problem(`This browser cannot read “${file.name || "the picture"}”${kind} as a picture. JPEG, PNG and WebP files work.`);
}
