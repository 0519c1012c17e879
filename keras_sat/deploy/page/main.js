// The page: its tabs, their messages, and the loading of captioners.

import { fetchPart, loadCaptioner, sentenceOf } from "./captioner.js";
import { startPhotoTab } from "./photo_tab.js";
import { startScenesTab } from "./scenes_tab.js";

const PAUSE = 500; // milliseconds without a change before a screen reader is told
const root = document.querySelector(".sat-page");
const find = (selector) => root.querySelector(selector);
const tabs = { photo: find("#tab-photo"), scenes: find("#tab-scenes") };
const progress = find('[data-role="progress"]');
let settings = null, shown = "photo", pause = null;

// The state and texts of a tab, shown while the tab is chosen.
class View {
  state = "loading";
  message = "Loading the network …";
  caption = "";
  share = 1; // the fraction that is loaded; null where it is unknown

  set(changes) {
    Object.assign(this, changes);
    if (views[shown] === this) this.render();
  }

  fail(error) {
    console.warn(error);
    this.set({ state: "error", message: sentenceOf(error), share: 1 });
  }

  // On a phone the message may be far up.
  showMessage() {
    if (views[shown] === this) find('[data-role="message"]').scrollIntoView({ block: "nearest" });
  }

  // Tell a screen reader, once nothing has changed for a moment.
  announce(text) {
    if (views[shown] !== this) return;
    clearTimeout(pause);
    pause = setTimeout(() => { find('[data-role="spoken"]').textContent = text; }, PAUSE);
  }

  render() {
    const message = find('[data-role="message"]');
    if (message.textContent !== this.message) message.textContent = this.message; // else it would be read out again
    find('[data-role="caption"]').textContent = this.caption;
    progress.hidden = this.share === 1;
    if (this.share === null) progress.removeAttribute("value");
    else progress.value = this.share;
    root.dataset.state = this.state;
  }
}

const views = { photo: new View(), scenes: new View() };

// Each tab is started when it is first shown, and keeps what it has loaded.
const start = {
  photo: async (view) => {
    const captioner = await loadCaptioner(settings.photo.folder, (share) => view.set({ share }));
    const tab = startPhotoTab(find, view, captioner);
    view.set({ state: "ready", message: `The captioner ${settings.photo.name} is ready. Choose a photo.` });
    return tab;
  },
  scenes: async (view) => {
    const captioners = [];
    for (const { folder, label } of settings.scenes) captioners.push([label, await loadCaptioner(folder, (share) => view.set({ share }))]);
    return startScenesTab(find, view, captioners, () => { root.dataset.scenes = Number(root.dataset.scenes ?? 0) + 1; });
  },
};
const started = {};

async function show(name) {
  if (name !== shown) started[shown]?.then((tab) => tab.leave?.(), () => {});
  shown = name;
  for (const [other, tab] of Object.entries(tabs)) {
    tab.setAttribute("aria-selected", other === name);
    tab.tabIndex = other === name ? 0 : -1;
    find(`#panel-${other}`).hidden = other !== name;
  }
  const view = views[name];
  view.render();
  if (started[name]) return;
  try {
    await (started[name] = start[name](view));
    view.set({ share: 1 });
  } catch (error) {
    delete started[name]; // choosing the tab again tries again
    view.fail(error);
  }
}

const named = () => (location.hash === "#scenes" && settings?.scenes.length ? "scenes" : "photo");

function listen() {
  for (const [name, tab] of Object.entries(tabs)) {
    tab.addEventListener("click", () => {
      const hash = name === "photo" ? "" : `#${name}`;
      if (location.hash !== hash) history.pushState(null, "", hash || location.pathname + location.search);
      show(named());
    });
    tab.addEventListener("keydown", (event) => {
      const other = tabs[name === "photo" ? "scenes" : "photo"];
      if (other.hidden || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      other.focus();
      other.click();
    });
  }
  for (const kind of ["hashchange", "popstate"]) addEventListener(kind, () => show(named()));
}

// === Files that are dropped or pasted anywhere on the page ===

const drop = find('[data-role="drop"]');
const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

async function give(file) {
  if (!file || !(await settled)) return; // the message says why
  if (shown !== "photo") tabs.photo.click();
  show("photo"); // which starts it again if it failed
  if (views.photo.state === "loading") views.photo.set({ message: "The network is still loading. The photo is captioned after that." });
  (await started.photo?.catch(() => null))?.look(file);
}

addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault(); // else the browser would leave the page for the file
  drop.dataset.over = "true";
});
addEventListener("dragleave", () => { drop.dataset.over = "false"; });
addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  drop.dataset.over = "false";
  give(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => give(event.clipboardData?.files[0]));

// Read which captioners the page has; return whether that worked.
async function readSettings() {
  try {
    settings = await (await fetchPart(new URL("page.json", import.meta.url))).json();
    tabs.scenes.hidden = !settings.scenes.length;
    find('[data-role="about"]').textContent = settings.about;
    listen();
    return true;
  } catch (error) {
    views[shown].fail(error);
    return false;
  }
}

const settled = window.keras_sat_is_old ? Promise.resolve(false) : readSettings();
if (await settled) show(named());
