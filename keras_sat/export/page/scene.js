// Drawn scenes as `data_utils.draw_scenes` draws them: shapes with a faint shadow on a soft background.

import { element } from "./figure.js";
import { COLOURS, SHAPES, SIDE, SIZES } from "./looks.js"; // made from the constants in data_utils/scenes.py
import { reduced } from "./stretch.js";

const SCALE = 4; // drawn this many times larger, and averaged for the network
const CORNERS = {
  triangle: [[50, 4.2], [100, 95.8], [0, 95.8]],
  star: [[50, 0], [62, 36], [100, 38], [70, 61], [81, 98], [50, 76], [19, 98], [30, 61], [0, 38], [38, 36]],
};

// Return the outline of a shape that fills a square of `extent` pixels at (left, top).
function outline(shape, left, top, extent) {
  const path = new Path2D(), end = extent - 0.25;
  if (shape === "circle") path.arc(left + extent / 2, top + extent / 2, extent / 2, 0, 2 * Math.PI);
  else if (shape === "square") path.rect(left + end / 16, top + end / 16, extent - end / 8, extent - end / 8);
  else for (const [x, y] of CORNERS[shape]) path.lineTo(left + (x / 100) * end, top + (y / 100) * end);
  return path;
}

// A scene: a list of shapes { shape, colour, size, left, top }, in pixels of the network's picture; and a canvas.
export class Scene {
  constructor() {
    this.canvas = element("canvas", { width: SIDE * SCALE, height: SIDE * SCALE });
    this.brush = this.canvas.getContext("2d", { willReadFrequently: true });
    this.shapes = [];
  }

  draw() {
    const { brush } = this;
    brush.setTransform(SCALE, 0, 0, SCALE, 0, 0);
    brush.fillStyle = "rgb(236, 238, 240)";
    brush.fillRect(0, 0, SIDE, SIDE);
    for (const { shape, colour, size, left, top } of this.shapes) {
      brush.fillStyle = "rgba(150, 150, 160, .4)";
      brush.fill(outline(shape, left + 1, top + 1, SIZES[size]));
      brush.fillStyle = `rgb(${COLOURS[colour].join(",")})`;
      brush.fill(outline(shape, left, top, SIZES[size]));
    }
  }

  // Return the input of the network: RGB pixels (64 * 64 * 3).
  pixels() {
    const width = SIDE * SCALE;
    const rgba = reduced(this.brush.getImageData(0, 0, width, width).data, width, width, SCALE);
    return Uint8Array.from(rgba.filter((_, i) => i % 4 < 3));
  }

  // Return the index of the topmost shape at a point, or -1.
  at(x, y) {
    return this.shapes.findLastIndex(({ size, left, top }) => x >= left && y >= top && x < left + SIZES[size] && y < top + SIZES[size]);
  }

  // Return whether any two shapes' squares overlap.
  overlaps() {
    const isOver = (a, b) => ["left", "top"].every((side) => a[side] < b[side] + SIZES[b.size] && b[side] < a[side] + SIZES[a.size]);
    return this.shapes.some((a, i) => this.shapes.slice(i + 1).some((b) => isOver(a, b)));
  }

  // Move a shape, inside the picture.
  place(shape, left, top) {
    const most = SIDE - SIZES[shape.size] - 2;
    [shape.left, shape.top] = [left, top].map((x) => Math.min(Math.max(Math.round(x), 2), most));
  }

  // Add a random shape, away from the others if there is space.
  add() {
    const random = (list) => list[Math.floor(Math.random() * list.length)];
    for (let trial = 0; ; trial++) {
      const shape = { shape: random(SHAPES), colour: random(Object.keys(COLOURS)), size: random(Object.keys(SIZES)) };
      this.place(shape, Math.random() * SIDE, Math.random() * SIDE);
      const isNear = (other) => Math.abs(other.left - shape.left) < 26 && Math.abs(other.top - shape.top) < 26;
      if (trial > 200 || !this.shapes.some(isNear)) return this.shapes.push(shape);
    }
  }
}
