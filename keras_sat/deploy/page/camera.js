// The camera: open it, take a photo, close it. It is on only while its picture is on the page.

export function startCamera(find, look, say) {
  const panel = find('[data-role="camera"]'), video = find("video");
  const open = find('[data-action="camera"]'), shoot = find('[data-action="shoot"]');
  const canBeAsked = Boolean(navigator.mediaDevices?.getUserMedia);
  let asked = 0; // a camera that opens after it was closed again is closed at once

  function stop() {
    asked += 1;
    video.srcObject?.getTracks().forEach((track) => track.stop());
    video.srcObject = null;
    const hadFocus = panel.contains(document.activeElement);
    panel.hidden = true;
    open.disabled = !canBeAsked;
    if (hadFocus) open.focus();
  }

  open.addEventListener("click", async () => {
    const mine = ++asked;
    open.disabled = true;
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      if (mine !== asked) return stream.getTracks().forEach((track) => track.stop());
      shoot.disabled = true; // until there is a picture
      video.srcObject = stream;
      panel.hidden = false;
      find('[data-action="close"]').focus();
      await video.play();
    } catch (error) {
      if (mine !== asked) return;
      stop();
      say(`No camera can be used here (${error.name}). Choose a photo instead.`);
    }
  });
  video.addEventListener("loadeddata", () => { shoot.disabled = false; });
  shoot.addEventListener("click", () => {
    const frame = document.createElement("canvas");
    [frame.width, frame.height] = [video.videoWidth, video.videoHeight];
    frame.getContext("2d").drawImage(video, 0, 0);
    stop();
    frame.toBlob((blob) => blob && look(new File([blob], "the camera's photo", { type: "image/png" })), "image/png");
  });
  find('[data-action="close"]').addEventListener("click", stop);
  addEventListener("pagehide", stop);
  open.disabled = !canBeAsked;
  return { stop };
}
