// What the page says where its modules cannot run: in a browser that is too old, or where a part is missing. It is plain
// old script, so that such browsers run it.
(function () {
  "use strict";
  var tooOld = "This browser is too old for the page: it needs one of 2023 or later.";

  function fail(text) {
    var root = document.querySelector(".sat-page");
    root.setAttribute("data-state", "error");
    root.querySelector('[data-role="message"]').textContent = text;
  }

  window.keras_sat_is_old = !window.WebAssembly || !window.DecompressionStream || !Array.prototype.findLastIndex || !("noModule" in document.createElement("script"));
  document.addEventListener("DOMContentLoaded", function () {
    if (window.keras_sat_is_old) fail(tooOld);
  });
  window.addEventListener("error", function (event) {
    var source = event.target && event.target.src;
    if (!source || event.target.tagName !== "SCRIPT") return;
    if (location.protocol === "file:") fail("A browser does not run this page from a file. `keras-sat app FOLDER` serves its folder, and any web server does.");
    else fail("A part of this page is missing, or this browser is too old for it: " + source);
  }, true);
})();
