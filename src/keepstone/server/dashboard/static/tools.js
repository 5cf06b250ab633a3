// keepstone: the playground, the map, and the other pages of tools.css. Every page works without it.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// -- forms that take a while: say so, and do not send them twice -------------------------------------------------------
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.busy) return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
  const button = event.submitter ?? $("button", form);
  button.textContent = `${form.dataset.busy}…`;
  button.setAttribute("aria-disabled", "true");
});

// -- the theme: the system's, light or dark -------------------------------------------------------------------------------
$$("[data-theme-choice]").forEach((select) => {
  select.closest("label").hidden = false;
  select.addEventListener("change", () => {
    const theme = select.value, root = document.documentElement;
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    document.cookie = `keepstone-theme=${theme}; path=/; max-age=${theme ? 31536000 : 0}; samesite=strict`;
    $$("[data-theme-choice]").forEach((other) => { other.value = theme; });
  });
});

// -- the map: drawn from the table next to it --------------------------------------------------------------------------
function readNodes(table) {
  const nodes = $$("tr[data-name]", table).map((row) => ({
    name: row.dataset.name, kind: row.dataset.kind, count: Number(row.dataset.count), links: JSON.parse(row.dataset.links),
    href: $("a", row).getAttribute("href"), x: 0, y: 0, dx: 0, dy: 0,
  }));
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const edges = nodes.flatMap((node) => node.links.filter(([other]) => byName.has(other) && node.name < other)
    .map(([other, count]) => ({ from: node, to: byName.get(other), count })));
  return { nodes, edges };
}

// Fruchterman and Reingold's layout, from the same start each time, so that a map looks the same when it is opened again. It is
// made in a square without borders and then stretched to the canvas.
function arrange(nodes, edges, width, height) {
  nodes.forEach((node, at) => {
    const angle = at * 2.39996, far = Math.sqrt((at + 0.5) / nodes.length);
    node.x = far * Math.cos(angle);
    node.y = far * Math.sin(angle);
  });
  const apart = 1.6 / Math.sqrt(nodes.length);
  for (let step = 0, heat = 0.2; step < 300; step += 1, heat *= 0.985) {
    for (const one of nodes) {
      const far = Math.hypot(one.x, one.y);
      one.dx = -one.x * far * 2; // towards the middle, the more the farther out
      one.dy = -one.y * far * 2;
      for (const other of nodes) {
        if (one === other) continue;
        const x = one.x - other.x || 1e-3, y = one.y - other.y || 1e-3, square = x * x + y * y;
        one.dx += (x / square) * apart * apart;
        one.dy += (y / square) * apart * apart;
      }
    }
    for (const { from, to, count } of edges) {
      const x = from.x - to.x, y = from.y - to.y, pull = (Math.hypot(x, y) / apart) * Math.min(0.6 + 0.3 * Math.log(count), 1.5);
      from.dx -= x * pull; from.dy -= y * pull; to.dx += x * pull; to.dy += y * pull;
    }
    for (const node of nodes) {
      const far = Math.hypot(node.dx, node.dy) || 1, move = Math.min(far, heat);
      node.x += (node.dx / far) * move;
      node.y += (node.dy / far) * move;
    }
  }
  const fit = (axis, from, to) => {
    const places = nodes.map((node) => node[axis]), least = Math.min(...places), span = Math.max(...places) - least || 1;
    nodes.forEach((node) => { node[axis] = from + ((node[axis] - least) / span) * (to - from); });
  };
  fit("x", Math.min(70, width * 0.12), width - Math.min(70, width * 0.12));
  fit("y", 24, height - 36);
}

