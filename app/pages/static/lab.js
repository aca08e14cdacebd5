// What HTML and htmx cannot do: keep what a reader has opened or ticked, copy, jump to a line, zoom into a chart.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // --- parts that are replaced while they are read ---
  const kept = new Map();
  const boxKey = (box) => `${box.name}=${box.value}`;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const old = event.detail.target;
    kept.set(old.id, {
      details: new Map([...old.querySelectorAll("details[id]")].map((one) => [one.id, one.open])),
      boxes: new Set([...old.querySelectorAll(".pick input:checked")].map(boxKey)),
    });
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const [id, state] of kept) {
      const fresh = id && document.getElementById(id);
      if (!fresh) continue;
      for (const one of fresh.querySelectorAll("details[id]")) {
        if (state.details.has(one.id)) one.open = state.details.get(one.id);
      }
      for (const box of fresh.querySelectorAll(".pick input")) box.checked = state.boxes.has(boxKey(box));
    }
    kept.clear();
    announce();
  });

  // --- what screen readers are told ---
  let told = null;
  function announce() {
    const now = [...document.querySelectorAll("[data-announce]")].map((one) => one.dataset.announce).join(". ");
    if (told !== null && now !== told) document.getElementById("announce").textContent = now;
    told = now;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    if (button.dataset.line) jump(Number(button.dataset.line));
    if (button.dataset.source) explore(button);
  });

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: copy it";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  function jump(line) {
    const text = document.getElementById("text");
    const lines = text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line - 1] || "").length);
    text.scrollTop = (line - 4) * parseFloat(getComputedStyle(text).lineHeight);
  }

  // --- charts with a cursor and a zoom ---
  let library = null;
  function uPlotLoaded() {
    library ??= new Promise((resolve, reject) => {
      const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: document.body.dataset.uplotCss });
      const script = Object.assign(document.createElement("script"), { src: document.body.dataset.uplotJs, onload: resolve, onerror: reject });
      document.head.append(style, script);
    });
    return library;
  }

  async function explore(button) {
    const figure = button.closest("figure");
    const drawing = figure.querySelector(".drawing");
    const open = figure.querySelector(".explored");
    if (open) {
      open.remove();
      drawing.hidden = false;
      button.textContent = "Zoom and read values";
      return;
    }
    const [response] = await Promise.all([fetch(button.dataset.source), uPlotLoaded()]);
    if (!response.ok) return;
    const { items } = await response.json();
    const place = document.createElement("div");
    place.className = "explored";
    drawing.after(place);
    draw(place, items, button.dataset.columns.split(","), drawing.clientWidth || figure.clientWidth);
    drawing.hidden = true;
    button.textContent = "Back to the drawing";
  }

  function draw(place, items, [x, y, series, kind], width) {
    const names = [...new Set(items.map((one) => one[series]))];
    const tables = names.map((name) => {
      const own = items.filter((one) => one[series] === name);
      return [own.map((one) => one[x]), own.map((one) => one[y])];
    });
    const style = getComputedStyle(root);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const options = {
      width,
      height: 320,
      scales: { x: { time: false, distr: kind === "log" ? 3 : 1 } },
      axes: [{ ...axis, label: x.replace(/_/g, " ") }, { ...axis, label: y.replace(/_/g, " ") }],
      series: [{ label: x.replace(/_/g, " ") }, ...names.map((name, index) => ({ label: name, stroke: color(`--arm-${index % 8}`), width: 1.8, spanGaps: true, points: { show: false } }))],
    };
    new uPlot(options, uPlot.join(tables), place);
  }

  document.addEventListener("DOMContentLoaded", announce);
  if (document.readyState !== "loading") announce();
})();
