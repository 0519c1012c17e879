// The page: its tabs, their messages, and the loading of captioners.

import { fetchPart, loadCaptioner, Problem, sentenceOf } from "./captioner.js";
import { startPhotoTab } from "./photo_tab.js";
import { startScenesTab } from "./scenes_tab.js";

const PAUSE = 500; // milliseconds without a change before a screen reader is told
const TABS = ["photo", "scenes"];
const root = document.querySelector(".sat-page");
const find = (selector) => root.querySelector(selector);
let settings = null, shown = "photo", pause = null;

// The state and texts of a tab, shown while the tab is chosen.
class View {
  caption = "";

  set(changes) {
    Object.assign(this, changes);
    if (views[shown] !== this) return;
    const message = find('[data-role="message"]');
    if (message.textContent !== this.message) message.textContent = this.message; // else it would be read out again
    find('[data-role="caption"]').textContent = this.caption;
    find("progress").hidden = this.state !== "loading";
    root.dataset.state = this.state;
  }

  fail(error) {
    console.warn(error);
    this.set({ state: "error", message: sentenceOf(error) });
  }

  // Tell a screen reader, once nothing has changed for a moment.
  announce(text) {
    if (views[shown] !== this) return;
    clearTimeout(pause);
    pause = setTimeout(() => { find('[data-role="spoken"]').textContent = text; }, PAUSE);
  }
}

const views = { photo: new View(), scenes: new View() };

// Say how much is downloaded, as far as the server tells it.
async function sayLoading(view, name) {
  const files = name === "photo" ? ["runtime/litert_wasm_internal.wasm", `${settings.photo.folder}/model.tflite.gz`] : [];
  view.set({ state: "loading", message: "Loading …" });
  const answers = await Promise.all(files.map((file) => fetch(file, { method: "HEAD" }).catch(() => null)));
  const bytes = answers.reduce((sum, answer) => sum + Number(answer?.ok && answer.headers.get("content-length")), 0);
  if (bytes && view.state === "loading") view.set({ message: `Loading ${Math.round(bytes / 1e6)} MB …` });
}

// Functions that load and start the tabs. The one for photos returns a function that captions a file.
const start = {
  photo: async (view) => {
    const captioner = await loadCaptioner(settings.photo.folder);
    view.set({ state: "ready", message: "Choose a photo." });
    return startPhotoTab(find, view, captioner, settings.examples);
  },
  scenes: async (view) => {
    const captioners = [];
    for (const { folder, label } of settings.scenes) captioners.push([label, await loadCaptioner(folder)]);
    startScenesTab(find, view, captioners, () => { root.dataset.scenes = Number(root.dataset.scenes ?? 0) + 1; });
  },
};
const started = {};

// Show the tab in the address. A tab starts when it is first shown, and keeps the files that it has loaded.
function show() {
  const name = shown = location.hash === "#scenes" && settings.scenes.length ? "scenes" : "photo";
  for (const tab of TABS) {
    find(`#tab-${tab}`).setAttribute("aria-selected", tab === name);
    find(`#tab-${tab}`).tabIndex = tab === name ? 0 : -1;
    find(`#panel-${tab}`).hidden = tab !== name;
  }
  find('[data-role="caption"]').classList.toggle("sat-hidden", name === "photo"); // there, its words are the buttons
  const view = views[name];
  if (started[name]) view.set({});
  else sayLoading(view, name);
  started[name] ??= start[name](view).catch((error) => {
    started[name] = null; // choosing the tab again tries again
    view.fail(error);
  });
  return started[name];
}

async function give(file) {
  if (!file) return;
  history.replaceState(null, "", location.pathname + location.search);
  (await show())?.(file);
}

function listen() {
  for (const name of TABS) {
    const tab = find(`#tab-${name}`), other = find(`#tab-${TABS[1 - TABS.indexOf(name)]}`);
    tab.addEventListener("click", () => {
      location.hash = name === "photo" ? "" : name;
      show();
    });
    tab.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      other.focus();
      other.click();
    });
  }
  addEventListener("hashchange", show);
  for (const kind of ["dragover", "drop"]) {
    addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault(); // else the browser would leave the page for the file
      if (kind === "drop") give(event.dataTransfer.files[0]);
    });
  }
  addEventListener("paste", (event) => give(event.clipboardData?.files[0]));
}

try {
  if (!self.DecompressionStream) throw new Problem("This browser is too old for the page, which needs one from 2023 or later.");
  settings = await (await fetchPart("page.json")).json();
  find('[role="tablist"]').hidden = !settings.scenes.length;
  find('[data-role="name"]').textContent = settings.photo.name;
  for (const name of ["examples", "credits"]) find(`[data-role="${name}"]`).hidden = !settings.examples;
  find('[data-role="no-index"]').hidden = !settings.photo.has_index;
  listen();
  show();
} catch (error) {
  views.photo.fail(error);
}
