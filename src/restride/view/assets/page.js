"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const { names, bits, labels } = document.body.dataset;
  const width = bits.split(" ").map(Number), label = labels.split(" ");
  const all = [...document.querySelectorAll("g[data-i]")];
  const sides = label.map(() => []);
  const byIndex = new Map();
  for (const cell of all) {
    const memory = cell.closest("[data-side]");
    if (memory) sides[Number(memory.dataset.side)].push(cell);
    if (!byIndex.has(cell.dataset.i)) byIndex.set(cell.dataset.i, []);
    byIndex.get(cell.dataset.i).push(cell);
  }
  // Reversed axes are drawn from low offsets to high all the same, so cells stand in the order of memory.
  const slider = get("step"), choice = get("side"), play = get("play"), where = get("where");
  label.forEach((name, i) => choice.add(new Option(name, i)));
  choice.hidden = label.length < 2;

  // Offsets are whole numbers of any size: as BigInt they stay exact.
  const byteOf = (offset, side) => {
    const at = BigInt(offset) * BigInt(width[side]);
    return `${at / 8n}${at % 8n ? ".5" : ""}`;
  };
  const describe = (cell) => {
    const index = cell.dataset.i.split(",");
    const place = names.split(",").map((name, d) => `${name}=${index[d]}`).join(" ");
    const at = (offset, side) => `   ${label[side]}: element ${offset}, byte ${byteOf(offset, side)}`;
    const { kind, o, at: offsets } = cell.dataset;
    if (!kind) return `(${place})${offsets.split(" ").map(at).join("")}`;
    return `${kind} (${place})${at(o, Number(cell.closest("[data-side]").dataset.side))}`;
  };

  let marked = [];
  // Scrolls a picture until a cell of it is in sight, and nothing else of the page.
  const show = (cell) => {
    const pane = cell.closest("section"), at = cell.getBoundingClientRect(), in_ = pane.getBoundingClientRect();
    const off = (low, high, from, to) => (low < from ? low - from - 24 : high > to ? high - to + 24 : 0);
    pane.scrollBy(off(at.left, at.right, in_.left, in_.right), off(at.top, at.bottom, in_.top, in_.bottom));
  };
  // The picture that is pointed at, `from`, stays as it is.
  const mark = (cell, from = null) => {
    marked.forEach((other) => other.classList.remove("here"));
    // Padding of one side is no place of the other, whatever its position.
    marked = cell.dataset.kind ? [cell] : byIndex.get(cell.dataset.i).filter((c) => !c.dataset.kind);
    marked.forEach((other) => other.classList.add("here"));
    marked.filter((other) => other.closest("section") !== from).forEach(show);
    where.textContent = describe(cell);
  };

  let passed = [];
  const steps = () => sides[Number(choice.value)];
  const go = (to) => {
    const cells = steps();
    if (!cells.length) return;
    const at = Math.max(0, Math.min(cells.length - 1, to));
    slider.value = at;
    passed.forEach((cell) => cell.classList.remove("passed"));
    passed = cells.slice(0, at).flatMap((c) => c.dataset.kind ? [c] : byIndex.get(c.dataset.i));
    passed.forEach((cell) => cell.classList.add("passed"));
    mark(cells[at]);
  };
  const restart = () => { slider.max = Math.max(0, steps().length - 1); slider.value = 0; };
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "play"; };
  const start = () => {
    if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
    play.textContent = "stop";
    timer = setInterval(() => {
      go(Number(slider.value) + 1);
      if (slider.value === slider.max) stop();
    }, 160);
  };

  document.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.("g[data-i]");
    if (cell && !timer) mark(cell, cell.closest("section"));
  });
  get("back").onclick = () => { stop(); go(Number(slider.value) - 1); };
  get("next").onclick = () => { stop(); go(Number(slider.value) + 1); };
  play.onclick = () => (timer ? stop() : start());
  slider.oninput = () => { stop(); go(Number(slider.value)); };
  choice.onchange = () => { stop(); restart(); go(0); };
  document.addEventListener("keydown", (event) => {
    if (event.target === slider || event.target === choice) return;
    if (event.key === "ArrowRight") { stop(); go(Number(slider.value) + 1); event.preventDefault(); }
    if (event.key === "ArrowLeft") { stop(); go(Number(slider.value) - 1); event.preventDefault(); }
  });
  restart();
})();
