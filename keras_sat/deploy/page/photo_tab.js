// The tab of photos: choose one, read its captions, see where the model looked, give it another sentence.

import { startCamera } from "./camera.js";
import { element, showPlayer } from "./figure.js";
import { confidenceIn } from "./maps.js";
import { readPhoto } from "./read_photo.js";
import { tokenise } from "./tokenise.js";

const WORD_TIME = 90; // milliseconds for each word of a caption that appears

// Start the tab; return a function that captions a file.
export function startPhotoTab(find, view, captioner) {
  const input = find('[data-role="photo"]'), result = find('[data-role="result"]'), list = find('[data-role="several"]');
  let photo = null; // the one that is shown: { address, width, height, features }
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

  const look = (file) => attempt("Looking at the photo …", async (isCurrent) => {
    result.hidden = true; // it belongs to the previous photo
    view.set({ caption: "" });
    const { pixels, width, height } = await readPhoto(file, captioner.settings.photo_size);
    if (!isCurrent()) return null;
    const features = await captioner.encode(pixels);
    const results = await captioner.captions(features);
    if (!isCurrent()) return null;
    if (photo) URL.revokeObjectURL(photo.address);
    photo = { address: URL.createObjectURL(file), width, height, features };
    list.replaceChildren(...results.map(itemOf));
    press(list.querySelector("button"));
    result.hidden = false;
    await show(results[0], isCurrent);
    return "Point at a word, or choose it with the keyboard, to see where the model looked for it.";
  });

  // Show a result: its player at once, its sentence word by word.
  async function show(found, isCurrent) {
    showPlayer(find('[data-role="player"]'), found, photo);
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (let count = 0; count <= found.words.length && isCurrent(); count++) {
      view.set({ caption: found.words.slice(0, count).join(" ") });
      if (!isStill) await new Promise((resume) => setTimeout(resume, WORD_TIME));
    }
    if (isCurrent()) view.announce(found.words.join(" "));
  }

  function itemOf(found) {
    const button = element("button", { type: "button", textContent: found.words.join(" ") || "(nothing)" });
    const sure = found.confidence === null ? "" : `${confidenceIn(found.confidence)}, `;
    const note = `${sure}log probability ${found.logProb.toFixed(2)}, ${found.words.length} words`;
    button.addEventListener("click", () => attempt("", async (isCurrent) => {
      press(button);
      await show(found, isCurrent);
      return `Log probability of this caption: ${found.logProb.toFixed(2)}.`;
    }));
    return element("li", {}, button, element("small", { textContent: note }));
  }

  function press(pressed) {
    for (const button of list.querySelectorAll("button")) button.setAttribute("aria-pressed", button === pressed);
  }

  find('[data-role="say"]').addEventListener("submit", (event) => {
    event.preventDefault();
    const words = tokenise(event.target.elements.sentence.value), most = captioner.settings.max_length - 1;
    if (!words.length || words.length > most) {
      return view.set({ message: `The model reads sentences of 1 to ${most} words; this one has ${words.length}.` });
    }
    attempt("Reading the sentence …", async (isCurrent) => {
      const found = await captioner.attend(photo.features, words);
      if (!isCurrent()) return null;
      press(null);
      await show(found, isCurrent);
      const unknown = [...new Set(words.filter((word) => !captioner.ids.has(word)))];
      if (unknown.length) return `The model does not know: ${unknown.join(", ")}.`;
      return `Log probability of this sentence: ${found.logProb.toFixed(2)}.`;
    });
  });

  input.addEventListener("change", () => {
    if (input.files.length) look(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
  input.disabled = false;
  startCamera(find, look, (message) => view.set({ message }));
  return look;
}
