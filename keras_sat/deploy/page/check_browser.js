// Says why the page's modules cannot run: an old browser, or a missing part. Old browsers can run this plain script.
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
    if (location.protocol === "file:") fail("A browser does not run this page from a file. `keras-sat app FOLDER` or any web server serves its folder.");
    else fail("A part of this page is missing, or this browser is too old for it: " + source);
  }, true);
})();
