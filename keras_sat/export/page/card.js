// A picture to keep or share: the photo, its sentence, and where the network looked for up to three of its words.

import { element } from "./figure.js";

const WIDTH = 1080, GAP = 24, MOST_WORDS = 3;
const [TEXT, LABEL] = [44, 32].map((height) => ({ height, font: `${height}px system-ui, sans-serif` }));

// Save the result in a player. Chosen words come first; others are those that name something, sharpest map first.
export async function savePicture(player, found, picked, isNamed) {
  const { words, maps } = found, [photo, map] = player.querySelector(".sat-stage").children;
  const isFree = (_, i) => isNamed(found, i) && !picked.includes(i), rest = [...words.keys()].filter(isFree);
  const peak = words.map((_, i) => Math.max(...maps[i]));
  const steps = [...picked, ...rest.sort((i, j) => peak[j] - peak[i])].slice(0, MOST_WORDS).sort((i, j) => i - j);
  const width = (WIDTH - 3 * GAP) / 2, height = Math.round((width * photo.naturalHeight) / photo.naturalWidth);
  const tile = height + GAP + LABEL.height, rows = steps.length > 1 ? 2 : 1;
  const canvas = element("canvas", { width: WIDTH, height: 1 }), brush = canvas.getContext("2d");
  const fontOf = (step) => `${steps.includes(step) ? "bold " : ""}${TEXT.font}`, lines = linesOf(brush, words, fontOf);
  canvas.height = 2 * GAP + rows * (tile + GAP) + lines.length * 1.4 * TEXT.height;
  Object.assign(brush, { fillStyle: "#fff", textBaseline: "top" });
  brush.fillRect(0, 0, canvas.width, canvas.height);
  const buttons = player.querySelectorAll("button[data-step]"), before = player.firstElementChild.dataset.step;
  [null, ...steps].forEach((step, i) => {
    const [left, top] = [GAP + (i % 2) * (width + GAP), GAP + Math.floor(i / 2) * (tile + GAP)];
    brush.drawImage(photo, left, top, width, height);
    if (step === null) return;
    buttons[step].click(); // the player draws the map
    brush.drawImage(map, left, top, width, height);
    Object.assign(brush, { fillStyle: "#1b1b1f", font: `bold ${LABEL.font}` });
    brush.fillText(words[step], left, top + height + GAP / 2);
  });
  (buttons[before] ?? player.querySelector('[data-action="photo"]')).click();
  lines.forEach((line, i) => line.forEach(({ word, step, left }) => {
    brush.font = fontOf(step);
    brush.fillText(word, left, 2 * GAP + rows * (tile + GAP) + i * 1.4 * TEXT.height);
  }));
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const name = words.join(" ").replace(/[^\p{L}\p{N} ]/gu, "").slice(0, 80) || "caption";
  const file = new File([blob], `${name}.png`, { type: blob.type });
  if (matchMedia("(pointer: coarse)").matches && navigator.canShare?.({ files: [file] })) {
    return navigator.share({ files: [file] }).catch(() => {}); // the reader changed their mind
  }
  const link = element("a", { href: URL.createObjectURL(file), download: file.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Return lines of { word, step, left } that fit the width.
function linesOf(brush, words, fontOf) {
  const lines = [[]], space = TEXT.height / 3;
  let left = GAP;
  words.forEach((word, step) => {
    brush.font = fontOf(step);
    const { width } = brush.measureText(word);
    if (left + width > WIDTH - GAP && lines.at(-1).length) {
      lines.push([]);
      left = GAP;
    }
    lines.at(-1).push({ word, step, left });
    left += width + space;
  });
  return lines;
}
