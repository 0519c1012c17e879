// The player of the pages that Python writes (player.js, from player.html), on this page.

import { fillPlayer, startPlayer } from "./player.js";

// Return a new element with these properties and children.
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function figureOf(shown) {
  const figure = document.querySelector("template").content.firstElementChild.cloneNode(true);
  fillPlayer(figure, shown);
  return figure;
}

// Put a player of a result into an element.
export function showPlayer(place, result, { address, width, height }) {
  const shown = { ...result, aspect: width / height, photo: address }, figure = figureOf(shown);
  place.replaceChildren(figure);
  startPlayer(figure, shown);
}

// A player whose picture is a canvas, and whose caption may change many times a second.
export class LivePlayer {
  constructor(place, picture, label) {
    const canvas = element("canvas", { width: picture.width, height: picture.height });
    canvas.dataset.role = "picture";
    Object.assign(this, { place, picture, label, canvas, words: null });
  }

  // Show another result. The buttons are kept if the words are the same, and so is the chosen position, at first `step`.
  show(result, step) {
    const shown = { ...result, aspect: 1, photo: null }, words = result.words.join(" ");
    this.canvas.getContext("2d").drawImage(this.picture, 0, 0);
    if (words === this.words) return this.update(shown);
    const before = this.place.querySelector("figure"), figure = figureOf(shown);
    figure.setAttribute("aria-label", this.label);
    figure.querySelector('[data-role="note"]').removeAttribute("aria-live"); // it changes many times a second
    figure.querySelector("img").replaceWith(this.canvas);
    before?.remove();
    this.place.append(figure);
    this.update = startPlayer(figure, shown);
    this.words = words;
    figure.querySelectorAll("button[data-step]")[Math.min(before?.dataset.step ?? step, result.words.length - 1)]?.click();
  }
}
