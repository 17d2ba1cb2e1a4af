"use strict";
// Updates changed content, shows times in the reader's time zone, and sends requests of the user. Without it pages show the
// same content in UTC, but do not update.
(() => {
  const live = document.getElementById("live");
  const byId = (id) => document.getElementById(id);
  // Forms that are sent to the gateway's API.
  const FORMS = "form[data-begin], form[data-cancel], form[data-pin], form[data-release]";
  let again = 0;

  // Times: the local time, then UTC.
  const pad = (number) => String(number).padStart(2, "0");
  const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  let zones = null;
  function zone(at) {
    // Creating the formatter takes longer than the other work for a page.
    zones ??= new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });
    const part = zones.formatToParts(at).find((it) => it.type === "timeZoneName");
    return part ? part.value : "local";
  }
  function localize(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.dataset.local = "yes";
      const utc = at.toISOString().slice(0, 16).replace("T", " ");
      if (at.getTimezoneOffset() === 0) {
        if (!time.title) time.title = `${utc} UTC`;
        continue;
      }
      const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}`, local = `${day(at)} ${clock} ${zone(at)}`;
      if (time.classList.contains("age")) {
        time.title = `${local} (${utc} UTC)`;
      } else if (time.closest(".ledger")) {
        time.textContent = `${clock}:${pad(at.getSeconds())} (${utc.slice(11)}:${pad(at.getSeconds())} UTC)`;
        time.title = `${local} (${time.dateTime})`;
      } else {
        time.textContent = `${local} (${utc.slice(0, 10) === day(at) ? utc.slice(11) : utc} UTC)`;
      }
    }
  }

  // Clocks of open runs.
  function tick() {
    for (const clock of document.querySelectorAll("[data-since]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - new Date(clock.dataset.since)) / 1000));
      const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
      clock.textContent = h ? `${h}h ${pad(m)}m ${pad(s)}s` : m ? `${m}m ${pad(s)}s` : `${s}s`;
    }
  }

  async function refresh() {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const here of document.querySelectorAll("#live-content, [data-part]")) {
      const there = page.getElementById(here.id);
      // Do not replace a form that the user is filling in, or a request that is in progress.
      const busy = here.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), select");
      if (!there || busy || here.querySelector(`:is(${FORMS}) button:disabled`)) continue;
      replace(here, there);
    }
    const tail = byId("tail");
    if (tail && !page.getElementById("tail") && !tail.querySelector("pre").textContent) tail.remove();
    const place = page.getElementById("live-content");
    if (place && !place.dataset.live) live.textContent = "";
    begin();
  }

  function replace(here, there) {
    const opened = [...here.querySelectorAll("details")].map((it) => it.open);
    const selected = new Set([...here.querySelectorAll("input[name=run]:checked")].map((it) => it.value));
    const focused = here.contains(document.activeElement) ? document.activeElement.value || document.activeElement.getAttribute("href") : null;
    here.innerHTML = there.innerHTML;
    if (there.dataset.pending) here.dataset.pending = there.dataset.pending;
    else delete here.dataset.pending;
    here.querySelectorAll("details").forEach((it, at) => { it.open = opened[at] ?? it.open; });
    here.querySelectorAll("input[name=run]").forEach((it) => { it.checked = selected.has(it.value); });
    if (focused) [...here.querySelectorAll("a, input")].find((it) => (it.value || it.getAttribute("href")) === focused)?.focus();
  }

  // Combine several records into one update.
  function soon(after = 150) {
    clearTimeout(again);
    again = setTimeout(refresh, after);
  }

  const place = byId("live-content");
  if (place && place.dataset.live) {
    const events = new EventSource(place.dataset.live);
    events.onopen = () => { live.textContent = "live"; };
    events.onerror = () => { live.textContent = "not connected"; };
    events.addEventListener("record", () => soon());
    events.addEventListener("changed", () => soon());
    events.addEventListener("end", () => { events.close(); soon(); });
  }

  async function send(form, method, path, body) {
    const said = form.querySelector(".said"), button = form.querySelector("button");
    button.disabled = true;
    said.textContent = "sent";
    try {
      const content = body ? { headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {};
      const response = await fetch(path, { method, ...content });
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

  // At most two runs can be selected.
  function select() {
    const boxes = [...document.querySelectorAll("input[name=run]")], chosen = boxes.filter((it) => it.checked).length;
    boxes.forEach((it) => { it.disabled = chosen >= 2 && !it.checked; });
    const note = document.querySelector("[data-selected]"), button = document.querySelector("#compare button");
    if (!note) return;
    note.textContent = chosen === 2 ? "two runs selected" : chosen === 1 ? "select one more run" : "select two runs";
    button.disabled = chosen !== 2;
  }

  // New lines of the running job's output. The number of kept lines is bounded.
  const LINES = 1000;
  async function follow(tail) {
    const box = tail.querySelector(".tail"), pre = tail.querySelector("pre"), said = tail.querySelector(".said");
    let job = "", after = 0, kept = [];
    for (;;) {
      let answer = null;
      try {
        const response = await fetch(`${tail.dataset.tail}?after=${after}&job=${encodeURIComponent(job)}`);
        if (response.ok) answer = await response.json();
      } catch { /* the server restarts: try again */ }
      if (answer) {
        if (answer.job && answer.job !== job) {
          [job, after] = [answer.job, 0];
          if (answer.check) kept.push(`--- ${answer.check} ---`);
        }
        const below = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
        if (answer.lines.length) {
          if (answer.first > after + 1) kept.push(`(${answer.first - after - 1} lines left out)`);
          kept.push(...answer.lines);
          after = answer.last;
        }
        const text = kept.splice(0, Math.max(0, kept.length - LINES)) && kept.join("\n");
        if (pre.textContent !== text) pre.textContent = text;
        if (below) box.scrollTop = box.scrollHeight;
        said.textContent = answer.problem || answer.ended || (answer.open ? (job ? "live" : "no job is running yet") : "ended; the collected logs are below");
        if (!answer.open) return;
      }
      await new Promise((done) => setTimeout(done, document.hidden ? 5000 : 1000));
    }
  }

  function begin() {
    for (const form of document.querySelectorAll(FORMS)) {
      if (form.dataset.ready) continue;
      form.dataset.ready = "yes";
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const asked = Object.fromEntries(new FormData(form)), { begin, cancel, pin, release } = form.dataset;
        if (begin) {
          const begun = await send(form, "POST", begin, asked);
          if (begun) location.href = "/runs/" + encodeURIComponent(begun.run);
        } else if (cancel) {
          await send(form, "POST", cancel, { reason: asked.reason || "cancelled on the run page" });
        } else if (pin) {
          if (await send(form, "PUT", pin, asked)) location.reload();
        } else if (await send(form, "DELETE", `${release}?why=${encodeURIComponent(asked.why)}`)) {
          location.reload();
        }
      });
    }
    localize(document);
    select();
    tick();
    // The server is still reading values: reload after 1.5 s.
    if (byId("live-content")?.dataset.pending) soon(1500);
  }
  document.addEventListener("change", (event) => { if (event.target.matches("input[name=run]")) select(); });
  document.addEventListener("click", (event) => {
    const point = event.target.closest?.("[data-run]");
    if (point) location.href = "/runs/" + encodeURIComponent(point.dataset.run);
  });
  begin();
  setInterval(tick, 1000);
  const tail = byId("tail");
  if (tail) follow(tail);
})();
