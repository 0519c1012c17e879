// The tab of photos: choose one, read its captions, see where the model looked, cover or describe a part, say a sentence.

import { startCamera } from "./camera.js";
import { fetchPart } from "./captioner.js";
import { savePicture } from "./card.js";
import { coveredCanvas, coveredPixels, covers, keptIn } from "./cover.js";
import { element, showPlayer } from "./figure.js";
import { memory, placeless } from "./player.js";
import { readPhoto } from "./read_photo.js";
import { cropAround, Rectangle, rectangleAround, WHOLE } from "./rectangle.js";
import { tokenise } from "./tokenise.js";

const WORD_TIME = 90; // milliseconds from one word of a caption to the next
const PAUSE = 100; // milliseconds without a change of the rectangle before the network looks: an arrow key repeats
const HINT = matchMedia("(hover: hover)").matches
  ? "Point at a word: where did the network look? Drag over a part of the photo: what is there?"
  : "Tap a word: where did the network look?";

// Start the tab; return a function that captions a file.
export function startPhotoTab(find, view, captioner, hasExamples) {
  const input = find('[data-role="photo"]'), result = find('[data-role="result"]'), list = find('[data-role="several"]');
  const player = find('[data-role="player"]'), change = find('[data-role="change"]'), size = captioner.settings.photo_size;
  const examples = [...find('[data-role="examples"]').querySelectorAll("button")];
  const looks = { cover: coverPart, region: describePart }, rectangle = new Rectangle(player, (kind, sides) => looks[kind](sides));
  let photo = null; // { file, pixels, canvas, width, height, whole }; `whole` is what `captioned` returned for it
  let shown = null; // what `captioned` returned for the photo, for the photo with a patch, or for a crop
  let found = null, picked = []; // the result in the player, and the words that were chosen in it, last first
  let last = 0; // the number of the latest action, whose result the page shows

  // Run a slow action. When a later action replaces it, `isCurrent` becomes false, and this one shows nothing.
  async function attempt(message, action) {
    const mine = ++last, isCurrent = () => mine === last;
    view.set({ state: "busy", message });
    try {
      const end = await action(isCurrent);
      if (isCurrent()) view.set({ state: "done", message: end });
    } catch (error) {
      if (isCurrent()) view.fail(error);
    }
  }

  // Return what the network sees and writes: { kind, sides, view, address, width, height, features, results }, see
  // Rectangle. `read` is what `readPhoto` returned.
  async function captioned({ pixels, canvas, width, height }, kind = null, sides = null, view = WHOLE) {
    const features = await captioner.encode(pixels), results = await captioner.captions(features);
    const format = Math.max(canvas.width, canvas.height) > 128 ? "image/jpeg" : "image/png"; // small ones are drawings
    return { kind, sides, view, address: canvas.toDataURL(format, 0.9), width, height, features, results };
  }

  // Caption a file (or the promise of one), which may be an example.
  const look = (file, example = null) => attempt("Looking at the photo …", async (isCurrent) => {
    press(examples, example);
    result.dataset.old = ""; // it belongs to the previous photo
    try {
      const chosen = await file, read = await readPhoto(chosen, size);
      if (!isCurrent()) return null;
      const whole = await captioned(read);
      if (!isCurrent()) return null;
      photo = { file: chosen, ...read, whole };
      result.hidden = false;
      delete result.dataset.old;
      display(whole);
    } catch (error) {
      if (isCurrent()) result.hidden = true;
      throw error;
    }
    find('[data-role="choose"]').textContent = "Another photo";
    return example?.dataset.note ?? HINT;
  });

  // Show what `captioned` returned.
  function display(captions) {
    shown = captions;
    const { kind, sides, results: [now] } = captions, [before] = photo.whole.results;
    find('[data-action="cover"]').setAttribute("aria-pressed", kind === "cover");
    find('[data-action="region"]').textContent = kind === "region" ? "Whole photo" : "Describe a part";
    list.replaceChildren(...captions.results.map(itemOf));
    press(list.querySelectorAll("button"), list.querySelector("button"));
    change.hidden = kind !== "cover";
    if (kind !== "cover") return show(now);
    const isKept = keptIn(before.words, now.words);
    const marked = before.words.map((word, i) => isKept[i] ? word : element("del", { textContent: word }));
    const label = now.words.join(" ") === before.words.join(" ") ? "As without the patch: " : "Without the patch: ";
    change.replaceChildren(label, ...marked.flatMap((word) => [word, " "]));
    const isHidden = (i) => covers(sides, before.maps[i], before.rows, before.columns) >= 0.5;
    const stay = new Set(before.words.filter((_, i) => isKept[i] && isNamed(before, i) && isHidden(i)));
    if (stay.size) change.append(element("br"), `These stay although the patch covers where the network looked: ${[...stay].join(", ")}.`);
    show(now, keptIn(now.words, before.words));
    view.announce(`${now.words.join(" ")}. ${change.textContent}`);
  }

  const isNamed = ({ words, fromPhoto }, i) => !placeless.includes(words[i]) && !(fromPhoto?.[i] < memory);

  // Show a result: its words appear one after the other. Words that a patch has changed are marked.
  function show(one, isKept = []) {
    const focused = document.activeElement, hadFocus = player.contains(focused);
    [found, picked] = [one, []];
    showPlayer(player, found, shown);
    rectangle.place(shown.kind, shown.sides, shown.view, shown.kind === "cover" ? photo.whole.address : shown.address);
    const again = focused.isConnected ? focused : player.querySelector(focused.matches(".sat-stage") ? ".sat-stage" : "button");
    if (hadFocus) again.focus({ preventScroll: true });
    player.querySelectorAll("button[data-step]").forEach((button, i) => {
      button.style.animationDelay = `${i * WORD_TIME}ms`;
      button.toggleAttribute("data-changed", isKept[i] === false);
    });
    view.set({ caption: found.words.join(" ") });
    view.announce(shown.kind === "region" ? `This part: ${view.caption}` : view.caption);
  }

  function itemOf(one) {
    const button = element("button", { type: "button", textContent: one.words.join(" ") || "(nothing)" });
    const logProb = `log probability ${one.logProb.toFixed(2)}`;
    const note = one.confidence === null ? logProb : `confidence ${Math.round(100 * one.confidence)} %`;
    button.addEventListener("click", () => attempt("", async () => {
      press(list.querySelectorAll("button"), button);
      show(one);
      return HINT;
    }));
    return element("li", {}, button, element("small", { textContent: note, title: logProb }));
  }

  const press = (buttons, pressed) => buttons.forEach((button) => button.setAttribute("aria-pressed", button === pressed));

  // === A part is covered, or described ===

  const lookAt = (message, captionsOf, end) => attempt(message, async (isCurrent) => {
    await new Promise((resume) => setTimeout(resume, PAUSE));
    const captions = isCurrent() && await captionsOf();
    if (isCurrent()) display(captions);
    return end;
  });

  function coverPart(sides) {
    const covered = () => ({ ...photo, pixels: coveredPixels(photo.pixels, size, sides), canvas: coveredCanvas(photo.canvas, sides) });
    const captionsOf = () => captioned(covered(), "cover", sides);
    const end = "Drag over another part, or move the patch with the arrow keys.";
    return lookAt("Looking at the photo without this part …", captionsOf, end);
  }

  function describePart(sides) {
    const crop = cropAround(sides);
    const captionsOf = async () => captioned(await readPhoto(photo.file, size, crop), "region", sides, crop);
    const end = "This part, with a little around it. Drag the frame to move it. Escape shows the whole photo again.";
    return lookAt("Looking at this part …", captionsOf, end);
  }

  const showWhole = () => attempt("", async () => { display(photo.whole); return HINT; });
  result.addEventListener("keydown", (event) => event.key === "Escape" && rectangle.kind && showWhole(), true);

  for (const name in looks) find(`[data-action="${name}"]`).addEventListener("click", () => {
    if (rectangle.kind === name) return showWhole();
    // The first rectangle lies on the light of the chosen word, or of the first one that names something.
    const step = Number(player.firstElementChild.dataset.step), { maps, rows, columns } = found;
    const map = maps[step < 0 ? Math.max(found.words.findIndex((_, i) => isNamed(found, i)), 0) : step];
    const peak = map ? map.indexOf(Math.max(...map)) : 0;
    looks[name](rectangleAround(((peak % columns) + 0.5) / columns, (Math.floor(peak / columns) + 0.5) / rows));
  });

  // === Save, say, choose ===

  player.addEventListener("click", (event) => {
    const { step } = event.target.closest("button")?.dataset ?? {};
    if (event.isTrusted && step) picked = [Number(step), ...picked.filter((other) => other !== Number(step))];
  });
  find('[data-action="save"]').addEventListener("click", () => savePicture(player, found, picked, isNamed));

  find('[data-role="say"]').addEventListener("submit", (event) => {
    event.preventDefault();
    const words = tokenise(event.target.elements.sentence.value), most = captioner.settings.max_length - 1;
    if (!words.length || words.length > most) {
      return view.set({ message: `The model reads sentences of 1 to ${most} words; this one has ${words.length}.` });
    }
    attempt("Reading the sentence …", async (isCurrent) => {
      const read = await captioner.attend(shown.features, words);
      if (!isCurrent()) return null;
      press(list.querySelectorAll("button"), null);
      show(read);
      const unknown = [...new Set(words.filter((word) => !captioner.ids.has(word)))];
      if (unknown.length) return `The model does not know: ${unknown.join(", ")}.`;
      return `Log probability of this sentence: ${read.logProb.toFixed(2)}.`;
    });
  });

  input.addEventListener("change", () => {
    if (input.files.length) look(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
  input.disabled = false;
  startCamera(find, look, (message) => view.set({ message }));
  for (const button of examples) {
    const give = () => look(fetchPart(`examples/${button.dataset.example}.jpg`).then((response) => response.blob()), button);
    button.addEventListener("click", give);
    if (hasExamples && button === examples[0]) give();
  }
  return look;
}
