"use strict";
// Updates changed content and sends requests of the user. Without it pages show the same content, but do not update.
(() => {
  const live = document.getElementById("live");
  let again = 0;

  async function refresh() {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const [here, there] = [document, page].map((it) => it.getElementById("live-content"));
    if (!here || !there) return;
    // Do not replace a form that the user is filling in.
    if (here.contains(document.activeElement) && document.activeElement.matches("input, select")) return;
    const opened = [...here.querySelectorAll("details")].map((it) => it.open);
    const chosen = [...here.querySelectorAll("input:checked")].map((it) => [it.name, it.value]);
    here.innerHTML = there.innerHTML;
    for (const it of here.querySelectorAll("input[type=radio]")) it.checked = chosen.some(([name, value]) => name === it.name && value === it.value);
    here.querySelectorAll("details").forEach((it, at) => { it.open = opened[at] ?? it.open; });
    const tools = document.querySelector(".tools"), newTools = page.querySelector(".tools");
    if (tools && newTools && !tools.contains(document.activeElement)) tools.innerHTML = newTools.innerHTML;
    begin();
    localize();
    if (!there.dataset.live) live.textContent = "";
  }

  // Combine several records into one update.
  function soon() {
    clearTimeout(again);
    again = setTimeout(refresh, 150);
  }

  const place = document.getElementById("live-content");
  if (place && place.dataset.live) {
    const events = new EventSource(place.dataset.live);
    events.onopen = () => { live.textContent = "live"; };
    events.onerror = () => { live.textContent = "not connected"; };
    events.addEventListener("record", soon);
    events.addEventListener("changed", soon);
    events.addEventListener("end", () => { events.close(); soon(); });
  }

  async function send(form, path, body) {
    const said = form.querySelector(".said"), button = form.querySelector("button");
    button.disabled = true;
    said.textContent = "sent";
    try {
      const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.detail || answer.title || response.statusText);
      said.textContent = "done";
      return answer;
    } catch (error) {
      said.textContent = error.message;
      return null;
    } finally {
      button.disabled = false;
    }
  }

  function begin() {
    for (const form of document.querySelectorAll("form[data-begin], form[data-cancel]")) {
      if (form.dataset.ready) continue;
      form.dataset.ready = "yes";
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const asked = Object.fromEntries(new FormData(form));
        if (form.dataset.begin) {
          const begun = await send(form, form.dataset.begin, asked);
          if (begun) location.href = "/runs/" + encodeURIComponent(begun.run);
        } else {
          await send(form, form.dataset.cancel, { reason: asked.reason || "cancelled on the run page" });
        }
      });
    }
  }
  begin();

  // Times in the reader's time zone, with UTC beside them.
  function localize() {
    for (const time of document.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (isNaN(at) || at.getTimezoneOffset() === 0) continue;
      time.dataset.local = "yes";
      time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) + " (" + time.textContent + ")";
    }
  }
  localize();

  // How long an open run has been running.
  function tick() {
    for (const clock of document.querySelectorAll("[data-since]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - new Date(clock.dataset.since)) / 1000));
      const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
      clock.textContent = (hours ? hours + " h " : "") + (hours || minutes ? minutes + " min " : "") + (seconds % 60) + " s";
    }
  }
  tick();
  setInterval(tick, 1000);

  // A click on a line of a log makes the address name it. Selecting text does not.
  document.querySelector(".log")?.addEventListener("click", (event) => {
    const line = event.target.closest("li");
    if (line && !getSelection().toString()) location.hash = line.id;
  });
})();
