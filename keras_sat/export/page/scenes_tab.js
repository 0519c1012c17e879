// The tab of synthetic scenes, a playground: change the scene and read the captions with and without attention.

import { covers } from "./cover.js";
import { element, LivePlayer } from "./figure.js";
import { COLOURS, SHAPES, SIDE, SIZES } from "./looks.js";
import { Scene } from "./scene.js";

const MOST_SHAPES = 3;
// Only the captioner without attention mixes this scene up.
const FIRST = [
  { shape: "circle", colour: "red", size: "big", left: 9, top: 21 },
  { shape: "square", colour: "green", size: "big", left: 38, top: 23 },
];
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const LOOKS = { shape: SHAPES, colour: Object.keys(COLOURS), size: Object.keys(SIZES) };
const isNaming = (word) => LOOKS.shape.includes(word) || LOOKS.colour.includes(word);

// Start the tab. `captioners` is a list of [label, Captioner]; `count` is called when all have captioned the scene.
export function startScenesTab(find, view, captioners, count) {
  const canvas = find('[data-role="scene"]'), help = find('[data-role="scene-help"]');
  const scene = new Scene(), brush = canvas.getContext("2d");
  canvas.width = canvas.height = 2 * scene.canvas.width;
  let chosen = 0, isWanted = false, isRunning = false, dragged = null, said = [];

  const shown = captioners.map(([label, captioner]) => {
    const place = element("section", {}, element("h2", { textContent: label }));
    find('[data-role="compared"]').append(place);
    return { label, captioner, player: new LivePlayer(place, scene.canvas, label) };
  });

  // Draw the scene now; the captioners follow as fast as they can.
  function changed() {
    const shape = scene.shapes[chosen], scale = canvas.width / SIDE, extent = SIZES[shape.size] + 2;
    scene.draw();
    brush.drawImage(scene.canvas, 0, 0, canvas.width, canvas.height);
    brush.setLineDash([6, 5]);
    Object.assign(brush, { lineWidth: 2, strokeStyle: "#1b1b1f" });
    brush.strokeRect((shape.left - 1) * scale, (shape.top - 1) * scale, extent * scale, extent * scale);
    showTools(shape);
    isWanted = true;
    if (!isRunning) caption();
  }

  async function caption() {
    isRunning = true;
    view.set({ state: "busy" });
    try {
      while (isWanted) {
        isWanted = false;
        const pixels = scene.pixels();
        const results = await Promise.all(shown.map(({ captioner }) => captioner.caption(pixels)));
        results.forEach((result, i) => shown[i].player.show(result, brightestWord(result)));
        view.set({ caption: results[0].words.join(" ") });
        view.announce(spokenOf(results.map(({ words }) => words.join(" "))));
        count();
        if (isWanted) await new Promise(requestAnimationFrame);
      }
      view.set({ state: "done", message: "" });
    } catch (error) {
      view.fail(error);
    }
    isRunning = false;
  }

  // Return the index of the word of colour or shape with the most light on a shape, which is shown first.
  function brightestWord({ words, maps, rows, columns }) {
    const boxes = scene.shapes.map(({ size, left, top }) => ({ left, top, right: left + SIZES[size], bottom: top + SIZES[size] }));
    const onShapes = (map) => boxes.map((box) => covers(box, map, rows, columns, SIDE));
    const light = words.map((word, i) => isNaming(word) ? Math.max(...onShapes(maps[i])) : 0);
    return light.indexOf(Math.max(...light));
  }

  // Return what a screen reader is told: the place of the shape, and those sentences that have changed.
  function spokenOf(sentences) {
    const { left, top } = scene.shapes[chosen];
    const news = sentences.map((sentence, i) => sentence === said[i] ? "" : ` ${shown[i].label}: ${sentence}.`);
    said = sentences;
    return `${left} from the left, ${top} from the top.${news.join("")}`;
  }

  // === Tools ===

  const buttons = Object.entries(LOOKS).flatMap(([look, values]) => {
    const ofLook = values.map((value) => element("button", { type: "button", textContent: value }));
    ofLook.forEach((button, i) => {
      button.dataset[look] = values[i];
      button.addEventListener("click", () => {
        const shape = scene.shapes[chosen];
        shape[look] = values[i];
        scene.place(shape, shape.left, shape.top);
        changed();
      });
      if (look !== "colour") return;
      button.className = "sat-swatch";
      button.style.setProperty("--swatch", `rgb(${COLOURS[values[i]].join(",")})`);
    });
    find('[data-role="looks"]').append(element("fieldset", {}, element("legend", { textContent: look }), ...ofLook));
    return ofLook;
  });

  function showTools(shape) {
    for (const button of buttons) {
      const [[look, value]] = Object.entries(button.dataset);
      button.setAttribute("aria-pressed", shape[look] === value);
    }
    // A disabled button would lose the focus.
    find('[data-action="remove"]').setAttribute("aria-disabled", scene.shapes.length < 2);
    find('[data-action="add"]').setAttribute("aria-disabled", scene.shapes.length >= MOST_SHAPES);
    const untrained = [scene.shapes.length > 2 && "more than two shapes", scene.overlaps() && "shapes that overlap"].filter(Boolean);
    const many = untrained.length ? ` The networks were never trained on ${untrained.join(" or ")}: expect mistakes.` : "";
    const text = `Chosen: the ${shape.size} ${shape.colour} ${shape.shape}, ${chosen + 1} of ${scene.shapes.length}. Arrow keys move it; Page Down chooses the next.${many}`;
    if (help.textContent !== text) help.textContent = text;
  }

  const actions = {
    add: () => scene.add(),
    remove: () => scene.shapes.splice(chosen, 1),
    another() {
      scene.shapes = [];
      scene.add();
      scene.add();
    },
  };
  for (const [name, action] of Object.entries(actions)) {
    find(`[data-action="${name}"]`).addEventListener("click", (event) => {
      if (event.currentTarget.getAttribute("aria-disabled") === "true") return;
      action();
      chosen = scene.shapes.length - 1;
      changed();
    });
  }

  // === Pointer and keyboard ===

  const placeOf = (event) => [event.offsetX, event.offsetY].map((x) => (x / canvas.clientWidth) * SIDE);

  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = placeOf(event), number = scene.at(x, y);
    dragged = null;
    if (number < 0 || event.button || !event.isPrimary) return;
    chosen = number;
    dragged = [x - scene.shapes[number].left, y - scene.shapes[number].top];
    canvas.setPointerCapture(event.pointerId);
    changed();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!event.buttons) dragged = null; // the button was released, perhaps in a menu
    if (!dragged || !event.isPrimary) return;
    const [x, y] = placeOf(event);
    scene.place(scene.shapes[chosen], x - dragged[0], y - dragged[1]);
    changed();
  });
  canvas.addEventListener("keydown", (event) => {
    const shape = scene.shapes[chosen], move = MOVES[event.key];
    if (move) scene.place(shape, shape.left + move[0], shape.top + move[1]);
    else if (event.key === "PageDown") chosen = (chosen + 1) % scene.shapes.length;
    else return;
    event.preventDefault();
    changed();
  });

  scene.shapes = FIRST;
  changed();
}
