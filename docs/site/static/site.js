// A formula that is wider than the page scrolls: let the keyboard reach it. The theme does so for code and tables.
function reachWideFormulas() {
  for (const formula of document.querySelectorAll("div.formula")) {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  }
}

// The switches of the theme's lists have no text.
function nameSwitches() {
  for (const element of document.querySelectorAll("summary")) {
    if (!element.textContent.trim()) element.setAttribute("aria-label", "Pages below this one");
  }
}

window.addEventListener("load", nameSwitches);
window.addEventListener("load", reachWideFormulas);
window.addEventListener("resize", reachWideFormulas);
