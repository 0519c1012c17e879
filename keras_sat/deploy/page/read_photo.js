// Turn a file into the pixels for the network. A file that cannot be read raises a Problem.

import { Problem } from "./captioner.js";
import { element } from "./figure.js";
import { reduced, stretchLines } from "./stretch.js";

const MOST_PIXELS = 60e6;
const LONGEST_SIDE = 16_384; // some browsers draw nothing on a larger canvas
const STRIP = 2e6; // pixels that are taken out of a picture at a time
const SHOWN_SIDE = 1024; // of the photo on the page
const KINDS = [[/^$/, "is empty."], [/^\xff\xd8|^\x89PNG|^GIF8|^RIFF.{4}WEBP/s, "is damaged. Choose another photo."],
  [/^.{4}ftyp(?:hei|hev|mif1|msf1)/s, "is a HEIC photo, which this browser cannot read. Save it as JPEG and choose it again."]];

// Return { pixels, canvas, width, height }: RGB pixels in the network's size, the photo to show, and its size.
export async function readPhoto(file, [height, width]) {
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
    const pixels = pixelsOf(picture, height, width, head.startsWith("\xff\xd8")); // a JPEG, whatever its name
    return { pixels, canvas: drawn(picture), width: picture.width, height: picture.height };
  } finally {
    picture.close();
  }
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
