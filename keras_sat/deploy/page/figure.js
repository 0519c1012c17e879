// The player of the pages that Python writes (player.js, from player.html), on this page.

import { fillPlayer, startPlayer } from "./player.js";
import { shownOf } from "./maps.js";

// Put a player of a result into an element; `picture` is { address, width, height }. Return the figure.
export function showPlayer(place, result, picture) {
  const figure = document.querySelector("template").content.firstElementChild.cloneNode(true);
  const shown = shownOf(result, picture.width / picture.height, picture.address);
  fillPlayer(figure, shown);
  place.replaceChildren(figure);
  startPlayer(figure, shown);
  return figure;
}

// A player whose picture is a canvas, and whose caption may change many times a second.
export class LivePlayer {
  // `isFirst` says whether a word may be the first one that is chosen.
  constructor(place, picture, label, isFirst) {
    Object.assign(this, { place, picture, label, isFirst, words: null });
  }

  // Show another result. The buttons stay where the words are the same; the chosen position stays.
  show(result) {
    const shown = shownOf(result, 1);
    if (result.words.join(" ") === this.words) {
      this.update(shown);
    } else {
      const figure = document.querySelector("template").content.firstElementChild.cloneNode(true);
      figure.setAttribute("aria-label", this.label);
      figure.querySelector('[data-role="note"]').removeAttribute("aria-live"); // it changes many times a second
      fillPlayer(figure, shown);
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width: this.picture.width, height: this.picture.height }).dataset.role = "picture";
      figure.querySelector("img").replaceWith(canvas);
      const before = this.place.querySelector("figure");
      const step = before ? Number(before.dataset.step) : Math.max(result.words.findIndex(this.isFirst), 0);
      const hadFocus = before?.contains(document.activeElement) && document.activeElement.dataset.step;
      if (before) before.replaceWith(figure); else this.place.append(figure);
      this.update = startPlayer(figure, shown);
      this.words = result.words.join(" ");
      const buttons = figure.querySelectorAll("button[data-step]"), last = buttons.length - 1;
      if (last >= 0 && step >= 0) buttons[Math.min(step, last)][hadFocus ? "focus" : "click"]({ preventScroll: true });
    }
    this.place.querySelector('[data-role="picture"]').getContext("2d").drawImage(this.picture, 0, 0);
  }
}
