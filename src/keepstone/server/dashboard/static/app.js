// keepstone: what makes the dashboard quicker to use. Every page works without it.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// -- fragments: the server renders, this puts it in place ---------------------------------------------------------
const asked = new Map(); // target -> what is under way, so that a later answer is never replaced by an earlier one

async function fragment(address, target) {
  asked.get(target)?.abort();
  const mine = new AbortController();
  asked.set(target, mine);
  try {
    const response = await fetch(address, { headers: { "X-Fragment": "1" }, signal: mine.signal, redirect: "manual" });
    if (response.status === 401 || response.type === "opaqueredirect") return location.reload();
    const text = await response.text();
    if (!mine.signal.aborted) {
      target.innerHTML = text;
      announce(target);
      enliven(target);
    }
  } catch (error) {
    if (error.name !== "AbortError") target.textContent = "The server cannot be reached. Try again in a moment.";
  }
}

function announce(target) {
  const status = document.getElementById(`${target.id}-status`);
  const said = $("[data-status]", target)?.dataset.status;
  if (status && said) status.textContent = said;
}

function query(form) {
  const fields = [...new FormData(form)].filter(([name, value]) => name && value !== "");
  return new URLSearchParams(fields).toString();
}

function address(form) {
  const fields = query(form);
  return form.getAttribute("action") + (fields ? `?${fields}` : ""); // form.action may be a field of that name
}

function later(work, delay) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(work, delay); };
}

// -- forms that update while the user types, or without leaving the page ------------------------------------------
function live(form) {
  const target = document.getElementById(form.dataset.live);
  const show = () => { const to = address(form); history.replaceState(null, "", to); fragment(to, target); };
  form.addEventListener("input", later(show, 160));
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  announce(target);
}

function partly(form) {
  const target = document.getElementById(form.dataset.part);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (form.getAttribute("action") === location.pathname) history.replaceState(null, "", address(form));
    fragment(address(form), target);
  });
}

function enliven(within) {
  $$("form[data-live]", within).forEach(live);
  $$("form[data-part]", within).forEach(partly);
  $$("[data-load]", within).forEach((place) => fragment(place.dataset.load, place));
  $$("[data-copy]", within).forEach((button) => { button.hidden = false; });
}

