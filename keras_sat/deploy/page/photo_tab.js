// The tab of photos: choose one, read its captions, see where the model looked, give it another sentence.

import { startCamera } from "./camera.js";
import { Problem } from "./captioner.js";
import { confidenceIn } from "./maps.js";
import { readPhoto } from "./read_photo.js";
import { showPlayer } from "./figure.js";
import { tokenise } from "./tokenise.js";

const WORD_TIME = 90; // milliseconds for each word of a caption that appears

export function startPhotoTab(find, view, captioner) {
  const input = find('[data-role="photo"]'), result = find('[data-role="result"]');
  let photo = null; // the one that is shown: { address, width, height, features }
  let last = 0; // the number of the last action, which the page shows

  // Run a slow action. A later one takes its place: then `isCurrent` is false, and this one shows nothing.
  async function attempt(message, action) {
    const mine = ++last, isCurrent = () => mine === last;
    view.set({ state: "busy", message });
    try {
      const end = await action(isCurrent);
      if (isCurrent()) view.set({ state: "done", message: end });
    } catch (error) {
      if (isCurrent()) view.fail(error);
    }
    if (isCurrent()) view.showMessage();
  }

  function tell(message) {
    view.set({ message });
    view.showMessage();
  }

  function look(file) {
    return attempt("Looking at the photo …", async (isCurrent) => {
      let read = null;
      result.inert = true; // it is still that of the photo before
      view.set({ caption: "" });
      try {
        read = await readPhoto(file, captioner.settings.photo_size);
        if (!isCurrent()) return null;
        const features = await captioner.encode(read.pixels);
        const results = await captioner.captions(features);
        if (!isCurrent()) return null;
        if (!results.length) throw new Problem("The network found no caption for this photo.");
        if (photo) URL.revokeObjectURL(photo.address);
        const { address, width, height } = read;
        [photo, read] = [{ address, width, height, features }, null];
        result.hidden = false;
        listAll(results);
        result.inert = false;
        await show(results[0], isCurrent);
        return "Point at a word, or choose it with the keyboard, to see where the model looked for it.";
      } catch (error) {
        if (isCurrent()) result.hidden = true; // it is that of the photo before
        throw error;
      } finally {
        if (read) URL.revokeObjectURL(read.address);
        if (isCurrent()) result.inert = false;
      }
    });
  }

  // Show a result: its player at once, its sentence word by word.
  async function show(found, isCurrent) {
    showPlayer(find('[data-role="player"]'), found, photo);
    const slowly = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (let count = slowly ? 1 : found.words.length; count <= found.words.length; count++) {
      if (!isCurrent()) return;
      view.set({ caption: found.words.slice(0, count).join(" ") });
      if (slowly) await new Promise((resume) => setTimeout(resume, WORD_TIME));
    }
    view.announce(found.words.join(" "));
  }

  function listAll(results) {
    find('[data-role="several"]').replaceChildren(...results.map((found, i) => {
      const item = document.createElement("li"), button = document.createElement("button"), note = document.createElement("small");
      button.type = "button";
      button.textContent = found.words.join(" ") || "(nothing)";
      button.setAttribute("aria-pressed", i === 0);
      const sure = found.confidence === null ? "" : `${confidenceIn(found.confidence)}, `;
      note.textContent = `${sure}log probability ${found.logProb.toFixed(2)}, ${found.words.length} words`;
      button.addEventListener("click", () => attempt("", async (isCurrent) => {
        press(button);
        await show(found, isCurrent);
        return `Log probability of this caption: ${found.logProb.toFixed(2)}.`;
      }));
      item.append(button, note);
      return item;
    }));
  }

  const press = (pressed) => find('[data-role="several"]').querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", button === pressed));

  find('[data-role="say"]').addEventListener("submit", (event) => {
    event.preventDefault();
    const words = tokenise(event.target.elements.sentence.value), most = captioner.settings.max_length - 1;
    if (!words.length) return tell("Type a sentence of at least one word.");
    if (words.length > most) return tell(`The model reads sentences of up to ${most} words; this one has ${words.length}.`);
    attempt("Reading the sentence …", async (isCurrent) => {
      const found = await captioner.attend(photo.features, words);
      if (!isCurrent()) return null;
      press(null);
      await show(found, isCurrent);
      const unknown = [...new Set(words.filter((word) => !captioner.ids.has(word)))];
      return unknown.length ? `The model does not know: ${unknown.join(", ")}.` : `Log probability of this sentence: ${found.logProb.toFixed(2)}.`;
    });
  });

  input.addEventListener("change", () => {
    if (input.files.length) look(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
  input.disabled = false;
  const camera = startCamera(find, look, (message) => view.set({ message }));
  return { look, leave: camera.stop };
}
