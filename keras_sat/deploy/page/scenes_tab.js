// The tab of drawn scenes, a playground: change the scene and read the captions with and without attention.

import { LivePlayer } from "./figure.js";
import { COLOURS, SHAPES, SIDE, SIZES } from "./looks.js";
import { randomShape, Scene } from "./scene.js";

const MOST_SHAPES = 3;
// Only the captioner without attention mixes this scene up.
const FIRST = [{ shape: "circle", colour: "red", size: "big", left: 9, top: 21 }, { shape: "square", colour: "green", size: "big", left: 38, top: 23 }];
const MESSAGE = "Point at a word to see where the model looked for it.";
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Start the tab. `captioners` is a list of [label, Captioner]; `count` is called after each caption of all of them.
export function startScenesTab(find, view, captioners, count) {
  const canvas = find('[data-role="scene"]'), help = find('[data-role="scene-help"]');
  const scene = new Scene(), brush = canvas.getContext("2d");
  canvas.width = canvas.height = 2 * scene.canvas.width;
  let chosen = 0, wanted = false, running = false, dragged = null;

  const sentences = captioners.map(([label]) => {
    const name = document.createElement("dt"), sentence = document.createElement("dd");
    name.textContent = label;
    find('[data-role="sentences"]').append(name, sentence);
    return sentence;
  });
  const players = captioners.map(([label]) => {
    const place = document.createElement("section"), title = document.createElement("h2");
    title.textContent = label;
    place.append(title);
    find('[data-role="compared"]').append(place);
    return new LivePlayer(place, scene.canvas, label, (word) => word in COLOURS);
  });

  // Draw the scene now; the captioners follow as fast as they can.
  function changed() {
    scene.draw();
    brush.drawImage(scene.canvas, 0, 0, canvas.width, canvas.height);
    const shape = scene.shapes[chosen];
    if (shape) {
      const scale = canvas.width / SIDE, extent = SIZES[shape.size] + 2;
      brush.setLineDash([6, 5]);
      brush.lineWidth = 2;
      brush.strokeStyle = "#1b1b1f";
      brush.strokeRect((shape.left - 1) * scale, (shape.top - 1) * scale, extent * scale, extent * scale);
    }
    showTools(shape);
    wanted = true;
    if (!running) follow();
  }

  async function follow() {
    running = true;
    view.set({ state: "busy" });
    try {
      while (wanted) {
        wanted = false;
        const pixels = scene.pixels();
        const results = await Promise.all(captioners.map(([, captioner]) => captioner.caption(pixels)));
        results.forEach((result, i) => {
          players[i].show(result);
          sentences[i].textContent = result.words.join(" ");
        });
        view.set({ caption: results[0].words.join(" ") });
        view.announce(`${help.textContent} ${view.caption}`);
        count();
        if (wanted) await new Promise(requestAnimationFrame);
      }
      view.set({ state: "done", message: MESSAGE });
    } catch (error) {
      view.fail(error);
    }
    running = false;
  }

  // === Tools ===

  const groups = { shape: ["shapes", SHAPES], colour: ["colours", Object.keys(COLOURS)], size: ["sizes", Object.keys(SIZES)] };
  const buttons = Object.entries(groups).flatMap(([what, [role, values]]) => values.map((value) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: value }).dataset[what] = value;
    if (what === "colour") {
      button.className = "sat-swatch";
      button.style.setProperty("--swatch", `rgb(${COLOURS[value].join(",")})`);
    }
    button.addEventListener("click", () => {
      const shape = scene.shapes[chosen];
      if (!shape) return;
      shape[what] = value;
      scene.place(shape, shape.left, shape.top);
      changed();
    });
    find(`[data-role="${role}"]`).append(button);
    return [button, what, value];
  }));

  function showTools(shape) {
    for (const [button, what, value] of buttons) {
      button.setAttribute("aria-pressed", shape?.[what] === value);
      button.disabled = !shape;
    }
    find('[data-action="remove"]').disabled = scene.shapes.length < 2;
    find('[data-action="add"]').disabled = scene.shapes.length >= MOST_SHAPES;
    const many = scene.shapes.length > 2 ? " The networks were trained on scenes of one and two shapes." : "";
    const text = shape ? `Chosen: the ${shape.size} ${shape.colour} ${shape.shape}, ${chosen + 1} of ${scene.shapes.length}, ${shape.left} from the left and ${shape.top} from the top. Arrow keys move it; Page Down chooses the next.${many}` : "";
    if (help.textContent !== text) help.textContent = text;
  }

  find('[data-action="add"]').addEventListener("click", () => {
    scene.shapes.push(randomShape(scene, scene.shapes));
    chosen = scene.shapes.length - 1;
    changed();
  });
  find('[data-action="remove"]').addEventListener("click", () => {
    scene.shapes.splice(chosen, 1);
    chosen = Math.min(chosen, scene.shapes.length - 1);
    changed();
  });
  find('[data-action="another"]').addEventListener("click", () => {
    const first = randomShape(scene, []);
    scene.shapes = [first, randomShape(scene, [first])];
    chosen = 0;
    changed();
  });

  // === Pointer and keyboard ===

  function placeOf(event) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    return [((event.clientX - left) / width) * SIDE, ((event.clientY - top) / height) * SIDE];
  }

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
    const shape = scene.shapes[chosen], move = MOVES[event.key], count = scene.shapes.length;
    const far = event.shiftKey ? 5 : 1;
    if (move && shape) scene.place(shape, shape.left + far * move[0], shape.top + far * move[1]);
    else if (event.key === "PageDown") chosen = (chosen + 1) % count;
    else if (event.key === "PageUp") chosen = (chosen + count - 1) % count;
    else if (event.key === "Delete" && count > 1) return find('[data-action="remove"]').click();
    else return;
    event.preventDefault();
    changed();
  });

  scene.shapes = FIRST.map((shape) => ({ ...shape }));
  changed();
  return {};
}