// -- what clicks do -----------------------------------------------------------------------------------------------
document.addEventListener("click", async (event) => {
  const at = event.target.closest("a, button");
  if (!at) return;
  if (at.matches("[data-more]")) {
    event.preventDefault();
    const response = await fetch(at.href, { headers: { "X-Fragment": "1" } });
    if (!response.ok) return location.assign(at.href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = [...page.getElementById(at.dataset.more).children];
    const list = document.getElementById(at.dataset.more);
    list.append(...fresh);
    const next = $("[data-more]", page);
    if (next) at.href = next.getAttribute("href"); else at.parentElement.remove();
    $("a", fresh[0])?.focus();
  } else if (at.matches("[data-why]")) {
    event.preventDefault();
    $$("[data-why]").forEach((each) => each.setAttribute("aria-expanded", each === at));
    const place = document.getElementById("why-not");
    await fragment(at.dataset.why, place);
    place.scrollIntoView({ block: "nearest" });
  } else if (at.matches("[data-open]")) {
    event.preventDefault();
    open(at.dataset.open);
  } else if (at.matches("[data-close]")) {
    event.preventDefault();
    at.closest("dialog").close();
  } else if (at.matches("[data-copy]")) {
    await navigator.clipboard?.writeText($("code", at.parentElement).textContent);
    at.textContent = "Copied";
    setTimeout(() => { at.textContent = "Copy"; }, 1500);
  }
});

document.addEventListener("submit", (event) => {
  const sure = event.target.dataset.sure;
  if (sure && !confirm(sure)) event.preventDefault();
});

function open(id) {
  const dialog = document.getElementById(id);
  if (dialog && !dialog.open) dialog.showModal();
}

// -- keys ---------------------------------------------------------------------------------------------------------
const typing = (target) => target.closest("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || $("dialog[open]")) return;
  if (event.key === "/") {
    const search = $("[data-search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "?" && document.getElementById("help")) {
    open("help");
  } else if ("jk".includes(event.key)) {
    walk(event.key === "j" ? 1 : -1);
  } else {
    decide(event);
  }
});

function walk(step) {
  const places = $$("[data-item]").length ? $$("[data-item]") : $$("[data-walk] .said-line a");
  if (!places.length) return;
  const here = places.findIndex((place) => place.contains(document.activeElement));
  const next = places[Math.min(Math.max(here + step, 0), places.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

const DECISIONS = { a: "keep", 1: "keep", r: "retire", 3: "retire", c: "correct", 2: "correct" };

function decide(event) {
  const item = document.activeElement?.closest?.("[data-item]") ?? $("[data-item]");
  if (!item) return;
  if (event.key === "x") return $("[data-pick]", item)?.click();
  if (event.key === "o") return $(".facts a", item)?.click();
  const decision = DECISIONS[event.key];
  if (!decision) return;
  event.preventDefault();
  if (decision === "correct") {
    const details = $("details.correct", item);
    if (details) { details.open = true; $("textarea", details).focus(); }
  } else {
    $(`button[value="${decision}"]`, item)?.click();
  }
}

function reviewing() {
  const list = $("[data-review]");
  if (!list) return;
  const items = $$("[data-item]", list);
  const next = sessionStorage.getItem("review");
  sessionStorage.removeItem("review");
  if (!document.activeElement || document.activeElement === document.body) {
    (items.find((item) => item.dataset.item === next) ?? items[0])?.focus({ preventScroll: next === null }); // so that keys act at once
  }
  list.addEventListener("submit", (event) => {
    const at = items.indexOf(event.target.closest("[data-item]"));
    sessionStorage.setItem("review", (items[at + 1] ?? items[at - 1])?.dataset.item ?? "");
  });
}

// -- names for the fields that change the scope, once they are opened -----------------------------------------------
function naming(details) {
  details.addEventListener("toggle", () => {
    $$("datalist[data-of]", details).forEach((list) => fragment(`/users/names?of=${list.dataset.of}`, list));
  }, { once: true });
}

// -- selecting several --------------------------------------------------------------------------------------------
function picking() {
  const all = $("[data-pick-all]"), count = $("[data-picked]");
  if (!all || !count) return;
  const show = () => {
    const picks = $$("[data-pick]"), picked = picks.filter((pick) => pick.checked).length;
    count.textContent = picked ? `${picked} selected` : "none selected";
    all.checked = picked > 0 && picked === picks.length;
    all.indeterminate = picked > 0 && picked < picks.length;
    $$("[data-count]").forEach((place) => { place.textContent = picked; });
  };
  document.addEventListener("change", ({ target }) => {
    if (target === all) $$("[data-pick]").forEach((pick) => { pick.checked = all.checked; });
    if (target === all || target.matches("[data-pick]")) show();
  });
  show();
}

// -- the timeline -------------------------------------------------------------------------------------------------
function timeline(form) {
  const target = document.getElementById(form.dataset.time);
  const slider = $("[data-slider]", form);
  const first = Date.parse(form.dataset.first), last = Date.parse(form.dataset.last), step = Number(form.dataset.step) * 1000;
  const at = form.elements.at;
  const show = later(() => {
    const to = address(form);
    history.replaceState(null, "", to);
    fragment(to, target);
  }, 120);
  const words = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
  const veil = () => $(".veil", form)?.setAttribute("x", (1000 * slider.value) / slider.max);
  slider.addEventListener("input", () => {
    const time = new Date(Math.min(first + Number(slider.value) * step, last));
    at.value = time.toISOString().slice(0, 16);
    slider.setAttribute("aria-valuetext", words.format(time));
    veil();
    show();
  });
  at.addEventListener("change", () => {
    slider.value = Math.round((Date.parse(`${at.value}Z`) - first) / step);
    veil();
    show();
  });
  form.addEventListener("change", ({ target: { name, value } }) => {
    if (!name || name === "at") return;
    sessionStorage.setItem("time", `[name="${name}"]${name === "mode" ? `[value="${value}"]` : ""}`); // where the focus comes back to
    location.assign(address(form));
  });
  const left = sessionStorage.getItem("time");
  sessionStorage.removeItem("time");
  if (left) $(left, form)?.focus();
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
}

// -- signing in by a link: what follows # is not sent to the server. A person confirms it, because any site may link here ---
function byLink() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return;
  const form = $("form[data-sign-in]");
  if (!form) return location.replace(`/sign-in${location.hash}`);
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.key.value = key;
  $("[data-from-link]").hidden = false;
  $("[data-from-link] code").textContent = key.split("_").slice(0, 2).join("_");
  $("button", form).focus();
}

byLink();
enliven(document);
$$("form[data-time]").forEach(timeline);
$$("dialog[open]").forEach((dialog) => { dialog.close(); dialog.showModal(); });
if (location.hash.length > 1 && document.getElementById(location.hash.slice(1))?.matches("dialog")) open(location.hash.slice(1));
reviewing();
picking();
$$("details[data-names]").forEach(naming);
addEventListener("hashchange", byLink);
