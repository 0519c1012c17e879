// The camera: open it, take a photo, close it. It is on only while its image is on the page.

import { element } from "./figure.js";

export function startCamera(find, look, say) {
  const panel = find('[data-role="camera"]'), video = find("video"), open = find('[data-action="camera"]');

  function stop() {
    video.srcObject?.getTracks().forEach((track) => track.stop());
    video.srcObject = null;
    open.disabled = !navigator.mediaDevices?.getUserMedia;
    if (panel.contains(document.activeElement)) open.focus();
    panel.hidden = true;
  }

  open.addEventListener("click", async () => {
    open.disabled = true;
    try {
      video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      await video.play();
      if (find("#panel-photo").hidden) return stop(); // another tab was chosen meanwhile
      panel.hidden = false;
      find('[data-action="shoot"]').focus();
    } catch (error) {
      stop();
      say(`The camera cannot be used (${error.name}). Choose a photo instead.`);
    }
  });
  find('[data-action="shoot"]').addEventListener("click", () => {
    const frame = element("canvas", { width: video.videoWidth, height: video.videoHeight });
    frame.getContext("2d").drawImage(video, 0, 0);
    stop();
    frame.toBlob((blob) => blob && look(new File([blob], "the camera's photo", { type: "image/png" })), "image/png");
  });
  find('[data-action="close"]').addEventListener("click", stop);
  for (const kind of ["hashchange", "pagehide"]) addEventListener(kind, stop);
  stop();
}
