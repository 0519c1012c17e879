// A rectangle on the photo in a player: a patch that covers a part ("cover"), or the part to describe ("region"), of
// which the player shows a crop. Its sides are { left, top, right, bottom }, fractions of the photo.

import { element } from "./figure.js";

const SIDE = 0.3; // of a new rectangle
const STEP = 0.05; // of the arrow keys
const MARGIN = 0.2; // of a crop around a region, as in Python
const LEAST = 0.02; // of what the player shows: a smaller drag is a click
export const WHOLE = { left: 0, top: 0, right: 1, bottom: 1 };
const MOVES = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
const LABELS = { cover: "The grey patch", region: "The part that is described" };

// Return the rectangle of the default size around a point, within the photo.
export function rectangleAround(x, y) {
  const [left, top] = [x, y].map((centre) => Math.min(Math.max(centre - SIDE / 2, 0), 1 - SIDE));
  return { left, top, right: left + SIDE, bottom: top + SIDE };
}

// Return the fraction of each cell that a rectangle covers. `side` is that of the photo, in units of the rectangle.
export function coveredCells({ left, top, right, bottom }, rows, columns, side = 1) {
  const parts = (cells, from, to) => Array.from({ length: cells }, (_, i) => (
    Math.max(Math.min(i + 1, (to * cells) / side) - Math.max(i, (from * cells) / side), 0)));
  const across = parts(columns, left, right);
  return parts(rows, top, bottom).flatMap((down) => across.map((part) => down * part));
}

// Return the sides of the crop that shows a region.
export function cropAround({ left, top, right, bottom }) {
  const across = MARGIN * (right - left), down = MARGIN * (bottom - top);
  return { left: Math.max(left - across, 0), top: Math.max(top - down, 0), right: Math.min(right + across, 1), bottom: Math.min(bottom + down, 1) };
}

// The rectangle is drawn with the pointer, or moved with the arrow keys. Calls `changed(kind, sides)` with every one.
export class Rectangle {
  constructor(player, changed) {
    const button = element("button", { type: "button", className: "sat-rectangle" });
    Object.assign(this, { player, changed, button, kind: null, sides: null, view: WHOLE, grip: null, wasDragged: false });
    // In the capturing phase: the player answers neither while there is a patch, nor where a handler returns true.
    const listen = (type, handle) => player.addEventListener(type, (event) => {
      const stage = event.target.closest?.(".sat-stage");
      if (stage && (handle(event, stage) || this.kind === "cover")) event.stopPropagation();
    }, true);
    const pointOf = (event, stage) => {
      const { left, top, width, height } = stage.getBoundingClientRect(), { view } = this;
      const [x, y] = [(event.clientX - left) / width, (event.clientY - top) / height].map((x) => Math.min(Math.max(x, 0), 1));
      return [view.left + x * (view.right - view.left), view.top + y * (view.bottom - view.top)];
    };
    const areLong = ({ left, top, right, bottom }) => {
      const { view } = this;
      return [right - left >= LEAST * (view.right - view.left), bottom - top >= LEAST * (view.bottom - view.top)];
    };
    listen("click", (event) => this.wasDragged || (event.target === button && !event.detail)); // by the keyboard
    listen("dragstart", (event) => event.preventDefault()); // of the image
    listen("pointerdown", (event, stage) => {
      if (event.button || !event.isPrimary) return;
      this.wasDragged = false;
      this.grip = { kind: this.kind, start: pointOf(event, stage), moved: event.target === button ? this.sides : null };
      stage.setPointerCapture(event.pointerId);
    });
    listen("pointermove", (event, stage) => {
      if (!this.grip || !event.buttons || !event.isPrimary) return false;
      const [x, y] = pointOf(event, stage), { start: [fromX, fromY], moved: before } = this.grip;
      const [[left, right], [top, bottom]] = [[x, fromX], [y, fromY]].map((ends) => ends.sort((a, b) => a - b));
      this.wasDragged ||= areLong({ left, top, right, bottom }).some(Boolean);
      if (this.wasDragged) this.hold(stage, before ? moved(before, x - fromX, y - fromY) : { left, top, right, bottom });
      return true;
    });
    listen("pointercancel", () => { // the page scrolls
      if (this.grip && !this.grip.kind) this.place(null, null, this.view, this.photo);
    });
    listen("lostpointercapture", (event, stage) => { // the pointer was released
      const { grip, sides } = this;
      this.grip = null;
      if (!grip || !(this.wasDragged || grip.kind === "cover")) return;
      const isThin = !this.wasDragged || !areLong(sides).every(Boolean);
      if (isThin && !grip.moved) this.hold(stage, rectangleAround(...grip.start));
      this.changed(this.kind, this.sides);
    });
    listen("keydown", (event, stage) => {
      if (event.target !== button || !MOVES[event.key]) return false;
      event.preventDefault();
      this.hold(stage, (event.shiftKey ? resized : moved)(this.sides, ...MOVES[event.key]));
      this.changed(this.kind, this.sides);
      return true;
    });
  }

  // Move the rectangle over the photo, without a patch in it and without light, until the network has seen that.
  hold(stage, sides) {
    if (stage.firstElementChild.src !== this.photo) stage.firstElementChild.src = this.photo;
    if (!("held" in this.button.dataset)) this.player.querySelector('[data-action="photo"]').click();
    this.button.dataset.held = "";
    this.show(this.kind ?? "region", sides);
  }

  // Put a rectangle, or none, into a new player, which shows the part `view` of the photo. `photo` is the address of what
  // it shows, without a patch.
  place(kind, sides, view, photo) {
    Object.assign(this, { view, photo, grip: null });
    this.button.remove();
    delete this.button.dataset.held;
    delete this.player.dataset.rectangle;
    this.show(kind, sides);
  }

  show(kind, sides) {
    Object.assign(this, { kind, sides });
    if (!kind) return;
    this.player.dataset.rectangle = kind;
    this.button.setAttribute("aria-label", `${LABELS[kind]}. Arrow keys move it; with Shift, they change its size.`);
    const { view } = this, across = view.right - view.left, down = view.bottom - view.top;
    const inset = [(sides.top - view.top) / down, (view.right - sides.right) / across, (view.bottom - sides.bottom) / down, (sides.left - view.left) / across];
    this.button.style.inset = inset.map((side) => `${100 * side}%`).join(" ");
    if (!this.button.isConnected) this.player.querySelector(".sat-stage").append(this.button);
  }
}

function moved({ left, top, right, bottom }, x, y) {
  const [across, down] = [[x, left, right], [y, top, bottom]].map(([by, low, high]) => Math.min(Math.max(by, -low), 1 - high));
  return { left: left + across, top: top + down, right: right + across, bottom: bottom + down };
}

function resized({ left, top, right, bottom }, x, y) {
  const [end, base] = [[left, right + x], [top, bottom + y]].map(([low, high]) => Math.min(Math.max(high, low + STEP), 1));
  return { left, top, right: end, bottom: base };
}