function drawMap(place) {
  const table = $("[data-entities]"), canvas = $("canvas", place), status = document.getElementById("map-status");
  const { nodes, edges } = readNodes(table);
  if (!nodes.length) return;
  place.hidden = false;
  const colour = (selector, property = "background-color") => getComputedStyle($(selector)).getPropertyValue(property);
  let chosen = -1, hovered = -1, width = 0, height = 0;

  function size(node) { return 4 + Math.min(Math.sqrt(node.count) * 2.2, 14); }

  function paint() {
    const pen = canvas.getContext("2d"), scale = devicePixelRatio || 1;
    canvas.width = width * scale; canvas.height = height * scale;
    pen.scale(scale, scale);
    const ink = getComputedStyle(canvas).color, ground = getComputedStyle(place.closest(".panel")).backgroundColor;
    const shown = chosen >= 0 ? nodes[chosen] : nodes[hovered];
    const near = shown && new Set([shown, ...edges.filter((edge) => edge.from === shown || edge.to === shown).flatMap((edge) => [edge.from, edge.to])]);
    for (const { from, to, count } of edges) {
      const bright = !shown || from === shown || to === shown;
      pen.globalAlpha = bright ? 0.35 : 0.08;
      pen.strokeStyle = ink; pen.lineWidth = Math.min(0.6 + Math.log(count + 1) * 0.8, 4);
      pen.beginPath(); pen.moveTo(from.x, from.y); pen.lineTo(to.x, to.y); pen.stroke();
    }
    const boxes = [];
    const ordered = [...nodes].sort((one, other) => (other === shown) - (one === shown) || other.count - one.count);
    for (const node of ordered) {
      pen.globalAlpha = !near || near.has(node) ? 1 : 0.25;
      pen.fillStyle = colour(`.dot.k-${node.kind}`);
      pen.beginPath(); pen.arc(node.x, node.y, size(node), 0, 7); pen.fill();
      if (node === shown) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.stroke(); }
    }
    for (const node of ordered) {
      pen.globalAlpha = !near || near.has(node) ? 1 : 0.25;
      pen.font = `${node === shown ? 600 : 400} 12px ${getComputedStyle(document.body).fontFamily}`;
      const label = node.name.length > 24 ? `${node.name.slice(0, 23)}…` : node.name, long = pen.measureText(label).width;
      const left = Math.min(Math.max(node.x - long / 2, 2), width - long - 2), top = node.y + size(node) + 2;
      const box = [left - 2, top, left + long + 2, top + 14];
      if (node !== shown && boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      boxes.push(box);
      pen.lineJoin = "round"; pen.lineWidth = 3; pen.strokeStyle = ground; pen.fillStyle = ink; pen.textBaseline = "top";
      pen.strokeText(label, left, top); pen.fillText(label, left, top);
    }
    pen.globalAlpha = 1;
  }

  function lay() {
    width = canvas.clientWidth; height = canvas.clientHeight;
    arrange(nodes, edges, width, height);
    paint();
  }

  const at = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return nodes.findIndex((node) => Math.hypot(node.x - x, node.y - y) < size(node) + 6);
  };
  canvas.addEventListener("pointermove", (event) => {
    const found = at(event);
    if (found === hovered) return;
    hovered = found; canvas.classList.toggle("over", found >= 0);
    paint();
  });
  canvas.addEventListener("pointerleave", () => { hovered = -1; paint(); });
  canvas.addEventListener("click", (event) => { const found = at(event); if (found >= 0) location.assign(nodes[found].href); });
  canvas.addEventListener("blur", () => { chosen = -1; paint(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      chosen = (Math.max(chosen, step > 0 ? -1 : 0) + step + nodes.length) % nodes.length;
      const node = nodes[chosen];
      status.textContent = `${node.name}, ${node.kind}, ${node.count === 1 ? "1 memory" : `${node.count} memories`}`;
      paint();
    } else if (event.key === "Enter" && chosen >= 0) {
      location.assign(nodes[chosen].href);
    }
  });
  new ResizeObserver(() => { if (canvas.clientWidth !== width) lay(); }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  new MutationObserver(paint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  lay();
}

$$("[data-map]").forEach(drawMap);

// -- imports: the file is sent with its progress -------------------------------------------------------------------------
$$("form[data-upload]").forEach((form) => form.addEventListener("submit", (event) => {
  event.preventDefault();
  const file = $("input[type=file]", form).files[0], bar = $("progress", form), said = $("[role=status]", form), button = $("button", form);
  if (!file || button.disabled) return;
  const request = new XMLHttpRequest();
  const end = (text, tone) => { button.disabled = false; bar.hidden = true; said.textContent = text; said.className = `note ${tone}`; };
  button.disabled = true; bar.hidden = false; bar.value = 0; said.className = "small-text";
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    bar.value = (100 * loaded) / total;
    said.textContent = loaded < total ? `${Math.round(bar.value)}% sent` : "The server reads the file…";
    if (loaded === total) bar.removeAttribute("value");
  });
  request.addEventListener("load", () => {
    if (request.status !== 200) {
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      return end($(".note, .gate p:not(.wordmark):not(.status)", page)?.textContent ?? `The server answered ${request.status}.`, "bad");
    }
    const report = JSON.parse(request.responseText);
    const [error] = report.errors;
    if (error) return end(`Nothing was imported. Line ${error.line}: ${error.problem}`, "bad");
    end(`${report.added} imported, ${report.skipped} skipped because they exist already.`, "good");
  });
  request.addEventListener("error", () => end("The server cannot be reached. Try again in a moment.", "bad"));
  request.open("POST", form.getAttribute("action"));
  request.setRequestHeader("X-Token", form.dataset.upload);
  request.setRequestHeader("X-Fragment", "1");
  request.setRequestHeader("Content-Type", "application/jsonl");
  request.send(file);
}));

// -- the API explorer: sends what a form describes -------------------------------------------------------------------------
$$("form[data-api-key]").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
$$("form[data-api]").forEach((form) => form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = $("[data-answer]", form), query = new URLSearchParams(), body = $("[data-body]", form);
  const headers = {};
  const key = document.getElementById("api-key").value.trim(), user = document.getElementById("api-user").value.trim();
  if (key) headers.Authorization = `Bearer ${key}`;
  if (key && user) headers["X-Keepstone-User"] = user;
  let path = form.dataset.path;
  for (const field of $$("[data-in]", form)) {
    if (field.dataset.in === "path") path = path.replace(new RegExp(`\\{${field.name}(:path)?\\}`), encodeURIComponent(field.value));
    else if (field.value && field.dataset.in === "query") query.append(field.name, field.value);
    else if (field.value) headers[field.name] = field.value;
  }
  if (body) headers["Content-Type"] = body.value.trim().startsWith("{") || body.value.trim().startsWith("[") ? "application/json" : "application/jsonl";
  answer.hidden = false;
  answer.textContent = "…";
  try {
    const response = await fetch(path + (query.size ? `?${query}` : ""), { method: form.dataset.method, headers, body: body?.value, credentials: "omit" });
    const text = await response.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON */ }
    answer.textContent = `${response.status} ${response.statusText}\n\n${shown.slice(0, 20000)}`;
  } catch {
    answer.textContent = "The server cannot be reached. Try again in a moment.";
  }
}));
