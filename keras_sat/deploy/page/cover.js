// A grey patch over a part of the photo: what does the network write when it does not see this part?

import { element } from "./figure.js";

const GREY = 128;
const SIDE = 0.3; // of a new patch, as a fraction of the photo's sides
const STEP = 0.05; // of the arrow keys
const LEAST = 0.02; // a smaller drag is a click
const MOVES = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };

// Patches are { left, top, right, bottom }, fractions of the photo. Return a copy of RGB pixels with a patch.
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

// Return the patch of the default size around a point, within the photo.
export function patchAround(x, y) {
  const [left, top] = [x, y].map((centre) => Math.min(Math.max(centre - SIDE / 2, 0), 1 - SIDE));
  return { left, top, right: left + SIDE, bottom: top + SIDE };
}

// Return the weight of a map under a patch. `side` is that of the photo, in units of the patch.
export function covers({ left, top, right, bottom }, map, rows, columns, side = 1) {
  const part = (i, cell, from, to) => Math.max(Math.min(i + 1, to / cell) - Math.max(i, from / cell), 0);
  const covered = (i) => part(Math.floor(i / columns), side / rows, top, bottom) * part(i % columns, side / columns, left, right);
  return map.reduce((sum, x, i) => sum + x * covered(i), 0);
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

// The patch on the photo in a player, drawn with the pointer or moved with the arrow keys. Calls `changed` with every patch.
export class Cover {
  constructor(player, changed) {
    const button = element("button", { type: "button", className: "sat-patch" });
    button.setAttribute("aria-label", "The grey patch. Arrow keys move it.");
    Object.assign(this, { player, changed, button, patch: null, grip: null });
    // In the capturing phase: while there is a patch, the player does not answer for places.
    const listen = (kind, handle) => player.addEventListener(kind, (event) => {
      const stage = this.patch && event.target.closest?.(".sat-stage");
      if (!stage) return;
      event.stopPropagation();
      handle?.(event, stage);
    }, true);
    const pointOf = (event, stage) => {
      const { left, top, width, height } = stage.getBoundingClientRect();
      return [(event.clientX - left) / width, (event.clientY - top) / height].map((x) => Math.min(Math.max(x, 0), 1));
    };
    listen("click");
    listen("dragstart", (event) => event.preventDefault()); // of the image
    listen("pointerdown", (event, stage) => {
      if (event.button || !event.isPrimary) return;
      const [x, y] = pointOf(event, stage), isMoved = event.target === this.button;
      this.grip = { start: [x, y], moved: isMoved ? this.patch : null };
      this.hold(stage, isMoved ? this.patch : { left: x, top: y, right: x, bottom: y });
      stage.setPointerCapture(event.pointerId);
    });
    listen("pointermove", (event, stage) => {
      if (!this.grip || !event.buttons || !event.isPrimary) return;
      const [x, y] = pointOf(event, stage), [fromX, fromY] = this.grip.start;
      const [[left, right], [top, bottom]] = [[x, fromX], [y, fromY]].map((ends) => ends.sort((a, b) => a - b));
      this.hold(stage, this.grip.moved ? moved(this.grip.moved, x - fromX, y - fromY) : { left, top, right, bottom });
    });
    listen("lostpointercapture", (event, stage) => { // the pointer was released
      if (!this.grip) return;
      const { left, top, right, bottom } = this.patch;
      if (right - left < LEAST || bottom - top < LEAST) this.hold(stage, patchAround(...this.grip.start));
      this.grip = null;
      this.changed(this.patch);
    });
    listen("keydown", (event, stage) => {
      if (event.target !== this.button || !MOVES[event.key]) return;
      event.preventDefault();
      this.hold(stage, moved(this.patch, ...MOVES[event.key]));
      this.changed(this.patch);
    });
  }

  // Move the patch over the photo without one, until the network has seen that.
  hold(stage, patch) {
    if (stage.firstElementChild.src !== this.photo) stage.firstElementChild.src = this.photo;
    this.button.dataset.held = "";
    this.move(patch);
  }

  // Put the patch of a photo that has it, or none, into a new player. `photo` is the address of the photo without it.
  place(patch, photo) {
    Object.assign(this, { photo, grip: null });
    this.button.remove();
    delete this.button.dataset.held;
    this.player.toggleAttribute("data-covered", patch !== null);
    this.move(patch);
    if (patch) this.player.querySelector(".sat-stage").append(this.button);
  }

  move(patch) {
    this.patch = patch;
    const sides = patch ? [patch.top, 1 - patch.right, 1 - patch.bottom, patch.left] : [];
    this.button.style.inset = sides.map((side) => `${100 * side}%`).join(" ");
  }
}

function moved({ left, top, right, bottom }, x, y) {
  const [across, down] = [[x, left, right], [y, top, bottom]].map(([by, low, high]) => Math.min(Math.max(by, -low), 1 - high));
  return { left: left + across, top: top + down, right: right + across, bottom: bottom + down };
}
